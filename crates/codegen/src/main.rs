//! `make codegen`: writes all generated files anew.

fn main() -> anyhow::Result<()> {
    quorate_codegen::write_all(quorate_codegen::repository()?)
}
