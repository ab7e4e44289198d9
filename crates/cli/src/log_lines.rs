//! What long-running work says of itself: a line each on standard error, with the time.
//!
//! In: events of `tracing`. Out: `2026-05-02T10:00:00.500Z WARN what happened field=value`, or a JSON object with the same.
//! No colours: these lines are read in journals. Never: a secret; the crates below do not put one into an event.

use std::fmt::{self, Write as _};

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// How a long-running command logs.
#[derive(Clone, Copy, Debug, Args)]
pub struct LogOptions {
    /// Write the log as lines for people, or as a JSON object per line
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Leave out of the log what matters less than this
    #[arg(long, value_enum, value_name = "LEVEL", env = "QUORATE_LOG", default_value_t = LogLevel::Info)]
    pub log_level: LogLevel,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            log_format: LogFormat::Text,
            log_level: LogLevel::Info,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

impl LogLevel {
    fn level(self) -> Level {
        match self {
            LogLevel::Error => Level::ERROR,
            LogLevel::Warn => Level::WARN,
            LogLevel::Info => Level::INFO,
            LogLevel::Debug => Level::DEBUG,
        }
    }
}

/// Events are written from now on.
pub fn begin(options: LogOptions) {
    // Once is enough; who was there first stays.
    let _ = tracing::subscriber::set_global_default(Lines(options));
}

struct Lines(LogOptions);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Others' libraries say what only their makers understand.
        *metadata.level() <= self.0.log_level.level() && metadata.target().starts_with("quorate")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(self.0.log_level.level()))
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        crate::say::note(&line(event, Timestamp::now(), self.0.log_format));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn line(event: &Event<'_>, now: Timestamp, format: LogFormat) -> String {
    let mut fields = Fields::default();
    event.record(&mut fields);
    let time = now.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    let level = event.metadata().level();
    match format {
        LogFormat::Text => text(&time, *level, &fields.0),
        LogFormat::Json => {
            let mut all = Map::from_iter([
                ("time".to_owned(), Value::from(time)),
                ("level".to_owned(), Value::from(level.as_str())),
            ]);
            all.extend(fields.0.into_iter().map(|(name, value)| (name.to_owned(), value)));
            Value::Object(all).to_string()
        }
    }
}

fn text(time: &str, level: Level, fields: &[(&'static str, Value)]) -> String {
    let plain = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.replace(|c: char| c.is_control(), " ")
    };
    let (mut message, mut rest) = (String::new(), String::new());
    for (name, value) in fields {
        let value = plain(value);
        let _ = match *name {
            "message" => write!(message, "{value}"),
            name if value.contains(' ') => write!(rest, " {name}=\"{value}\""),
            name => write!(rest, " {name}={value}"),
        };
    }
    format!("{time} {level} {message}{rest}")
}

/// The fields of an event, in order; its text is the one called `message`.
#[derive(Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push((field.name(), value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.push((field.name(), value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.push((field.name(), value.into()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.into()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), format!("{value:?}").into()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    struct Kept(Lines, Arc<Mutex<Vec<String>>>);

    impl Subscriber for Kept {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            self.0.enabled(metadata)
        }
        fn new_span(&self, span: &Attributes<'_>) -> Id {
            self.0.new_span(span)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let now = "2026-05-02T10:00:00.5Z".parse().unwrap();
            let line = line(event, now, self.0.0.log_format);
            self.1.lock().unwrap().push(line);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    fn lines(log_format: LogFormat, log_level: LogLevel, work: fn()) -> Vec<String> {
        let options = LogOptions {
            log_format,
            log_level,
        };
        let lines = Arc::default();
        let kept = Kept(Lines(options), Arc::clone(&lines));
        tracing::subscriber::with_default(kept, work);
        lines.lock().unwrap().clone()
    }

    fn work() {
        tracing::warn!(
            reason = "store_full",
            error = "no room\nleft",
            count = 3,
            "a flush {}",
            "failed"
        );
        let (member, cluster) = (Some("c-1"), None::<&str>);
        tracing::debug!(member, cluster, "more \"detail\"");
        tracing::info!(target: "hyper", "not ours");
    }

    #[test]
    fn an_event_is_a_line() {
        let expected =
            "2026-05-02T10:00:00.500Z WARN a flush failed reason=store_full error=\"no room left\" count=3";
        assert_eq!(lines(LogFormat::Text, LogLevel::Info, work), [expected]);
        assert!(lines(LogFormat::Text, LogLevel::Error, work).is_empty());
        let more = lines(LogFormat::Text, LogLevel::Debug, work);
        assert_eq!(
            more[1..],
            ["2026-05-02T10:00:00.500Z DEBUG more \"detail\" member=c-1"]
        );
    }

    #[test]
    fn an_event_is_a_json_object_with_its_fields() {
        let lines = lines(LogFormat::Json, LogLevel::Debug, work);
        let read: Vec<Value> = lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let first = serde_json::json!({
            "time": "2026-05-02T10:00:00.500Z", "level": "WARN", "message": "a flush failed",
            "reason": "store_full", "error": "no room\nleft", "count": 3,
        });
        let second = serde_json::json!({
            "time": "2026-05-02T10:00:00.500Z", "level": "DEBUG", "message": "more \"detail\"", "member": "c-1",
        });
        assert_eq!(read, [first, second]);
        assert!(lines.iter().all(|line| !line.contains('\n')));
    }
}
