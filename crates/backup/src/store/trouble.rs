//! What a store's failure means, and what a user can do about it.
//!
//! In: errors of the object storage client, of files. Out: a [`Failure`]: a kind of trouble, and words.
//! Never: a secret, or a page of XML. Of an answer's body only its code and its message are shown: the rest of it can
//! hold what was signed.

use std::io;
use std::path::Path;
use std::time::Duration;

use object_store::client::{HttpError, HttpErrorKind};
use rustix::io::Errno;

use crate::Trouble;

/// Why one call of a store failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub trouble: Trouble,
    pub why: String,
}

/// Where a remote store is, for words.
#[derive(Debug, Clone)]
pub(crate) struct Whereabouts {
    pub kind: &'static str,
    pub bucket: String,
    pub endpoint: String,
    /// Where the credentials came from.
    pub credentials: String,
}

/// How long a server's own message may be.
const MESSAGE_LIMIT: usize = 300;

impl Failure {
    pub fn new(trouble: Trouble, why: impl Into<String>) -> Failure {
        Failure {
            trouble,
            why: why.into(),
        }
    }

    pub fn other(why: impl Into<String>) -> Failure {
        Failure::new(Trouble::Other, why)
    }

    pub fn too_large(size: u64, limit: u64) -> Failure {
        Failure::other(format!("it has {size} bytes, and at most {limit} were expected"))
    }

    /// Fewer bytes than there should be.
    pub fn short(got: u64, wanted: u64) -> Failure {
        Failure::other(format!("it ends early: {got} bytes of {wanted}"))
    }

    pub fn too_many() -> Failure {
        Failure::other(format!("it holds more than {} objects", super::LIST_LIMIT))
    }

    pub fn no_answer(after: Duration) -> Failure {
        Failure::new(Trouble::Unreachable, format!("no answer in {after:?}"))
    }

    /// With the number of attempts said.
    pub fn after(mut self, tries: u32) -> Failure {
        if tries > 1 {
            self.why = format!("{} (tried {tries} times)", self.why);
        }
        self
    }

    /// Of a file in a store that is a directory.
    pub fn of_file(root: &Path, path: &Path, error: &io::Error) -> Failure {
        use io::ErrorKind as Kind;
        let shown = path.display();
        let (trouble, why) = match error.kind() {
            Kind::NotFound if !root.is_dir() => (
                Trouble::Missing,
                format!(
                    "there is no directory {}; the first write makes it",
                    root.display()
                ),
            ),
            Kind::NotFound => (Trouble::Missing, "there is no such file".to_owned()),
            Kind::NotADirectory => (
                Trouble::NoBucket,
                format!("part of the path {shown} is a file where a directory should be"),
            ),
            Kind::PermissionDenied => (
                Trouble::Denied,
                format!(
                    "{shown}: {error}; let the user that this runs as read and write {}",
                    root.display()
                ),
            ),
            Kind::ReadOnlyFilesystem => (
                Trouble::Denied,
                format!("{} is mounted read-only; mount it writable", root.display()),
            ),
            Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => (
                Trouble::Full,
                format!("{}: {error}; make room, or prune the archive", root.display()),
            ),
            Kind::StaleNetworkFileHandle | Kind::TimedOut | Kind::NotConnected | Kind::HostUnreachable => {
                (Trouble::Unreachable, format!("{shown}: {error}"))
            }
            _ if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => (
                Trouble::Locked,
                format!("{shown}: {error}; it is marked immutable"),
            ),
            _ => (Trouble::Other, format!("{shown}: {error}")),
        };
        Failure::new(trouble, why)
    }

    /// Of a store that is reached over HTTP.
    pub fn of_object(at: &Whereabouts, error: &object_store::Error) -> Failure {
        let text = error.to_string();
        // Where no credentials are given, the client asks the machine it runs on.
        if METADATA.iter().any(|path| text.contains(path)) {
            return without_credentials(&one_line(&text));
        }
        if let Some(answer) = Answer::find(&text) {
            return answer.failure(at);
        }
        if text.contains("redirect without LOCATION") {
            return Failure::other(format!(
                "{} sends us elsewhere: the {} is in another region; give region=",
                at.endpoint, at.kind
            ));
        }
        if let Some((kind, cause)) = transport(error) {
            return at.transport(kind, &cause);
        }
        let trouble = match error {
            object_store::Error::NotFound { .. } => Trouble::Missing,
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                Trouble::Denied
            }
            _ => Trouble::Other,
        };
        Failure::new(trouble, one_line(&text))
    }
}

/// The transport's own error at the bottom of an error, and its deepest cause in words.
fn transport(error: &object_store::Error) -> Option<(HttpErrorKind, String)> {
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut kind = None;
    let mut cause = String::new();
    // A chain of causes is never long; one that is has a loop in it.
    for _ in 0..32 {
        let Some(current) = at else { break };
        if let Some(http) = current.downcast_ref::<HttpError>() {
            kind = Some(http.kind());
        }
        cause = current.to_string();
        at = current.source();
    }
    kind.map(|kind| (kind, one_line(&cause)))
}

