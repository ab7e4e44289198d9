//! The end of a test that takes too long: its process and all that it started.

use std::collections::BTreeMap;
use std::process::Command;

/// Ends a process and everything below it, by their ids. What lives on in spite of it is no child of it any more.
pub fn end_with_children(pid: u32) {
    let mut ids = descendants(pid);
    ids.insert(0, pid);
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    // A process that ended meanwhile makes kill fail, which is as good.
    let _ = Command::new("kill").arg("-KILL").args(&ids).output();
}

fn descendants(of: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()) {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![of];
    while let Some(pid) = next.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        next.extend(below);
    }
    found
}

/// The fourth field; the second is a name in parentheses, which may hold spaces and parentheses itself.
fn parent(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_whatever_the_name() {
        assert_eq!(parent("12 (a b) c) S 7 12 12 0"), Some(7));
        assert_eq!(parent(""), None);
    }

    #[test]
    fn children_of_children_end_too() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 60 & echo; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let below = descendants(child.id());
        assert_eq!(below.len(), 1);
        end_with_children(child.id());
        child.wait().unwrap();
        // The pipe is at its end only when the sleeping child, which holds the other end too, is gone.
        let mut rest = Vec::new();
        std::io::Read::read_to_end(child.stdout.as_mut().unwrap(), &mut rest).unwrap();
    }
}
