//! Who we are to a store: from the options, a file, or the surroundings.
//!
//! In: a [`StoreOptions`], the address' `credentials=FILE`, the environment. Out: what the client signs with, and where it
//! came from, in words.
//! Never: a secret in an error. A file is read again when it changes, so that keys can be rotated under a running agent.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use object_store::azure::{AzureAccessKey, AzureCredential};

use crate::Error;

/// Credentials files are small; what is larger is something else.
const LIMIT: u64 = 256 * 1024;
/// How long what was read from a file is used before it is read again.
const FRESH: Duration = Duration::from_secs(30);

/// Reads a file that holds credentials.
pub(super) fn read(path: &Path) -> Result<String, Error> {
    use std::io::Read;
    let read = || {
        let mut text = String::new();
        let file = std::fs::File::open(path)?;
        let size = file.take(LIMIT + 1).read_to_string(&mut text)?;
        match size as u64 > LIMIT {
            true => Err(std::io::Error::other("it is too large to hold credentials")),
            false => Ok(text),
        }
    };
    read().map_err(|source| Error::File {
        doing: "read the credentials in",
        path: path.to_owned(),
        source,
    })
}

/// The key of a profile in a file as AWS tools keep it.
pub(super) fn aws_profile(text: &str, profile: &str) -> Result<AwsCredential, String> {
    let mut within = false;
    let mut seen = false;
    let (mut key_id, mut secret, mut token) = (None, None, None);
    for line in text.lines() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            // The configuration file says "profile NAME", the credentials file "NAME".
            let section = section.trim();
            within = section == profile || section.strip_prefix("profile ").map(str::trim) == Some(profile);
            seen |= within;
            continue;
        }
        let Some((name, value)) = line.split_once('=').filter(|_| within) else {
            continue;
        };
        let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        match name.trim() {
            "aws_access_key_id" => key_id = value,
            "aws_secret_access_key" => secret = value,
            "aws_session_token" => token = value,
            _ => {}
        }
    }
    match (key_id, secret) {
        (Some(key_id), Some(secret_key)) => Ok(AwsCredential {
            key_id,
            secret_key,
            token,
        }),
        _ if !seen => Err(format!("it has no profile [{profile}]")),
        (None, _) => Err(format!("its profile [{profile}] has no aws_access_key_id")),
        (_, None) => Err(format!("its profile [{profile}] has no aws_secret_access_key")),
    }
}

/// An account and its key: lines `account=…` and `key=…`, or a connection string.
pub(super) fn azure_account(text: &str) -> Result<(Option<String>, String), String> {
    let (mut account, mut key) = (None, None);
    for entry in text.split(['\n', ';']) {
        let Some((name, value)) = entry.split_once('=') else {
            continue;
        };
        let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        match name.trim().to_lowercase().as_str() {
            "account" | "accountname" | "azure_storage_account" | "azure_storage_account_name" => {
                account = value
            }
            "key" | "accountkey" | "azure_storage_key" | "azure_storage_account_key" => key = value,
            _ => {}
        }
    }
    match key {
        Some(key) => Ok((account, key)),
        None => Err("it has no key; write the lines account=NAME and key=KEY, or a connection string".into()),
    }
}

/// What a file's text says, as the client takes it.
type Parse<C> = Box<dyn Fn(&str) -> Result<C, String> + Send + Sync>;

/// Credentials in a file, read again when they may have changed.
pub(super) struct InFile<C> {
    path: PathBuf,
    parse: Parse<C>,
    last: Mutex<(Instant, Arc<C>)>,
}

impl<C> InFile<C> {
    /// Reads it for the first time; that must work.
    pub fn open(path: &Path, parse: Parse<C>) -> Result<InFile<C>, Error> {
        let found = parse(&read(path)?).map_err(|why| {
            Error::refused(
                format!("{} holds no credentials that can be used: {why}", path.display()),
                "correct the file, or give another with credentials=FILE",
            )
        })?;
        Ok(InFile {
            path: path.to_owned(),
            parse,
            last: Mutex::new((Instant::now(), Arc::new(found))),
        })
    }

