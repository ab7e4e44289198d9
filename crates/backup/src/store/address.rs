//! Where a store is: the URL a user writes.
//!
//! In: text such as `s3://bucket/prefix?region=eu-west-1`. Out: a [`StoreUrl`] with every option known by name.
//! Never: a secret taken from a URL (it would end up in logs, process lists and shell histories), or shown in an error.

use std::fmt;
use std::path::PathBuf;

use crate::Error;

/// The address of a store.
///
/// - `file:///dir`
/// - `s3://bucket/prefix?endpoint=URL&region=R&pathStyle=true&allowHttp=true&ca=FILE&credentials=FILE&profile=P`
/// - `gs://bucket/prefix?endpoint=URL&allowHttp=true&ca=FILE&credentials=FILE`
/// - `az://container/prefix?account=A&endpoint=URL&allowHttp=true&ca=FILE&credentials=FILE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUrl {
    pub(crate) place: Place,
    /// Directories between the bucket and the names of this crate, without slashes at the ends.
    pub(crate) prefix: String,
    text: String,
}

/// What kind of store, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Directory(PathBuf),
    S3(Remote),
    Google(Remote),
    Azure(Remote),
}

/// A store that is reached over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Remote {
    pub bucket: String,
    pub endpoint: Option<String>,
    pub region: Option<String>,
    pub path_style: Option<bool>,
    pub allow_http: bool,
    pub ca: Option<PathBuf>,
    pub credentials: Option<PathBuf>,
    pub profile: Option<String>,
    pub account: Option<String>,
}

/// Every option, and the schemes that know it.
const OPTIONS: [(&str, &[&str]); 8] = [
    ("endpoint", &["s3", "gs", "az"]),
    ("region", &["s3"]),
    ("pathStyle", &["s3"]),
    ("allowHttp", &["s3", "gs", "az"]),
    ("ca", &["s3", "gs", "az"]),
    ("credentials", &["s3", "gs", "az"]),
    ("profile", &["s3"]),
    ("account", &["az"]),
];

/// An option with one of these in its name is a secret that lost its way.
const SECRETS: [&str; 6] = ["secret", "key", "token", "password", "sig", "sas"];

const NO_SECRETS: &str = "an address holds no secrets, because it is shown in logs and process lists: put them in a file and \
     write credentials=FILE, or in the environment";

impl StoreUrl {
    pub fn parse(text: &str) -> Result<StoreUrl, Error> {
        Parts::split(text)
            .and_then(|parts| parts.url(text))
            .map_err(|why| Error::Address {
                url: harmless(text),
                why,
            })
    }

    /// Without its options, for messages.
    pub(crate) fn shown(&self) -> &str {
        self.text.split('?').next().unwrap_or_default()
    }

    /// The same store, one or more directories further down.
    pub fn join(&self, below: &str) -> Result<StoreUrl, Error> {
        let (base, options) = match self.text.split_once('?') {
            Some((base, options)) => (base, format!("?{options}")),
            None => (self.text.as_str(), String::new()),
        };
        let below = encode(below.trim_matches('/'));
        StoreUrl::parse(&format!("{}/{below}{options}", base.trim_end_matches('/')))
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for StoreUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<StoreUrl, Error> {
        StoreUrl::parse(text)
    }
}

/// An address taken apart, nothing judged yet.
struct Parts {
    scheme: String,
    authority: String,
    path: String,
    options: Vec<(String, String)>,
}

impl Parts {
    fn split(text: &str) -> Result<Parts, String> {
        if text.chars().any(char::is_control) {
            return Err("it holds control characters".into());
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(
                "write file:///directory, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
                    .into(),
            );
        };
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let mut pairs = Vec::new();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if pairs.iter().any(|(known, _)| known == name) {
                return Err(format!("it has the option {name} twice"));
            }
            pairs.push((name.to_owned(), decode(value)?));
        }
        Ok(Parts {
            scheme: scheme.to_owned(),
            authority: authority.to_owned(),
            path: decode(path)?,
            options: pairs,
        })
    }

