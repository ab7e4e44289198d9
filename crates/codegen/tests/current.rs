//! What is checked in is what would be generated.

#[test]
fn generated_code_is_current() {
    let stale = quorate_codegen::stale(quorate_codegen::repository().unwrap()).unwrap();
    assert!(stale.is_empty(), "stale, run `make codegen`: {stale:?}");
}
