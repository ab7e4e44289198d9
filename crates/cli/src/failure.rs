//! Why a command did not do what it was asked: one paragraph for a person, and the exit code.
//!
//! In: errors of the crates below, or a sentence. Out: what was being done, to what, why it failed, what to do.

use std::error::Error;
use std::fmt;

/// A command that failed.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// It could not be done.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            code: 1,
        }
    }

    /// What was asked for makes no sense.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            code: 2,
        }
    }

    /// It could be done, and would not be safe.
    pub fn refused(message: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            code: 3,
        }
    }

    pub fn code(&self) -> u8 {
        self.code
    }

    /// The same, with what to know or to do beside it.
    pub fn and(mut self, advice: &str) -> Failure {
        self.message = format!("{}. {advice}", self.message.trim_end_matches('.'));
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<quorate_host::Error> for Failure {
    fn from(error: quorate_host::Error) -> Failure {
        let code = error.exit_code();
        let message = match &error {
            quorate_host::Error::Root { path, source } => format!(
                "cannot use {} as the root of a cluster: {}. It must be a directory that this user can write; name \
                 another with --root or QUORATE_ROOT",
                path.display(),
                chain(source)
            ),
            other => chain(other),
        };
        Failure { message, code }
    }
}

impl From<quorate_pod::Error> for Failure {
    fn from(error: quorate_pod::Error) -> Failure {
        Failure {
            message: chain(&error),
            code: error.exit_code(),
        }
    }
}

impl From<quorate_datadir::Error> for Failure {
    fn from(error: quorate_datadir::Error) -> Failure {
        use quorate_datadir::Error;
        let failure = Failure::failed(chain(&error));
        match error {
            Error::Refused { .. } | Error::TargetExists { .. } => Failure { code: 3, ..failure },
            Error::InUse { .. } => Failure { code: 3, ..failure }.and(
                "Stop the etcd that has it first, or save a snapshot of it with `quorate snapshot save`.",
            ),
            _ => failure,
        }
    }
}

impl From<quorate_backup::Error> for Failure {
    fn from(error: quorate_backup::Error) -> Failure {
        use quorate_backup::{Error, Trouble};
        let text = chain(&error);
        match error {
            Error::Address { .. } => Failure::usage(text),
            Error::Refused { advice, .. } => Failure::refused(text).and(&as_sentence(&advice)),
            Error::Fenced { .. } => Failure::refused(text).and("Stop that one first; two must not write one archive."),
            Error::Data(error) => error.into(),
            Error::Damaged { .. } => Failure::failed(text).and(
                "`quorate backup verify URL` says what is sound, and `quorate backup restore URL` what it leads back to.",
            ),
            Error::Cancelled => Failure::failed("cancelled"),
            Error::Store { trouble, .. } => {
                let failure = Failure::failed(text);
                match trouble {
                    Trouble::NoBucket => failure.and("Make it first, or check its name."),
                    Trouble::Denied => failure.and(
                        "Check the credentials: credentials=FILE in the URL, the environment, or what the machine is \
                         allowed to do.",
                    ),
                    Trouble::Full => failure.and("Make room there, or `quorate backup prune URL`."),
                    Trouble::Throttled | Trouble::Unreachable => {
                        failure.and("Check its address and the network; --patience says how long to go on asking.")
                    }
                    Trouble::Locked | Trouble::Missing | Trouble::Other => failure,
                }
            }
            _ => Failure::failed(text),
        }
    }
}

/// Advice as a sentence of its own.
fn as_sentence(advice: &str) -> String {
    let mut letters = advice.trim_end_matches('.').chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    // What begins with a command keeps its letters.
    format!("{first}{}.", letters.as_str())
}

/// An error and its causes as one text. A cause that its effect already names is not repeated.
pub fn chain(error: &dyn Error) -> String {
    let mut text = in_words(error);
    let mut link = error.source();
    while let Some(cause) = link {
        let words = in_words(cause);
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        link = cause.source();
    }
    text
}

/// Without the system's error number, which its words before already say.
fn in_words(error: &dyn Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" (os error ") {
        Some((words, number)) if number.ends_with(')') => words.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(std::io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("cannot read a")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn causes_are_joined_once() {
        let inner = std::io::Error::other("the disk is gone");
        assert_eq!(chain(&Outer(inner)), "cannot read a: the disk is gone");
        let numbered = std::io::Error::from_raw_os_error(2);
        assert_eq!(
            chain(&Outer(numbered)),
            "cannot read a: No such file or directory"
        );
        let cause = std::io::Error::other("read a");
        assert_eq!(chain(&Outer(cause)), "cannot read a");
    }

    #[test]
    fn advice_follows_as_a_sentence() {
        assert_eq!(
            Failure::failed("no.").and("Try again.").to_string(),
            "no. Try again."
        );
        assert_eq!(Failure::refused("no").and("Wait.").code(), 3);
    }
}