impl Whereabouts {
    fn transport(&self, kind: HttpErrorKind, cause: &str) -> Failure {
        let endpoint = &self.endpoint;
        if cause.contains("certificate") {
            return Failure::other(format!(
                "the certificate of {endpoint} is not trusted: {cause}; give its CA with ca=FILE"
            ));
        }
        let why = match kind {
            HttpErrorKind::Connect => {
                format!("{endpoint} cannot be reached: {cause}; check the endpoint and the network")
            }
            HttpErrorKind::Timeout => format!("{endpoint} does not answer in time: {cause}"),
            _ => format!("the connection to {endpoint} broke: {cause}"),
        };
        Failure::new(Trouble::Unreachable, why)
    }
}

/// Credentials that could not be had.
fn without_credentials(cause: &str) -> Failure {
    Failure::new(
        Trouble::Denied,
        format!(
            "no credentials were given, and this machine has none ({cause}); add credentials=FILE to the address, or \
             set them in the environment"
        ),
    )
}

/// An answer that is not a success.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    code: String,
    message: String,
}

impl Answer {
    /// The client keeps status and body only in its words.
    fn find(text: &str) -> Option<Answer> {
        let marks = ["non-2xx status code: ", "error response: "];
        let (status, body) = marks.iter().find_map(|mark| {
            let at = text.find(mark)? + mark.len();
            let rest = &text[at..];
            match rest.get(..3).and_then(|digits| digits.parse().ok()) {
                Some(status) => Some((status, &rest[3..])),
                // A success that holds an error: S3 begins long answers before it knows how they end.
                None => Some((200, rest)),
            }
        })?;
        let code = between(body, "<Code>", "</Code>")
            .or_else(|| between(body, "\"reason\":\"", "\""))
            .or_else(|| between(body, "\"reason\": \"", "\""))
            .unwrap_or_default();
        let message = between(body, "<Message>", "</Message>")
            .or_else(|| between(body, "\"message\":\"", "\""))
            .or_else(|| between(body, "\"message\": \"", "\""))
            .unwrap_or_default();
        Some(Answer {
            status,
            code: one_line(code),
            message: one_line(message),
        })
    }

    fn has(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.code == *word)
    }

    fn trouble(&self) -> Trouble {
        if self.has(&["NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"])
            || (self.status == 404 && self.message.to_lowercase().contains("bucket"))
        {
            return Trouble::NoBucket;
        }
        if self.has(&FULL) || self.status == 507 {
            return Trouble::Full;
        }
        if self.has(&LOCKED) || (self.status == 403 && self.message.to_lowercase().contains("retention")) {
            return Trouble::Locked;
        }
        if self.has(&BUSY) {
            return Trouble::Throttled;
        }
        if self.has(&DENIED) {
            return Trouble::Denied;
        }
        match self.status {
            401 | 403 => Trouble::Denied,
            // Only what is said to be an object counts as missing: on that word archives are begun.
            404 | 410 if self.code.is_empty() || self.has(&MISSING) => Trouble::Missing,
            // Two conditional writes at the same time: the later is asked to come again.
            409 if self.has(&["ConditionalRequestConflict", "OperationAborted"]) => Trouble::Throttled,
            429 | 503 => Trouble::Throttled,
            501 => Trouble::Other,
            // A success with an error in it says what it is by its code alone.
            200 | 408 | 500.. => Trouble::Unreachable,
            _ => Trouble::Other,
        }
    }

    fn failure(&self, at: &Whereabouts) -> Failure {
        let trouble = self.trouble();
        let Whereabouts {
            kind,
            bucket,
            endpoint,
            credentials,
        } = at;
        let said = self.said();
        let why = match trouble {
            Trouble::Missing => format!("there is no such object ({said})"),
            Trouble::NoBucket => {
                format!("{endpoint} has no {kind} {bucket} ({said}); create it, or correct the address")
            }
            Trouble::Denied if self.has(&["RequestTimeTooSkewed"]) => {
                format!("{endpoint} does not accept the time of this machine ({said}); set its clock")
            }
            Trouble::Denied => {
                format!(
                    "{endpoint} refuses it ({said}); check the credentials ({credentials}) and what they may do"
                )
            }
            Trouble::Full => format!("{endpoint} has no room ({said}); make room, or prune the archive"),
            Trouble::Throttled => format!("{endpoint} asks for patience ({said})"),
            Trouble::Locked => format!("{endpoint} keeps it: a lock or a retention rule is on it ({said})"),
            Trouble::Unreachable => format!("{endpoint} fails ({said})"),
            Trouble::Other => format!("{endpoint} answers {said}"),
        };
        Failure::new(trouble, why)
    }

    fn said(&self) -> String {
        let parts = [self.status.to_string(), self.code.clone(), self.message.clone()];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(", ")
    }
}

/// What cloud machines ask to be told who they are.
const METADATA: [&str; 5] = [
    "/latest/api/token",
    "/latest/meta-data/",
    "/computeMetadata/",
    "/metadata/identity/",
    "//169.254.170.2/",
];

