//! A guide's text, as what is to be done with it: commands to run, files to write, fragments of manifests to try.
//!
//! In: Markdown. Out: its fenced blocks, in order. Never: a block of a kind that is not known, which nobody would run.

/// Something a guide shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A command after `$`, and the lines shown below it.
    Run {
        /// The command, for a shell.
        command: String,
        /// What it prints, in parts.
        shown: Vec<String>,
    },
    /// A file, which commands after it can use: a block marked `yaml` and a name.
    File {
        name: String,
        /// What is in it.
        text: String,
    },
    /// A part of an EtcdCluster: a block marked `yaml` alone.
    Fragment(String),
}

/// What `text` shows. `console` says how blocks of commands are marked.
pub fn items(text: &str, console: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(mark) = line.strip_prefix("```") else {
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match mark.split_once(' ') {
            _ if mark == console => commands(&block, &mut items),
            None if mark == "yaml" => items.push(Item::Fragment(joined(&block))),
            Some(("yaml", name)) => items.push(Item::File {
                name: name.to_owned(),
                text: joined(&block),
            }),
            _ => {}
        }
    }
    items
}

/// The marks of all blocks of `text`, for who wants none to be forgotten.
pub fn marks(text: &str) -> Vec<&str> {
    let fences = text.lines().filter_map(|line| line.strip_prefix("```"));
    fences.step_by(2).collect()
}

fn joined(block: &[&str]) -> String {
    block.iter().map(|line| format!("{line}\n")).collect()
}

fn commands(block: &[&str], items: &mut Vec<Item>) {
    for line in block {
        if let Some(command) = line.strip_prefix("$ ") {
            items.push(Item::Run {
                command: command.to_owned(),
                shown: Vec::new(),
            });
        } else if let Some(Item::Run { shown, .. }) = items.last_mut() {
            shown.push((*line).to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_in_order() {
        let text =
            "text\n```console\n$ one 1\nout\n$ two\n```\n```yaml a.yaml\na: 1\n```\n```yaml\nb: 2\n```\n";
        let run = |command: &str, shown: &[&str]| Item::Run {
            command: command.to_owned(),
            shown: shown.iter().map(|s| (*s).to_owned()).collect(),
        };
        let file = Item::File {
            name: "a.yaml".to_owned(),
            text: "a: 1\n".to_owned(),
        };
        let fragment = Item::Fragment("b: 2\n".to_owned());
        let all = vec![run("one 1", &["out"]), run("two", &[]), file, fragment];
        assert_eq!(items(text, "console"), all);
        assert_eq!(marks(text), ["console", "yaml a.yaml", "yaml"]);
    }
}