    fn url(self, text: &str) -> Result<StoreUrl, String> {
        if self.authority.contains('@') {
            return Err(NO_SECRETS.into());
        }
        self.judge_options()?;
        if self.scheme == "file" {
            return self.directory(text);
        }
        let remote = self.remote()?;
        let place = match self.scheme.as_str() {
            "s3" => Place::S3(remote),
            "gs" => Place::Google(remote),
            "az" => Place::Azure(remote),
            other => {
                return Err(format!(
                    "no store is called {other}://; there are file, s3, gs and az"
                ));
            }
        };
        let prefix = self.path.trim_matches('/');
        if !prefix.is_empty() {
            check_name(prefix)?;
        }
        Ok(StoreUrl {
            place,
            prefix: prefix.to_owned(),
            text: text.to_owned(),
        })
    }

    fn judge_options(&self) -> Result<(), String> {
        for (name, value) in &self.options {
            let known = OPTIONS.iter().find(|(option, _)| option == name);
            let Some((_, schemes)) = known else {
                let lower = name.to_lowercase();
                if SECRETS.iter().any(|secret| lower.contains(secret)) {
                    return Err(NO_SECRETS.into());
                }
                return Err(format!("it has an option that nothing here knows, {name}"));
            };
            if !schemes.contains(&self.scheme.as_str()) {
                return Err(format!("a {}:// store has no option {name}", self.scheme));
            }
            if value.is_empty() {
                return Err(format!("its option {name} is empty"));
            }
        }
        Ok(())
    }

    fn directory(self, text: &str) -> Result<StoreUrl, String> {
        if !self.authority.is_empty() || !self.path.starts_with('/') {
            return Err(
                "a directory is written with its whole path and three slashes: file:///directory".into(),
            );
        }
        if self.path.split('/').any(|part| part == "." || part == "..") {
            return Err("its path has . or .. in it; write it out".into());
        }
        Ok(StoreUrl {
            place: Place::Directory(PathBuf::from(self.path)),
            prefix: String::new(),
            text: text.to_owned(),
        })
    }

    fn remote(&self) -> Result<Remote, String> {
        if self.authority.is_empty() {
            return Err("it names no bucket".into());
        }
        let take = |name: &str| {
            let found = self.options.iter().find(|(option, _)| option == name);
            found.map(|(_, value)| value.clone())
        };
        let flag = |name: &str| match take(name).as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(format!("its option {name} is neither true nor false")),
        };
        let remote = Remote {
            bucket: self.authority.clone(),
            endpoint: take("endpoint"),
            region: take("region"),
            path_style: flag("pathStyle")?,
            allow_http: flag("allowHttp")?.unwrap_or(false),
            ca: take("ca").map(PathBuf::from),
            credentials: take("credentials").map(PathBuf::from),
            profile: take("profile"),
            account: take("account"),
        };
        remote.judge_endpoint()?;
        Ok(remote)
    }
}

impl Remote {
    fn judge_endpoint(&self) -> Result<(), String> {
        let Some(endpoint) = &self.endpoint else {
            return Ok(());
        };
        let url =
            reqwest::Url::parse(endpoint).map_err(|error| format!("its endpoint is not a URL: {error}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(NO_SECRETS.into());
        }
        if url.query().is_some() {
            return Err(
                "its endpoint has options of its own; write & as %26 if it is part of a value".into(),
            );
        }
        match url.scheme() {
            "https" => Ok(()),
            "http" if self.allow_http => Ok(()),
            "http" => Err("its endpoint is not encrypted; if that is meant, add allowHttp=true".into()),
            other => Err(format!(
                "its endpoint is {other}://, neither https:// nor http://"
            )),
        }
    }
}

/// A name within a store, or a prefix: segments between single slashes.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > 900 {
        return Err("a name has 1 to 900 bytes".into());
    }
    for segment in name.split('/') {
        if segment.is_empty() {
            return Err("a name has no empty segments".into());
        }
        // Hidden files are this crate's drafts in a directory.
        if segment.starts_with('.') {
            return Err("no segment of a name starts with a dot".into());
        }
        if segment.len() > 240 {
            return Err("a segment of a name has at most 240 bytes".into());
        }
    }
    if name.chars().any(|c| c.is_control() || c == '\\') {
        return Err("a name has no control characters and no backslashes".into());
    }
    Ok(())
}

