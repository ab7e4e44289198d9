//! Crates that decide or decode stay free of runtimes and network stacks, however far down those hide.

use std::collections::{BTreeMap, VecDeque};

use super::workspace::Graph;

const PURE: [&str; 4] = ["quorate-core", "quorate-wire", "quorate-datadir", "quorate-pod"];
const KEPT_OUT: [&str; 3] = ["tokio", "tonic", "kube"];

pub fn check(graph: &Graph) -> Vec<String> {
    let mut breaches = Vec::new();
    for pure in PURE {
        for unwanted in KEPT_OUT {
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