    fn current(&self) -> Arc<C> {
        let mut last = self.last.lock().expect("nothing panics here");
        if last.0.elapsed() > FRESH {
            // While somebody is writing it, what was read before is as good as it gets.
            let found = read(&self.path).ok().and_then(|text| (self.parse)(&text).ok());
            let credentials = found.map_or_else(|| last.1.clone(), Arc::new);
            *last = (Instant::now(), credentials);
        }
        last.1.clone()
    }
}

impl<C> std::fmt::Debug for InFile<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl<C: Send + Sync> CredentialProvider for InFile<C> {
    type Credential = C;

    fn get_credential<'a, 'b>(
        &'a self,
    ) -> Pin<Box<dyn Future<Output = object_store::Result<Arc<C>>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(Ok(self.current())))
    }
}

/// Azure's key, as the client takes it.
pub(super) fn azure_key(key: &str) -> Result<AzureCredential, String> {
    // The client's own error repeats the key.
    let key = AzureAccessKey::try_new(key).map_err(|_| "the key is not base64".to_owned())?;
    Ok(AzureCredential::AccessKey(key))
}

/// The file that AWS tools use, if it is there and nothing in the environment comes before it.
pub(super) fn aws_home() -> Option<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let nearer = [
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ];
    if nearer.iter().any(|name| from(name).is_some()) {
        return None;
    }
    let path = match from("AWS_SHARED_CREDENTIALS_FILE") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(from("HOME")?).join(".aws/credentials"),
    };
    path.is_file().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_told_apart() {
        let text = "[default]\naws_access_key_id = A\naws_secret_access_key = B\n\n[profile other]\n\
                    aws_access_key_id=C\naws_secret_access_key=D=\naws_session_token=E\n[half]\naws_access_key_id=F\n";
        let key = aws_profile(text, "default").unwrap();
        assert_eq!(
            (key.key_id.as_str(), key.secret_key.as_str(), key.token),
            ("A", "B", None)
        );
        let key = aws_profile(text, "other").unwrap();
        assert_eq!((key.key_id.as_str(), key.secret_key.as_str()), ("C", "D="));
        assert_eq!(key.token.as_deref(), Some("E"));
        assert!(
            aws_profile(text, "half")
                .unwrap_err()
                .contains("no aws_secret_access_key")
        );
        assert!(
            aws_profile(text, "none")
                .unwrap_err()
                .contains("no profile [none]")
        );
    }

    #[test]
    fn azure_files_in_either_form() {
        let lines = azure_account("account=a\nkey=Zm9v==\n").unwrap();
        assert_eq!(lines, (Some("a".to_owned()), "Zm9v==".to_owned()));
        let string = "DefaultEndpointsProtocol=https;AccountName=b;AccountKey=YmFy==;EndpointSuffix=x";
        assert_eq!(
            azure_account(string).unwrap(),
            (Some("b".to_owned()), "YmFy==".to_owned())
        );
        assert!(azure_account("account=a").unwrap_err().contains("no key"));
        let wrong = azure_key("hunter2!").unwrap_err();
        assert!(!wrong.contains("hunter2"), "{wrong}");
    }

    #[test]
    fn a_file_that_changes_is_read_again() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("c");
        let write = |key: &str| {
            let text = format!("[default]\naws_access_key_id={key}\naws_secret_access_key=s\n");
            std::fs::write(&path, text).unwrap();
        };
        write("one");
        let file = InFile::open(&path, Box::new(|text| aws_profile(text, "default"))).unwrap();
        write("two");
        assert_eq!(file.current().key_id, "one", "still fresh");
        let stale = Instant::now() - FRESH * 2;
        file.last.lock().unwrap().0 = stale;
        assert_eq!(file.current().key_id, "two");
        std::fs::write(&path, "").unwrap();
        file.last.lock().unwrap().0 = stale;
        assert_eq!(file.current().key_id, "two", "half written");
        let missing = InFile::open(&home.path().join("d"), Box::new(|text| aws_profile(text, "x")));
        assert!(
            missing
                .unwrap_err()
                .to_string()
                .contains("cannot read the credentials in")
        );
    }
}
