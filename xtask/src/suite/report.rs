//! What a run leaves for people: the output of what failed, the slowest tests, a count; and every test's time in a file.

use std::path::Path;

use super::schedule::{End, Outcome};
use crate::Result;

const SLOWEST: usize = 20;
/// Lines of a failed test's output that are printed; all of it is in its file.
const TAIL: usize = 200;

pub fn report(outcomes: &[Outcome], logs: &Path, show: bool) -> Result<()> {
    for outcome in outcomes.iter().filter(|o| show && o.end == End::Passed) {
        println!("\n---- {}", outcome.title);
        print_output(&outcome.log, usize::MAX);
    }
    let failed: Vec<&Outcome> = outcomes.iter().filter(|o| o.end != End::Passed).collect();
    for outcome in &failed {
        print_failure(outcome);
    }
    let mut slowest: Vec<&Outcome> = outcomes.iter().collect();
    slowest.sort_by_key(|outcome| std::cmp::Reverse(outcome.took));
    println!("\nthe slowest tests");
    for outcome in slowest.iter().take(SLOWEST) {
        println!("{:>8.2} s  {}", outcome.took.as_secs_f64(), outcome.title);
    }
    let times: String = slowest
        .iter()
        .map(|outcome| format!("{:.2}\t{}\n", outcome.took.as_secs_f64(), outcome.title))
        .collect();
    let path = logs.join("times.tsv");
    std::fs::write(&path, times).map_err(|e| format!("write {}: {e}", path.display()))?;
    println!(
        "\n{} passed, {} failed",
        outcomes.len() - failed.len(),
        failed.len()
    );
    if failed.is_empty() {
        return Ok(());
    }
    let titles: Vec<&str> = failed.iter().map(|outcome| outcome.title.as_str()).collect();
    Err(format!("failed:\n  {}", titles.join("\n  ")))
}

fn print_failure(outcome: &Outcome) {
    let End::Failed(how) = &outcome.end else { return };
    println!(
        "\n---- {} ({how}); all of its output: {}",
        outcome.title,
        outcome.log.display()
    );
    print_output(&outcome.log, TAIL);
}

fn print_output(log: &Path, last: usize) {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    for line in &lines[lines.len().saturating_sub(last)..] {
        println!("{line}");
    }
}
