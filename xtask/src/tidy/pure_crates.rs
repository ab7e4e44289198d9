//! Crates that decide or decode stay free of runtimes and network stacks, however far down those hide; and what does
//! not speak Kubernetes stays free of its types, which take longer to compile than all of ours.

use std::collections::{BTreeMap, VecDeque};

use super::workspace::Graph;

/// Crates, and what they must not reach.
const KEPT_OUT: [(&[&str], &[&str]); 2] = [
    (
        &["quorate-core", "quorate-wire", "quorate-datadir", "quorate-pod"],
        &["tokio", "tonic", "kube", "k8s-openapi"],
    ),
    (&["quorate-client", "quorate-pki"], &["kube", "k8s-openapi"]),
];

pub fn check(graph: &Graph) -> Vec<String> {
    let mut breaches = Vec::new();
    for (crates, unwanted) in KEPT_OUT {
        for (pure, unwanted) in crates
            .iter()
            .flat_map(|one| unwanted.iter().map(move |other| (*one, *other)))
        {
            if let Some(path) = shortest_path(graph, pure, unwanted) {
                breaches.push(format!("{pure} must not reach {unwanted}: {}", path.join(" -> ")));
            }
        }
    }
    breaches
}

fn shortest_path<'a>(graph: &'a Graph, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        if at == to {
            let mut path = vec![at];
            while let Some(previous) = came_from.get(path[path.len() - 1]) {
                path.push(previous);
            }
            path.reverse();
            return Some(path);
        }
        for next in graph.get(at).into_iter().flatten() {
            if next != from && !came_from.contains_key(next.as_str()) {
                came_from.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*from).into()).or_default().insert((*to).into());
        }
        graph
    }

    #[test]
    fn finds_what_hides_below() {
        let graph = graph(&[
            ("quorate-wire", "prost"),
            ("prost", "bytes"),
            ("quorate-datadir", "helper"),
            ("helper", "hyper"),
            ("hyper", "helper"),
            ("hyper", "tokio"),
        ]);
        assert_eq!(
            check(&graph),
            ["quorate-datadir must not reach tokio: quorate-datadir -> helper -> hyper -> tokio"]
        );
    }

    #[test]
    fn leaves_other_crates_alone() {
        assert!(check(&graph(&[("quorate-host", "tokio"), ("quorate-core", "serde")])).is_empty());
    }
}
