//! Why a program ended, as the end of its log says it.
//!
//! In: the last part of a log of etcd, or of anything else. Out: one line for people. etcd logs why it gives up as a line of
//! JSON (3.5 and later) or of text, and Go prints a stack behind it when it panics; the last line of that says nothing.

/// The longest line shown.
const LINE_MAX: usize = 300;
/// What a line begins with that says why a Go program ended.
const GO_ENDS: [&str; 3] = ["panic: ", "fatal error: ", "runtime: "];

/// The line of `tail` that says why it ended; `None` where there is none at all.
pub fn last_words(tail: &str) -> Option<String> {
    let lines: Vec<&str> = tail
        .lines()
        .map(str::trim_end)
        .filter(|l| !l.trim().is_empty())
        .collect();
    // What it printed besides its log, such as a stack, comes behind the last line of the log.
    let logged = lines.iter().rposition(|line| Entry::of(line).is_some());
    let printed = &lines[logged.map_or(0, |at| at + 1)..];
    let entry = logged.and_then(|at| Entry::of(lines[at]));
    let go = || {
        printed
            .iter()
            .find(|line| GO_ENDS.iter().any(|start| line.starts_with(start)))
    };
    let reported = || printed.iter().rfind(|line| !is_stack(line)).or(printed.last());
    let words = match &entry {
        Some(entry) if entry.is_end => entry.words.clone(),
        _ => match (go().or_else(reported), entry) {
            (Some(line), _) => line.trim().to_owned(),
            (None, Some(entry)) => entry.words,
            (None, None) => return None,
        },
    };
    Some(words.chars().take(LINE_MAX).collect())
}

/// A line of a log.
struct Entry {
    words: String,
    /// It ended the program.
    is_end: bool,
}

impl Entry {
    fn of(line: &str) -> Option<Entry> {
        Entry::of_json(line).or_else(|| Entry::of_text(line))
    }

    fn of_json(line: &str) -> Option<Entry> {
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        let message = value.get("msg")?.as_str()?;
        let words = match value.get("error").and_then(|error| error.as_str()) {
            Some(error) => format!("{message}: {error}"),
            None => message.to_owned(),
        };
        let level = value.get("level").and_then(|level| level.as_str());
        let is_end = matches!(level, Some("fatal" | "panic" | "dpanic"));
        Some(Entry { words, is_end })
    }

    /// As etcd 3.4 writes it: `2026-01-01 00:00:00.000000 C | etcdmain: listen tcp …: address already in use`.
    fn of_text(line: &str) -> Option<Entry> {
        let (head, words) = line.split_once(" | ")?;
        let (time, level) = head.rsplit_once(' ')?;
        let dated = time.starts_with(|c: char| c.is_ascii_digit()) && time.len() < 40;
        (dated && level.len() == 1).then(|| Entry {
            words: words.to_owned(),
            is_end: level == "C",
        })
    }
}

/// Is it a line of a Go stack?
fn is_stack(line: &str) -> bool {
    let call = line.ends_with(')') && (line.contains("(0x") || line.contains("(...") || line.contains("({"));
    let starts = ["\t", "goroutine ", "created by ", "[signal ", "exit status "];
    let named = ["main.main()", "runtime.main()"].contains(&line);
    call || named || line.ends_with("()") || starts.iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: &str = "\ngoroutine 1 [running]:\ngo.uber.org/zap.(*Logger).Panic(0xc000, {0x1, 0x2})\n\
        \t/go/zap/logger.go:220 +0x59\nmain.main()\n\t/tmp/etcd/main.go:23 +0x1d\n";

    #[test]
    fn why_it_ended_is_reported_and_not_the_end_of_a_stack() {
        let fatal = r#"{"level":"fatal","msg":"discovery failed","error":"bad cluster"}"#;
        let info = r#"{"level":"info","msg":"serving"}"#;
        let panic = r#"{"level":"panic","msg":"failed to write","error":"no space left on device"}"#;
        for (tail, words) in [
            (format!("{info}\n{fatal}\n"), "discovery failed: bad cluster"),
            (
                format!("{panic}\npanic: failed to write\n{STACK}"),
                "failed to write: no space left on device",
            ),
            (
                format!("{info}\npanic: runtime error: index\n{STACK}"),
                "panic: runtime error: index",
            ),
            (
                format!("{info}\nfatal error: out of memory\n{STACK}"),
                "fatal error: out of memory",
            ),
            // Of an earlier run: this one was killed.
            (format!("{fatal}\n{info}\n"), "serving"),
            (
                format!("{info}\npicky: 777 is not for me\n"),
                "picky: 777 is not for me",
            ),
            (format!("a word before\n{STACK}"), "a word before"),
            (
                "2026-01-01 00:00:00.1 C | etcdmain: in use\n".to_owned(),
                "etcdmain: in use",
            ),
            (STACK.to_owned(), "\t/tmp/etcd/main.go:23 +0x1d"),
            ("plain words\n\n".to_owned(), "plain words"),
        ] {
            assert_eq!(last_words(&tail).as_deref(), Some(words.trim()), "{tail}");
        }
        assert_eq!(last_words(" \n\n"), None);
        assert_eq!(last_words(&"x".repeat(1000)).unwrap().len(), LINE_MAX);
    }
}
