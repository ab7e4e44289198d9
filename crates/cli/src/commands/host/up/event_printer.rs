//! Saying what a running cluster does: a line with the time for each event, and a summary once it serves.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use quorate_host::{Event, Root, Status};

use crate::render::{event, style, summary};
use crate::{roots, say};

/// The same line is not printed twice within this time.
const ECHO: Duration = Duration::from_secs(10);
/// Lines remembered for that.
const ECHOES_MAX: usize = 64;

pub struct EventPrinter {
    root: Root,
    began: Instant,
    served: bool,
    /// Something was done: until then, what is in the way is the failure's to report.
    begun: bool,
    /// What was printed lately, and when.
    printed: VecDeque<(Instant, String)>,
}

impl EventPrinter {
    /// For the cluster in `root`, which has `begun` before or is new.
    pub fn new(root: &Root, begun: bool) -> EventPrinter {
        EventPrinter {
            root: root.clone(),
            began: Instant::now(),
            served: false,
            begun,
            printed: VecDeque::new(),
        }
    }

    pub fn print(&mut self, news: Event) {
        match news {
            Event::Line(text) => {
                self.begun |= !event::is_block(&text);
                if self.begun && !self.is_echo(&text) {
                    say::line(&timed(&text));
                }
            }
            Event::Ready(status) if self.served => {
                let count = status.members.len();
                say::line(&timed(&style::paint(
                    style::GOOD,
                    &format!("{count} of {count} members healthy, nothing left to do"),
                )));
            }
            Event::Ready(status) => {
                self.served = true;
                let seconds = self.began.elapsed().as_secs_f64();
                say::line(&timed(&format!("all members healthy after {seconds:.1} s")));
                say::print(&summary::page(
                    &status,
                    etcdctl(&status).as_deref(),
                    &roots::option(&self.root),
                ));
            }
            _ => {}
        }
    }

    /// A step that etcd refuses for now is tried twice a second: once is enough for a while.
    fn is_echo(&mut self, text: &str) -> bool {
        self.printed.retain(|(at, _)| at.elapsed() < ECHO);
        let echo = self.printed.iter().any(|(_, printed)| printed == text);
        if !echo {
            self.printed.push_front((Instant::now(), text.to_owned()));
            self.printed.truncate(ECHOES_MAX);
        }
        echo
    }
}

/// The etcdctl beside the etcd that runs, or else the first on the PATH; by its bare name where a shell finds it so.
fn etcdctl(status: &Status) -> Option<PathBuf> {
    let pid = status.members.iter().find_map(|member| member.pid)?;
    let beside = std::fs::read_link(format!("/proc/{pid}/exe"))
        .ok()
        .map(|etcd| etcd.with_file_name("etcdctl"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path)
        .map(|dir| dir.join("etcdctl"))
        .find(|path| path.is_file());
    match (beside.filter(|path| path.is_file()), on_path) {
        (Some(beside), Some(on_path)) if beside == on_path => Some(PathBuf::from("etcdctl")),
        (Some(beside), _) => Some(beside),
        (None, on_path) => on_path.map(|_| PathBuf::from("etcdctl")),
    }
}

/// The line for `text`, now.
pub fn timed(text: &str) -> String {
    event::line(&jiff::Zoned::now().strftime("%H:%M:%S").to_string(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_told_once_for_a_while_and_memory_is_bounded() {
        let root = Root::at(std::path::Path::new("/r")).unwrap();
        let mut event_printer = EventPrinter::new(&root, true);
        assert!(!event_printer.is_echo("remove member 1"));
        assert!(event_printer.is_echo("remove member 1"));
        assert!((0..1000).all(|number| !event_printer.is_echo(&number.to_string())));
        assert_eq!(event_printer.printed.len(), ECHOES_MAX);
    }
}
