//! The few colours, by meaning.

use clap::builder::styling::{AnsiColor, Style};

/// As it should be.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Passing, or worth a look.
pub const WARN: Style = AnsiColor::Yellow.on_default();
pub const BAD: Style = AnsiColor::Red.on_default();
/// Names of members, commands, reasons.
pub const NAME: Style = AnsiColor::Cyan.on_default();
pub const HEAD: Style = Style::new().bold();
/// What may be overlooked.
pub const DIM: Style = Style::new().dimmed();

pub fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}
