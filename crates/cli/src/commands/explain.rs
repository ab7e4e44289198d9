//! `quorate explain [REASON]`: the page of a reason, or the list of all. What is true only on a host, or only on
//! Kubernetes, is left out where it is known that the reason was seen on the other.

use std::path::PathBuf;

use quorate_core::reason::{self, SeenOn};

use crate::arguments;
use crate::failure::Failure;
use crate::render::{paragraph, style};
use crate::{roots, say};

/// Prints the page or the list.
pub fn run(root: Option<PathBuf>, arguments: &arguments::Explain) -> Result<(), Failure> {
    let Some(asked) = &arguments.reason else {
        say::print(&list());
        return Ok(());
    };
    match reason::explain(asked) {
        Some((_, text)) => {
            match seen_on(root, arguments.on) {
                Some(seen) => say::print(&page(&reason::page_on(text, seen))),
                None => say::print(&page(text)),
            }
            Ok(())
        }
        None => Err(unknown(asked)),
    }
}

/// Where the reason was seen, as far as that can be known.
fn seen_on(root: Option<PathBuf>, named: Option<arguments::SeenOn>) -> Option<SeenOn> {
    match named {
        Some(arguments::SeenOn::Host) => Some(SeenOn::Host),
        Some(arguments::SeenOn::Kubernetes) => Some(SeenOn::Kubernetes),
        // Every container of a pod has it.
        None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => Some(SeenOn::Kubernetes),
        None => {
            let root = roots::resolve(root).ok()?;
            root.journal().exists().then_some(SeenOn::Host)
        }
    }
}

/// A page of Markdown, as a terminal shows it best.
fn page(text: &str) -> String {
    let line = |line: &str| match line.trim_start_matches('#') {
        heading if heading.len() < line.len() => style::paint(style::HEAD, heading.trim_start()),
        _ => paragraph::wrap(line, paragraph::WIDTH, "", ""),
    };
    let lines: Vec<String> = text.trim_end().lines().map(line).collect();
    format!("{}\n", lines.join("\n"))
}

/// Every reason with the first sentence of its page.
fn list() -> String {
    let width = reason::names().map(str::len).max().unwrap_or(0);
    let row = |(name, page): (&str, &str)| {
        let rest = " ".repeat(width + 4);
        let text = paragraph::wrap(first_sentence(page), paragraph::WIDTH, &rest, &rest);
        let padding = " ".repeat(width - name.len() + 2);
        format!(
            "  {}{padding}{}\n",
            style::paint(style::NAME, name),
            text.trim_start()
        )
    };
    let waits: String = reason::WaitReason::ALL
        .iter()
        .map(|reason| row((reason.name(), reason.page())))
        .collect();
    let blocks: String = reason::BlockReason::ALL
        .iter()
        .map(|reason| row((reason.name(), reason.page())))
        .collect();
    let others: String = reason::StatusReason::ALL
        .iter()
        .map(|reason| row((reason.name(), reason.page())))
        .collect();
    let events: String = reason::EventReason::ALL
        .iter()
        .map(|reason| row((reason.name(), reason.page())))
        .collect();
    format!(
        "{}\n{waits}\n{}\n{blocks}\n{}\n{others}\n{}\n{events}\n`quorate explain REASON` prints the whole page.\n",
        style::paint(style::HEAD, "What quorate may wait for; it passes by itself:"),
        style::paint(style::HEAD, "What may block it until someone acts:"),
        style::paint(
            style::HEAD,
            "What else the conditions of an EtcdCluster or EtcdPeer say:"
        ),
        style::paint(style::HEAD, "What else its Warning events say:"),
    )
}

fn first_sentence(page: &str) -> &str {
    let body = page
        .lines()
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .unwrap_or("");
    body.split_once(". ")
        .map_or(body, |(first, _)| first)
        .trim_end_matches('.')
}

fn unknown(asked: &str) -> Failure {
    let mut near: Vec<(usize, &str)> = reason::names()
        .map(|name| (distance(asked, name), name))
        .collect();
    near.sort();
    let limit = (asked.chars().count() / 2).clamp(2, 6);
    let close = near
        .iter()
        .filter(|(far, _)| *far <= limit)
        .take(3)
        .map(|(_, name)| *name);
    let close: Vec<&str> = close.collect();
    let advice = match close.as_slice() {
        [] => String::new(),
        names => format!("Did you mean {}? ", names.join(" or ")),
    };
    Failure::usage(format!("there is no reason {asked:?}"))
        .and(&format!("{advice}`quorate explain` lists them all."))
}

/// How many letters must be changed to make one of the other; the case does not count. A part of a name is near it.
fn distance(asked: &str, name: &str) -> usize {
    let (asked, name) = (asked.to_lowercase(), name.to_lowercase());
    if asked.len() >= 3 && name.contains(&asked) {
        return 1;
    }
    let name: Vec<char> = name.chars().collect();
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (at, letter) in asked.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in name.iter().enumerate() {
            let change = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested() {
        assert_eq!(distance("kitten", "sitting"), 3);
        let text = unknown("NoQuorm").to_string();
        assert!(text.contains("Did you mean NoQuorum"), "{text}");
        assert!(
            unknown("quorum").to_string().contains("NoQuorum or QuorumLost"),
            "{}",
            unknown("quorum")
        );
        assert!(!unknown("xyzzyxyzzy").to_string().contains("Did you mean"));
    }

    #[test]
    fn a_page_loses_its_marks_and_the_list_has_one_line_each() {
        let page = page("# Name\n\n## What\nwords\n");
        assert_eq!(
            anstream::adapter::strip_str(&page).to_string(),
            "Name\n\nWhat\nwords\n"
        );
        let list = anstream::adapter::strip_str(&list()).to_string();
        for name in reason::names() {
            let row = list
                .lines()
                .find(|line| line.trim_start().starts_with(&format!("{name} ")));
            assert!(
                row.is_some_and(|row| row.len() > name.len() + 12),
                "{name} in {list}"
            );
        }
    }
}
