//! What `cargo metadata` says of the workspace, cut down to what the rules ask.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// One direct dependency of a workspace package on another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectDep {
    pub from: String,
    pub to: String,
    /// A dev-dependency: it reaches tests and never the product.
    pub dev: bool,
}

/// Package name to the names of the packages it depends on.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

pub struct Workspace {
    pub root: PathBuf,
    /// Between workspace packages only.
    pub direct: Vec<DirectDep>,
    /// Of all packages, normal dependencies only, features as the whole workspace resolves them.
    pub normal: Graph,
}

impl Workspace {
    pub fn load() -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1"])
            .output()
            .context("running cargo metadata")?;
        ensure!(
            output.status.success(),
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Self::from_metadata(&serde_json::from_slice(&output.stdout)?)
    }

    fn from_metadata(metadata: &Value) -> Result<Self> {
        let root = text(metadata, "workspace_root")?.into();
        let packages = list(metadata, "packages")?;
        let mut names = BTreeMap::new();
        for package in packages {
            names.insert(text(package, "id")?, text(package, "name")?);
        }
        let members: BTreeSet<&str> = list(metadata, "workspace_members")?
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let mut direct = Vec::new();
        for package in packages {
            if members.contains(text(package, "id")?) {
                direct.extend(direct_deps(package, &members, &names)?);
            }
        }
        Ok(Self {
            root,
            direct,
            normal: normal_graph(metadata, &names)?,
        })
    }
}

fn direct_deps(
    package: &Value,
    members: &BTreeSet<&str>,
    names: &BTreeMap<&str, &str>,
) -> Result<Vec<DirectDep>> {
    let ours: BTreeSet<&str> = members.iter().filter_map(|id| names.get(id).copied()).collect();
    let mut deps = Vec::new();
    for dep in list(package, "dependencies")? {
        let to = text(dep, "name")?;
        // A registry package may share a name with one of ours; only ours has a path.
        if ours.contains(to) && dep["path"].is_string() {
            deps.push(DirectDep {
                from: text(package, "name")?.into(),
                to: to.into(),
                dev: dep["kind"].as_str() == Some("dev"),
            });
        }
    }
    Ok(deps)
}

fn normal_graph(metadata: &Value, names: &BTreeMap<&str, &str>) -> Result<Graph> {
    let name = |id: &str| names.get(id).copied().context("a package id without a package");
    let mut graph = Graph::new();
    for node in list(&metadata["resolve"], "nodes")? {
        let to = graph.entry(name(text(node, "id")?)?.to_owned()).or_default();
        for dep in list(node, "deps")? {
            if list(dep, "dep_kinds")?.iter().any(|kind| kind["kind"].is_null()) {
                to.insert(name(text(dep, "pkg")?)?.to_owned());
            }
        }
    }
    Ok(graph)
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key]
        .as_str()
        .with_context(|| format!("cargo metadata has no {key}"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a [Value]> {
    let array = value[key]
        .as_array()
        .with_context(|| format!("cargo metadata has no {key}"))?;
    Ok(array)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_kinds_from_metadata() {
        let metadata = json!({
            "workspace_root": "ws",
            "workspace_members": ["a#1", "b#1"],
            "packages": [
                { "id": "a#1", "name": "a", "dependencies": [
                    { "name": "b", "kind": null, "path": "ws/b" },
                    { "name": "b", "kind": "dev", "path": "ws/b" },
                    { "name": "x", "kind": null },
                ] },
                { "id": "b#1", "name": "b", "dependencies": [] },
                { "id": "x#1", "name": "x", "dependencies": [] },
            ],
            "resolve": { "nodes": [
                { "id": "a#1", "deps": [
                    { "pkg": "b#1", "dep_kinds": [{ "kind": "dev" }] },
                    { "pkg": "x#1", "dep_kinds": [{ "kind": "build" }, { "kind": null }] },
                ] },
                { "id": "b#1", "deps": [] },
                { "id": "x#1", "deps": [] },
            ] },
        });
        let workspace = Workspace::from_metadata(&metadata).unwrap();
        let kinds: Vec<_> = workspace
            .direct
            .iter()
            .map(|d| (d.from.as_str(), d.to.as_str(), d.dev))
            .collect();
        assert_eq!(kinds, [("a", "b", false), ("a", "b", true)]);
        assert_eq!(workspace.normal["a"], BTreeSet::from(["x".to_owned()]));
    }
}
