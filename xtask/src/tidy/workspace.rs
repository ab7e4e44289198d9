//! What `cargo metadata` says of the workspace, cut down to what the rules ask.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use crate::Result;
use crate::json::Json;

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
            .map_err(|e| format!("run cargo metadata: {e}"))?;
        if !output.status.success() {
            return Err(format!(
                "cargo metadata: {}",
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        let metadata = Json::parse(&String::from_utf8_lossy(&output.stdout))?;
        Self::from_metadata(&metadata)
    }

    fn from_metadata(metadata: &Json) -> Result<Self> {
        let root = metadata.text("workspace_root")?.into();
        let packages = metadata.get("packages").list();
        let mut names = BTreeMap::new();
        for package in packages {
            names.insert(package.text("id")?, package.text("name")?);
        }
        let members: BTreeSet<&str> = metadata
            .get("workspace_members")
            .list()
            .iter()
            .filter_map(Json::as_str)
            .collect();
        let mut direct = Vec::new();
        for package in packages {
            if members.contains(package.text("id")?) {
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
    package: &Json,
    members: &BTreeSet<&str>,
    names: &BTreeMap<&str, &str>,
) -> Result<Vec<DirectDep>> {
    let ours: BTreeSet<&str> = members.iter().filter_map(|id| names.get(id).copied()).collect();
    let mut deps = Vec::new();
    for dep in package.get("dependencies").list() {
        let to = dep.text("name")?;
        // A registry package may share a name with one of ours; only ours has a path.
        if ours.contains(to) && dep.get("path").as_str().is_some() {
            deps.push(DirectDep {
                from: package.text("name")?.into(),
                to: to.into(),
                dev: dep.get("kind").as_str() == Some("dev"),
            });
        }
    }
    Ok(deps)
}

fn normal_graph(metadata: &Json, names: &BTreeMap<&str, &str>) -> Result<Graph> {
    let name = |id: &str| names.get(id).copied().ok_or("a package id without a package");
    let mut graph = Graph::new();
    for node in metadata.get("resolve").get("nodes").list() {
        let to = graph.entry(name(node.text("id")?)?.to_owned()).or_default();
        for dep in node.get("deps").list() {
            if dep
                .get("dep_kinds")
                .list()
                .iter()
                .any(|kind| kind.get("kind") == &Json::Null)
            {
                to.insert(name(dep.text("pkg")?)?.to_owned());
            }
        }
    }
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_kinds_from_metadata() {
        let metadata = r#"{
            "workspace_root": "ws",
            "workspace_members": ["a#1", "b#1"],
            "packages": [
                { "id": "a#1", "name": "a", "dependencies": [
                    { "name": "b", "kind": null, "path": "ws/b" },
                    { "name": "b", "kind": "dev", "path": "ws/b" },
                    { "name": "x", "kind": null }
                ] },
                { "id": "b#1", "name": "b", "dependencies": [] },
                { "id": "x#1", "name": "x", "dependencies": [] }
            ],
            "resolve": { "nodes": [
                { "id": "a#1", "deps": [
                    { "pkg": "b#1", "dep_kinds": [{ "kind": "dev" }] },
                    { "pkg": "x#1", "dep_kinds": [{ "kind": "build" }, { "kind": null }] }
                ] },
                { "id": "b#1", "deps": [] },
                { "id": "x#1", "deps": [] }
            ] }
        }"#;
        let workspace = Workspace::from_metadata(&Json::parse(metadata).unwrap()).unwrap();
        let kinds: Vec<_> = workspace
            .direct
            .iter()
            .map(|d| (d.from.as_str(), d.to.as_str(), d.dev))
            .collect();
        assert_eq!(kinds, [("a", "b", false), ("a", "b", true)]);
        assert_eq!(workspace.normal["a"], BTreeSet::from(["x".to_owned()]));
    }
}