const FULL: [&str; 6] = [
    "QuotaExceeded",
    "XMinioStorageFull",
    "XMinioAdminBucketQuotaExceeded",
    "StorageFull",
    "InsufficientStorage",
    "AccountLimitExceeded",
];
const LOCKED: [&str; 5] = [
    "BlobImmutableDueToPolicy",
    "ObjectLocked",
    "LeaseIdMissing",
    "retentionPolicyNotMet",
    "objectUnderActiveHold",
];
const BUSY: [&str; 6] = [
    "SlowDown",
    "ServerBusy",
    "TooManyRequests",
    "RequestLimitExceeded",
    "rateLimitExceeded",
    "Throttling",
];
const MISSING: [&str; 6] = [
    "NoSuchKey",
    "NoSuchVersion",
    "NoSuchUpload",
    "BlobNotFound",
    "ResourceNotFound",
    "notFound",
];
const DENIED: [&str; 10] = [
    "XAdminUserNotFound",
    "AccessDenied",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "RequestTimeTooSkewed",
    "ExpiredToken",
    "InvalidToken",
    "AuthorizationHeaderMalformed",
    "AuthenticationFailed",
    "AuthorizationFailure",
];

/// Whether a store answered that it does not do such things at all.
pub(crate) fn not_implemented(error: &object_store::Error) -> bool {
    if matches!(error, object_store::Error::NotImplemented { .. }) {
        return true;
    }
    Answer::find(&error.to_string())
        .is_some_and(|answer| answer.status == 501 || answer.code == "NotImplemented")
}

/// The HTTP status at the bottom of an error.
pub(crate) fn status(error: &object_store::Error) -> Option<u16> {
    Answer::find(&error.to_string()).map(|answer| answer.status)
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let start = text.find(before)? + before.len();
    let end = text[start..].find(after)? + start;
    Some(&text[start..end])
}

fn one_line(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(MESSAGE_LIMIT).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> Failure {
        let at = Whereabouts {
            kind: "bucket",
            bucket: "b".into(),
            endpoint: "https://e".into(),
            credentials: "access key k".into(),
        };
        let error = object_store::Error::Generic {
            store: "test",
            source: text.into(),
        };
        Failure::of_object(&at, &error)
    }

    fn answer(status: &str, body: &str) -> Failure {
        failure(&format!("Server returned non-2xx status code: {status}: {body}"))
    }

    #[test]
    fn answers_of_every_kind_are_understood() {
        let key = "<Error><Code>NoSuchKey</Code><Message>gone</Message></Error>";
        for (status, body, wanted) in [
            ("404 Not Found", key, Trouble::Missing),
            ("404 Not Found", "", Trouble::Missing),
            ("404 Not Found", "<Code>NoSuchWebsite</Code>", Trouble::Other),
            ("404 Not Found", "<Code>NoSuchBucket</Code>", Trouble::NoBucket),
            (
                "404 Not Found",
                r#"{"error": {"message": "The specified bucket does not exist."}}"#,
                Trouble::NoBucket,
            ),
            (
                "403 Forbidden",
                r#"{"error":{"errors":[{"reason":"retentionPolicyNotMet"}]}}"#,
                Trouble::Locked,
            ),
            ("403 Forbidden", "<Code>QuotaExceeded</Code>", Trouble::Full),
            ("401 Unauthorized", "", Trouble::Denied),
            ("400 Bad Request", "<Code>ExpiredToken</Code>", Trouble::Denied),
            ("400 Bad Request", "<Code>InvalidArgument</Code>", Trouble::Other),
            ("429 Too Many Requests", "", Trouble::Throttled),
            ("503 Service Unavailable", "", Trouble::Throttled),
            ("500 Internal Server Error", "", Trouble::Unreachable),
            ("501 Not Implemented", "", Trouble::Other),
            ("507 Insufficient Storage", "", Trouble::Full),
        ] {
            assert_eq!(answer(status, body).trouble, wanted, "{status} {body}");
        }
        let late = failure("Server returned error response: <Error><Code>SlowDown</Code></Error>");
        assert_eq!(late.trouble, Trouble::Throttled);
        let late = failure("Server returned error response: <Error><Code>InternalError</Code></Error>");
        assert_eq!(late.trouble, Trouble::Unreachable);
    }

    #[test]
    fn nothing_of_a_body_is_shown_but_its_code_and_message() {
        let body = "<Error><Code>SignatureDoesNotMatch</Code><Message>no\nmatch</Message>\
                    <StringToSign>hunter2</StringToSign></Error>";
        let failure = answer("403 Forbidden", body);
        assert!(
            failure.why.contains("403, SignatureDoesNotMatch, no match"),
            "{failure:?}"
        );
        assert!(!failure.why.contains("hunter2"), "{failure:?}");
        let long = answer(
            "400 Bad Request",
            &format!("<Message>{}</Message>", "x".repeat(10_000)),
        );
        assert!(long.why.len() < 500, "{}", long.why.len());
    }
}
