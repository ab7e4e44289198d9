//! Dependencies between workspace crates go one way: from what runs etcd down to what only decides or decodes.

use super::workspace::DirectDep;

enum Allowed {
    Only(&'static [&'static str]),
    AllBut(&'static [&'static str]),
}
use Allowed::{AllBut, Only};

const HOST_SIDE: Allowed = Only(&[
    "quorate-core",
    "quorate-api",
    "quorate-client",
    "quorate-datadir",
    "quorate-pki",
    "quorate-backup",
]);

const OPERATOR_SIDE: Allowed = Only(&[
    "quorate-core",
    "quorate-api",
    "quorate-client",
    "quorate-datadir",
    "quorate-pki",
    "quorate-backup",
    "quorate-pod",
]);

/// What a crate may depend on directly. None: the crate has no row, and must be given one.
fn allowed(from: &str) -> Option<Allowed> {
    Some(match from {
        "quorate-wire" | "quorate-core" | "quorate-pki" => Only(&[]),
        "quorate-datadir" | "quorate-testkit" => Only(&["quorate-wire"]),
        "quorate-client" => Only(&["quorate-core", "quorate-wire"]),
        "quorate-api" => Only(&["quorate-core"]),
        "quorate-backup" => Only(&[
            "quorate-core",
            "quorate-datadir",
            "quorate-client",
            "quorate-wire",
        ]),
        "quorate-pod" => Only(&["quorate-core", "quorate-datadir"]),
        "quorate-host" => HOST_SIDE,
        "quorate-operator" => OPERATOR_SIDE,
        "quorate-sim" => AllBut(&["quorate"]),
        "quorate-codegen" => Only(&["quorate-api"]),
        "xtask" => Only(&[]),
        "quorate" | "quorate-tests" => AllBut(&[]),
        _ => return None,
    })
}

/// Core's tests must run with core alone, so for it dev-dependencies count too.
const STRICT: &str = "quorate-core";

pub fn check(deps: &[DirectDep]) -> Vec<String> {
    deps.iter()
        .filter(|dep| !dep.dev || dep.from == STRICT)
        .filter_map(breach)
        .collect()
}

fn breach(dep: &DirectDep) -> Option<String> {
    let DirectDep { from, to, .. } = dep;
    let permitted = match allowed(from) {
        None => return Some(format!("{from} has no row in the table of allowed dependencies")),
        Some(Only(names)) => names.contains(&to.as_str()),
        Some(AllBut(names)) => !names.contains(&to.as_str()),
    };
    (!permitted).then(|| format!("{from} must not depend on {to}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dep(from: &str, to: &str, dev: bool) -> DirectDep {
        DirectDep {
            from: from.into(),
            to: to.into(),
            dev,
        }
    }

    #[test]
    fn accepts_the_way_down() {
        let deps = [
            dep("quorate", "quorate-host", false),
            dep("quorate-host", "quorate-core", false),
            dep("quorate-sim", "quorate-host", false),
            dep("quorate-client", "quorate-wire", false),
            dep("quorate-operator", "quorate-pod", false),
        ];
        assert_eq!(check(&deps), [""; 0]);
    }

    #[test]
    fn refuses_the_way_up() {
        let deps = [
            dep("quorate-core", "quorate-client", false),
            dep("quorate-sim", "quorate", false),
            dep("quorate-pki", "quorate-core", false),
            dep("quorate-pod", "quorate-api", false),
            dep("quorate-host", "quorate-pod", false),
        ];
        assert_eq!(check(&deps).len(), 5);
        assert!(check(&deps)[0].contains("quorate-core must not depend on quorate-client"));
    }

    #[test]
    fn exempts_dev_dependencies_but_those_of_core() {
        assert!(check(&[dep("quorate-host", "quorate-sim", true)]).is_empty());
        assert_eq!(check(&[dep("quorate-core", "quorate-sim", true)]).len(), 1);
    }

    #[test]
    fn refuses_a_crate_without_a_row() {
        assert!(check(&[dep("quorate-new", "quorate-core", false)])[0].contains("no row"));
    }
}