fn decode(text: &str) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let hex = text
                .get(at + 1..at + 3)
                .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
            let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
            out.push(byte.ok_or("a % in it is not followed by two hexadecimal digits; write % as %25")?);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    let text = String::from_utf8(out).map_err(|_| "it is not UTF-8".to_owned())?;
    match text.chars().any(char::is_control) {
        true => Err("it holds control characters".into()),
        false => Ok(text),
    }
}

fn encode(text: &str) -> String {
    text.replace('%', "%25").replace('?', "%3F")
}

/// What may be shown of a text that may hold secrets: no user, and of options only their names.
fn harmless(text: &str) -> String {
    let (base, options) = text.split_once('?').unwrap_or((text, ""));
    let mut shown: String = match (base.split_once("://"), base.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, after))) => format!("{scheme}://…@{after}"),
        _ => base.to_owned(),
    };
    let names: Vec<String> = options
        .split('&')
        .filter(|option| !option.is_empty())
        .map(|option| format!("{}=…", option.split('=').next().unwrap_or_default()))
        .collect();
    if !names.is_empty() {
        shown = format!("{shown}?{}", names.join("&"));
    }
    shown.chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        StoreUrl::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn every_kind_is_read() {
        let file = StoreUrl::parse("file:///var/backups/a%20b").unwrap();
        assert_eq!(file.place, Place::Directory("/var/backups/a b".into()));
        let s3 = StoreUrl::parse(
            "s3://b/x/y/?endpoint=http://127.0.0.1:9000&region=r&pathStyle=true&allowHttp=true&ca=/c&credentials=/k&profile=p",
        )
        .unwrap();
        assert_eq!(s3.prefix, "x/y");
        let Place::S3(remote) = &s3.place else {
            panic!("{s3:?}")
        };
        assert_eq!(remote.bucket, "b");
        assert_eq!(remote.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!((remote.path_style, remote.allow_http), (Some(true), true));
        let az = StoreUrl::parse("az://c?account=a").unwrap();
        assert!(matches!(&az.place, Place::Azure(remote) if remote.account.as_deref() == Some("a")));
        assert!(matches!(
            StoreUrl::parse("gs://b/p").unwrap().place,
            Place::Google(_)
        ));
    }

    #[test]
    fn what_is_wrong_is_said_by_name() {
        for (text, part) in [
            ("/var/backups", "write file:///directory"),
            ("file://host/x", "three slashes"),
            ("file:///a/../b", ".."),
            ("ftp://b/p", "ftp://"),
            ("s3:///p", "names no bucket"),
            ("s3://b?regoin=x", "regoin"),
            ("gs://b?region=x", "a gs:// store has no option region"),
            ("file:///x?region=x", "no option region"),
            ("s3://b?region=", "region is empty"),
            ("s3://b?region=a&region=b", "region twice"),
            ("s3://b?pathStyle=yes", "neither true nor false"),
            ("s3://b?endpoint=http://h:1", "allowHttp=true"),
            ("s3://b?endpoint=h:1", "endpoint"),
            ("s3://b/x//y", "empty segments"),
            ("s3://b/%zz", "hexadecimal"),
            ("s3://b/../y", "dot"),
        ] {
            assert!(why(text).contains(part), "{text}: {}", why(text));
        }
    }

    #[test]
    fn secrets_are_refused_and_never_shown() {
        for text in [
            "s3://AKIA:hunter2@bucket/p",
            "s3://bucket/p?secretAccessKey=hunter2",
            "az://c/p?sig=hunter2",
            "s3://bucket?endpoint=https://u:hunter2@host",
            "gs://bucket?nonsense=hunter2",
        ] {
            let why = why(text);
            assert!(!why.contains("hunter2"), "{why}");
        }
        assert!(why("s3://AKIA:hunter2@bucket/p").contains("holds no secrets"));
    }

    #[test]
    fn a_store_further_down() {
        let url = StoreUrl::parse("s3://b/x?region=r").unwrap().join("y/z").unwrap();
        assert_eq!(url.to_string(), "s3://b/x/y/z?region=r");
        assert_eq!(url.prefix, "x/y/z");
        let url = StoreUrl::parse("file:///d").unwrap().join("a?b").unwrap();
        assert_eq!(url.place, Place::Directory("/d/a?b".into()));
    }
}
