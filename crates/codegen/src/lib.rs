//! Generates what is checked in and made from something else: etcd's message types and client stubs from our .proto
//! files, and the definitions of the custom resources from their Rust types.
//!
//! In: `crates/wire/proto/*.proto`, `crates/api`. Out: messages in `crates/wire/src/gen`, client stubs in
//! `crates/client/src/gen`, definitions in `config/crd`. A test holds what is checked in against it.
//! Must never run as part of a build, and must never need `protoc`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tonic_prost_build::FileDescriptorSet;

const HEADER: &str = "// @generated from crates/wire/proto by `make codegen`; do not edit.\n";
const DEFINITION_HEADER: &str = "# @generated from crates/api by `make codegen`; do not edit.\n";
const PACKAGES: [&str; 8] = [
    "authpb",
    "etcdserverpb",
    "leasepb",
    "membershippb",
    "mvccpb",
    "raftpb",
    "snappb",
    "walpb",
];

/// What is generated: generated file name to text.
type Files = BTreeMap<String, String>;

/// Each directory of generated files below `root`, and what belongs into it.
fn generated(root: &Path) -> Result<[(PathBuf, Files); 3]> {
    let descriptors = compile(&root.join("crates/wire/proto"))?;
    Ok([
        (root.join("crates/wire/src/gen"), messages(&descriptors)?),
        (root.join("crates/client/src/gen"), stubs(&descriptors)?),
        (root.join("config/crd"), definitions()?),
    ])
}

/// The repository that this crate lies in.
pub fn repository() -> Result<&'static Path> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .context("crates/codegen lies in a repository")
}

/// Writes all that is generated, and removes what no longer is.
pub fn write_all(root: &Path) -> Result<()> {
    for (dir, files) in generated(root)? {
        write(&dir, &files)?;
    }
    Ok(())
}

/// Generated files that differ from what would be written now.
pub fn stale(root: &Path) -> Result<Vec<PathBuf>> {
    let mut stale = Vec::new();
    for (dir, files) in generated(root)? {
        stale.extend(differences(&dir, &files)?);
    }
    Ok(stale)
}

fn compile(proto: &Path) -> Result<FileDescriptorSet> {
    let mut files = Vec::new();
    for entry in fs::read_dir(proto).with_context(|| format!("read {}", proto.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "proto") {
            files.push(path);
        }
    }
    files.sort();
    ensure!(!files.is_empty(), "no .proto files in {}", proto.display());
    let mut descriptors = protox::compile(&files, [proto]).context("compile .proto files")?;
    // The remarks in the .proto files are for their readers; rustdoc would misread them.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    Ok(descriptors)
}

fn messages(descriptors: &FileDescriptorSet) -> Result<Files> {
    let mut config = tonic_prost_build::Config::new();
    config.bytes([".etcdserverpb.SnapshotResponse.blob"]);
    let builder = tonic_prost_build::configure()
        .build_client(false)
        .build_server(false);
    generate(builder, config, descriptors)
}

fn stubs(descriptors: &FileDescriptorSet) -> Result<Files> {
    let mut builder = tonic_prost_build::configure()
        .build_client(true)
        .build_server(false);
    for package in PACKAGES {
        builder = builder.extern_path(format!(".{package}"), format!("::quorate_wire::{package}"));
    }
    let mut files = generate(builder, tonic_prost_build::Config::new(), descriptors)?;
    files.retain(|_, text| text.contains("pub mod "));
    Ok(files)
}

/// A file for each kind, named for its plural.
fn definitions() -> Result<Files> {
    let mut files = Files::new();
    for definition in quorate_api::crd::definitions() {
        let body = quorate_api::crd::yaml(&definition).context("write a definition as YAML")?;
        let name = format!("{}.yaml", definition.spec.names.plural);
        files.insert(name, format!("{DEFINITION_HEADER}{body}"));
    }
    Ok(files)
}

fn generate(
    builder: tonic_prost_build::Builder,
    config: tonic_prost_build::Config,
    descriptors: &FileDescriptorSet,
) -> Result<Files> {
    let out = tempfile::tempdir().context("create a scratch directory")?;
    builder
        .out_dir(out.path())
        .compile_fds_with_config(descriptors.clone(), config)
        .context("generate code")?;
    let mut files = read(out.path())?;
    for text in files.values_mut() {
        let body = text
            .split_once('\n')
            .filter(|(first, _)| first.contains("@generated"))
            .map(|(_, rest)| rest);
        *text = format!("{HEADER}{}", body.unwrap_or(text));
    }
    Ok(files)
}

fn read(dir: &Path) -> Result<Files> {
    let mut files = Files::new();
    if !dir.exists() {
        return Ok(files);
    }
    for entry in fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let text =
            fs::read_to_string(entry.path()).with_context(|| format!("read {}", entry.path().display()))?;
        files.insert(name, text);
    }
    Ok(files)
}

fn write(dir: &Path, files: &Files) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    for name in read(dir)?.keys().filter(|name| !files.contains_key(*name)) {
        fs::remove_file(dir.join(name)).with_context(|| format!("remove {name}"))?;
    }
    for (name, text) in files {
        fs::write(dir.join(name), text).with_context(|| format!("write {name}"))?;
    }
    Ok(())
}

fn differences(dir: &Path, wanted: &Files) -> Result<Vec<PathBuf>> {
    let found = read(dir)?;
    let names = found
        .keys()
        .chain(wanted.keys())
        .collect::<std::collections::BTreeSet<_>>();
    Ok(names
        .into_iter()
        .filter(|name| found.get(*name) != wanted.get(*name))
        .map(|name| dir.join(name))
        .collect())
}
