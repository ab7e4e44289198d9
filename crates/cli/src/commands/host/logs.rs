//! `quorate logs NAME`: the end of a member's log, and what is added to it.
//!
//! In: a log that etcd appends to and the supervisor may cut. Out: its last lines, as they are. Memory does not grow
//! with the log.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_host::Root;

use crate::arguments;
use crate::failure::{Failure, chain};
use crate::{roots, say};

/// How much is read at once.
const CHUNK: u64 = 64 * 1024;
/// How often a followed log is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Prints the end of the log and, if asked to, goes on.
pub async fn run(root: &Root, arguments: &arguments::Logs) -> Result<(), Failure> {
    let path = find(root, &arguments.name)?;
    let failed = |source: io::Error| {
        Failure::failed(format!(
            "cannot read the log {}: {}",
            path.display(),
            chain(&source)
        ))
    };
    let mut log = match File::open(&path) {
        Ok(log) => log,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let words = format!("{} has no log yet: it has not been started", arguments.name);
            return Err(Failure::failed(words).and("`quorate status` says what it waits for."));
        }
        Err(error) => return Err(failed(error)),
    };
    let mut at = tail_start(&mut log, arguments.lines).map_err(failed)?;
    loop {
        // The supervisor cuts a log that grew too large; then it begins anew.
        if log.metadata().map_err(failed)?.len() < at {
            at = 0;
        }
        let (end, heard) = copy_from(&mut log, at).map_err(failed)?;
        at = end;
        if !arguments.follow || !heard {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The log of the member `name`: one of the present members, or of a former one whose log is still there.
fn find(root: &Root, name: &str) -> Result<PathBuf, Failure> {
    let status = roots::status(root)?;
    let mut known: Vec<(String, PathBuf)> = status
        .members
        .into_iter()
        .map(|member| (member.name, member.log))
        .collect();
    let directory = known
        .first()
        .and_then(|(_, log)| log.parent())
        .map(Path::to_owned);
    for entry in directory
        .into_iter()
        .filter_map(|dir| dir.read_dir().ok())
        .flatten()
        .flatten()
    {
        let path = entry.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        if let Some(stem) = stem.filter(|stem| is_log && known.iter().all(|(name, _)| name != stem)) {
            known.push((stem, path));
        }
    }
    if let Some((_, path)) = known.iter().find(|(member, _)| member == name) {
        return Ok(path.clone());
    }
    let agent = |name: &&str| *name == "backup";
    let (agents, names): (Vec<&str>, Vec<&str>) =
        known.iter().map(|(name, _)| name.as_str()).partition(agent);
    let more = match agents.is_empty() {
        true => "",
        false => " `quorate logs backup` shows the log of the backup agent.",
    };
    Err(Failure::usage(format!(
        "there is no member {name:?} under {}",
        root.path().display()
    ))
    .and(&format!("Its members are {}.{more}", names.join(", "))))
}

/// Where the last `lines` lines begin.
fn tail_start(log: &mut (impl Read + Seek), lines: usize) -> io::Result<u64> {
    let end = log.seek(SeekFrom::End(0))?;
    if lines == 0 {
        return Ok(end);
    }
    let mut chunk = Vec::new();
    let mut from = end;
    let mut left = lines;
    while from > 0 {
        let start = from.saturating_sub(CHUNK);
        log.seek(SeekFrom::Start(start))?;
        chunk.clear();
        log.take(from - start).read_to_end(&mut chunk)?;
        for (position, _) in chunk.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let after = start + position as u64 + 1;
            // The line break at the very end ends the last line; it begins none.
            if after < end {
                left -= 1;
            }
            if left == 0 {
                return Ok(after);
            }
        }
        from = start;
    }
    Ok(0)
}

/// Prints everything from `at` on. Returns where it ended, and whether anyone still reads.
fn copy_from(log: &mut File, at: u64) -> io::Result<(u64, bool)> {
    let mut at = log.seek(SeekFrom::Start(at))?;
    let mut chunk = Vec::new();
    loop {
        chunk.clear();
        let read = log.take(CHUNK).read_to_end(&mut chunk)?;
        if read == 0 {
            return Ok((at, true));
        }
        at += read as u64;
        if !say::write_raw(&chunk) {
            return Ok((at, false));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn tail(text: &str, lines: usize) -> &str {
        let start = tail_start(&mut Cursor::new(text), lines).unwrap();
        &text[usize::try_from(start).unwrap()..]
    }

    #[test]
    fn the_last_lines_and_no_more() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(tail("a\nb\nc", 2), "b\nc");
        assert_eq!(tail("a\nb\n", 9), "a\nb\n");
        assert_eq!(tail("a\nb\n", 0), "");
        assert_eq!(tail("", 3), "");
        assert_eq!(tail("\n\n\n", 1), "\n");
        let long = format!("{}\nlast\n", "x".repeat(200_000));
        assert_eq!(tail(&long, 1), "last\n");
        assert_eq!(tail(&long, 2), long);
    }
}
