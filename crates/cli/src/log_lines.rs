//! What long-running work says of itself: a line each on standard error, with the time.
//!
//! In: events of `tracing`, from `info` on. Out: `2026-05-02T10:00:00Z WARN what happened field=value`. No colours: these
//! lines are read in journals. Never: a secret; the crates below do not put one into an event.

use std::fmt::{self, Write as _};

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Events are told from now on.
pub fn begin() {
    // Once is enough; who was there first stays.
    let _ = tracing::subscriber::set_global_default(Lines);
}

struct Lines;

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Others' libraries say what only their makers understand.
        *metadata.level() <= Level::INFO && metadata.target().starts_with("quorate")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        crate::say::note(&line(event, Timestamp::now()));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn line(event: &Event<'_>, now: Timestamp) -> String {
    let mut words = Words::default();
    event.record(&mut words);
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
    format!(
        "{second} {} {}{}",
        event.metadata().level(),
        words.message,
        words.fields
    )
}

#[derive(Default)]
struct Words {
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format_args!("{value:?}"));
    }
}

impl Words {
    fn put(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        let value = value.to_string().replace(['\n', '\r', '\x1b'], " ");
        let _ = match field.name() {
            "message" => write!(self.message, "{value}"),
            name if value.contains(' ') => write!(self.fields, " {name}=\"{value}\""),
            name => write!(self.fields, " {name}={value}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    struct Kept(Arc<Mutex<Vec<String>>>);

    impl Subscriber for Kept {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            Lines.enabled(metadata)
        }
        fn new_span(&self, span: &Attributes<'_>) -> Id {
            Lines.new_span(span)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let now = "2026-05-02T10:00:00.5Z".parse().unwrap();
            self.0.lock().unwrap().push(line(event, now));
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn an_event_is_a_line() {
        let lines = Arc::default();
        tracing::subscriber::with_default(Kept(Arc::clone(&lines)), || {
            tracing::warn!(
                reason = "store_full",
                error = "no room\nleft",
                count = 3,
                "a flush failed"
            );
            tracing::debug!("not this");
            tracing::info!(target: "hyper", "nor this");
        });
        let expected =
            "2026-05-02T10:00:00Z WARN a flush failed reason=store_full error=\"no room left\" count=3";
        assert_eq!(*lines.lock().unwrap(), [expected]);
    }
}
