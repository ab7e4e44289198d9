//! What is shown against what is printed, without what differs from run to run.
//!
//! Never: a line that is shown and not printed, or printed and not shown, but where the guide says `…`; names, versions
//! and numbers that differ.

/// The letters and digits that Kubernetes makes names of pods with.
const POD_SUFFIX: &str = "bcdfghjklmnpqrstvwxz2456789";
/// A word of this in a guide stands for whatever is printed there; a line of it for any number of lines.
const ANYTHING: &str = "…";

/// How what is printed differs from what is shown; `None` if it does not. Empty lines do not count, and faults (`* …`)
/// come in any order, as an API server lists them.
pub fn difference<'a>(shown: impl IntoIterator<Item = &'a str>, printed: &str) -> Option<String> {
    let shown = in_order(shown);
    let printed = in_order(printed.lines());
    let mut parts = shown.split(|line| line.trim() == ANYTHING);
    let mut rest = &printed[..];
    let first = parts.next().unwrap_or_default();
    if let Some(wrong) = first_wrong(first, rest) {
        return Some(wrong);
    }
    rest = &rest[first.len()..];
    let mut middle: Vec<&[&str]> = parts.collect();
    let Some(last) = middle.pop() else {
        return rest
            .first()
            .map(|line| format!("printed and not shown: {line:?}"));
    };
    for part in middle {
        let at = (0..=rest.len()).find(|at| first_wrong(part, &rest[*at..]).is_none());
        let Some(at) = at else {
            return Some(format!("shown and not printed: {part:?}"));
        };
        rest = &rest[at + part.len()..];
    }
    let Some(at) = rest.len().checked_sub(last.len()) else {
        return Some(format!("shown and not printed at the end: {last:?}"));
    };
    first_wrong(last, &rest[at..])
}

/// The first line of a part that the printed lines do not begin with.
fn first_wrong(part: &[&str], printed: &[&str]) -> Option<String> {
    let mut printed = printed.iter();
    part.iter().find_map(|shown| match printed.next() {
        Some(printed) if same(shown, printed) => None,
        Some(printed) => Some(format!("shown: {shown:?}, printed: {printed:?}")),
        None => Some(format!("shown and not printed: {shown:?}")),
    })
}

/// Without empty lines, and with runs of faults sorted.
fn in_order<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut lines: Vec<&str> = lines.into_iter().filter(|line| !line.trim().is_empty()).collect();
    for run in lines.chunk_by_mut(|a, b| a.starts_with("* ") && b.starts_with("* ")) {
        run.sort_unstable();
    }
    lines
}

/// Whether two lines are the same, but for what differs from run to run.
pub fn same(shown: &str, printed: &str) -> bool {
    let words = |line: &str| line.split_whitespace().map(shape).collect::<Vec<_>>();
    let (shown, printed) = (words(shown), words(printed));
    shown.len() == printed.len() && shown.iter().zip(&printed).all(|(s, p)| s == ANYTHING || s == p)
}

/// A word, or what kind of thing it is if it is another each time.
fn shape(word: &str) -> String {
    let bare = word.trim_matches('"');
    let kind = if is_id(bare) {
        "<id>"
    } else if is_volume(bare) {
        "<volume>"
    } else if is_address(bare) {
        "<address>"
    } else if is_span(bare) {
        "<span>"
    } else if let Some(owner) = pod_of(bare) {
        return word.replace(bare, &format!("{owner}-<pod>"));
    } else {
        return word.to_owned();
    };
    kind.to_owned()
}

/// A member's id: hexadecimal digits, as many as a u64 has, but for leading zeros.
fn is_id(word: &str) -> bool {
    (12..=16).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_volume(word: &str) -> bool {
    word.strip_prefix("pvc-")
        .is_some_and(|uid| uid.len() == 36 && uid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'))
}

fn is_address(word: &str) -> bool {
    word.parse::<std::net::Ipv4Addr>().is_ok()
}

/// An age such as `5m3s`.
fn is_span(word: &str) -> bool {
    let mut digits = false;
    for c in word.chars() {
        match c {
            '0'..='9' => digits = true,
            's' | 'm' | 'h' | 'd' if digits => digits = false,
            _ => return false,
        }
    }
    !word.is_empty() && !digits
}

fn pod_of(word: &str) -> Option<&str> {
    let (owner, suffix) = word.rsplit_once('-')?;
    let random = suffix.len() == 5 && suffix.chars().all(|c| POD_SUFFIX.contains(c));
    random.then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_does_not_count() {
        let table = [
            (
                "51938e7f648adbc2 my-cluster-2 true",
                "8eca1236bfa86a0a my-cluster-2 true",
            ),
            ("my-cluster   3   3.5.35   21s", "my-cluster 3 3.5.35 1m4s"),
            (
                "pod/my-cluster-1-9vd4m condition met",
                "pod/my-cluster-1-x7k2p condition met",
            ),
            (
                "pod \"my-cluster-1-9vd4m\" deleted",
                "pod \"my-cluster-1-x7k2p\" deleted",
            ),
            (
                "my-cluster-client ClusterIP 10.1.2.3",
                "my-cluster-client ClusterIP 10.201.9.9",
            ),
            (
                "pvc-71543b02-54ac-49d2-ad7d-35601ab5d48f 50Mi",
                "pvc-0b6f3c1e-8d52-4a5e-9c3b-5f1d2e7a9b10 50Mi",
            ),
            (
                "deployment.apps/quorate-operator …",
                "deployment.apps/quorate-operator unchanged",
            ),
        ];
        for (shown, printed) in table {
            assert!(same(shown, printed), "{shown:?} and {printed:?}");
        }
    }

    #[test]
    fn everything_else_counts() {
        let table = [
            ("my-cluster-1", "my-cluster-2"),
            ("3.5.35", "3.5.16"),
            ("3.6.0", "3.5.0"),
            ("hello", "hello hello"),
            ("True", "False"),
            ("50Mi", "100Mi"),
            ("pod/my-cluster-1-9vd4m", "pod/my-cluster-2-9vd4m"),
        ];
        for (shown, printed) in table {
            assert!(!same(shown, printed), "{shown:?} and {printed:?}");
        }
    }

    #[test]
    fn lines_are_all_shown_in_order() {
        let printed = "a\nb\n\nc\n";
        for shown in [
            &["a", "", "b", "c"][..],
            &["a", "…"],
            &["…", "c"],
            &["…", "b", "…"],
            &["…"],
        ] {
            assert_eq!(difference(shown.iter().copied(), printed), None, "{shown:?}");
        }
        for shown in [
            &["a", "c"][..],
            &["a", "b"],
            &["b", "…"],
            &["a", "…", "b"],
            &[],
            &["a", "b", "c", "d"],
        ] {
            assert!(difference(shown.iter().copied(), printed).is_some(), "{shown:?}");
        }
        assert_eq!(difference([], "\n"), None, "nothing is nothing");
        let faults = "invalid:\n* one\n* two\n";
        assert_eq!(difference(["invalid:", "* two", "* one"], faults), None);
        assert!(difference(["invalid:", "* two"], faults).is_some());
        assert!(difference(["invalid:", "* two", "* three"], faults).is_some());
    }
}
