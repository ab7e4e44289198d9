//! From an address to a store that can be asked.
//!
//! In: a [`StoreUrl`], [`StoreOptions`]. Out: a [`Store`] with a client that neither retries nor times out by itself: both
//! are ours to decide, call by call.
//! Never: a request; nothing is asked before the first call.

use std::path::Path;
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig, StaticCredentialProvider};

use super::address::{Place, Remote, StoreUrl};
use super::credentials::{self, InFile};
use super::files::Files;
use super::objects::Objects;
use super::options::{Credentials, StoreOptions};
use super::trouble::Whereabouts;
use super::trust::trusting;
use super::{Backend, Store};
use crate::Error;

pub(super) async fn open(url: &StoreUrl, options: &StoreOptions) -> Result<Store, Error> {
    let opened = match &url.place {
        Place::Directory(path) => {
            return Ok(Store::new(
                url.to_string(),
                Backend::Files(Files::new(path.clone())),
                options,
            ));
        }
        Place::S3(remote) => s3(remote, options)?,
        Place::Google(remote) => google(remote, options)?,
        Place::Azure(remote) => azure(remote, options)?,
    };
    let objects = Objects {
        store: opened.store,
        parts: opened.parts,
        prefix: url.prefix.clone(),
        at: opened.at,
        stall: options.stall,
    };
    Ok(Store::new(
        url.shown().to_owned(),
        Backend::Objects(objects),
        options,
    ))
}

struct Opened {
    store: Arc<dyn ObjectStore>,
    parts: Arc<dyn MultipartStore>,
    at: Whereabouts,
}

impl Opened {
    fn new<S: ObjectStore + MultipartStore + Clone>(
        built: object_store::Result<S>,
        at: Whereabouts,
    ) -> Result<Opened, Error> {
        let store = built.map_err(|error| {
            Error::refused(
                format!("cannot speak to {}: {error}", at.endpoint),
                format!("check the address, and the credentials ({})", at.credentials),
            )
        })?;
        Ok(Opened {
            parts: Arc::new(store.clone()),
            store: Arc::new(store),
            at,
        })
    }
}

fn s3(remote: &Remote, options: &StoreOptions) -> Result<Opened, Error> {
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(&remote.bucket)
        .with_client_options(client(remote, options)?)
        .with_retry(no_retries())
        // One name in one request: what happened to it is then the request's own answer.
        .with_disable_bulk_delete(true);
    if let Some(region) = &remote.region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = &remote.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if remote.path_style == Some(false) {
        builder = builder.with_virtual_hosted_style_request(true);
        if let Some(endpoint) = &remote.endpoint {
            // With the bucket in the host's name, the client wants it there already.
            builder = builder.with_endpoint(endpoint.replacen("://", &format!("://{}.", remote.bucket), 1));
        }
    }
    let profile = || {
        let from_env = std::env::var("AWS_PROFILE")
            .ok()
            .filter(|profile| !profile.is_empty());
        remote
            .profile
            .clone()
            .or(from_env)
            .unwrap_or_else(|| "default".to_owned())
    };
    let in_file = |path: &Path, profile: String| -> Result<_, Error> {
        let words = format!("profile {profile} of {}", path.display());
        let file = InFile::open(
            path,
            Box::new(move |text| credentials::aws_profile(text, &profile)),
        )?;
        Ok((Arc::new(file), words))
    };
    let words;
    match (&options.credentials, &remote.credentials) {
        (
            Some(Credentials::S3 {
                key_id,
                secret,
                token,
            }),
            _,
        ) => {
            let key = AwsCredential {
                key_id: key_id.clone(),
                secret_key: secret.clone(),
                token: token.clone(),
            };
            builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(key)));
            words = format!("access key {key_id}");
        }
        (Some(Credentials::Anonymous), _) => {
            builder = builder.with_skip_signature(true);
            words = "none".to_owned();
        }
        (Some(other), _) => return Err(foreign(other, "s3")),
        (None, Some(path)) => {
            let (file, said) = in_file(path, profile())?;
            (builder, words) = (builder.with_credentials(file), said);
        }
        (None, None) => match credentials::aws_home() {
            Some(path) => {
                let (file, said) = in_file(&path, profile())?;
                (builder, words) = (builder.with_credentials(file), said);
            }
            None => words = "from the environment or this machine".to_owned(),
        },
    }
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
    let endpoint = builder
        .get_config_value(&AmazonS3ConfigKey::Endpoint)
        .unwrap_or_else(|| {
            let region = region.unwrap_or_else(|| "us-east-1".to_owned());
            format!("https://s3.{region}.amazonaws.com")
        });
    let at = whereabouts("bucket", remote, endpoint, words);
    Opened::new(builder.build(), at)
}

fn google(remote: &Remote, options: &StoreOptions) -> Result<Opened, Error> {
    let mut builder = GoogleCloudStorageBuilder::new();
    let words;
    match (&options.credentials, &remote.credentials) {
        (Some(Credentials::Google { service_account }), _) => {
            builder = builder.with_service_account_key(service_account);
            words = "the service account given".to_owned();
        }
        (Some(Credentials::Anonymous), _) => {
            builder = builder.with_skip_signature(true);
            words = "none".to_owned();
        }
        (Some(other), _) => return Err(foreign(other, "gs")),
        (None, Some(path)) => {
            let text = credentials::read(path)?;
            // A service account's key, or what a user's own login left; the client wants to know beforehand.
            builder = match text.contains("\"private_key\"") {
                true => builder.with_service_account_key(text),
                false => builder.with_application_credentials(path.to_string_lossy()),
            };
            words = path.display().to_string();
        }
        (None, None) => {
            builder = GoogleCloudStorageBuilder::from_env();
            words = "from the environment or this machine".to_owned();
        }
    }
    builder = builder
        .with_bucket_name(&remote.bucket)
        .with_client_options(client(remote, options)?)
        .with_retry(no_retries());
    if let Some(endpoint) = &remote.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    let endpoint = remote
        .endpoint
        .clone()
        .unwrap_or_else(|| "https://storage.googleapis.com".to_owned());
    let at = whereabouts("bucket", remote, endpoint, words);
    Opened::new(builder.build(), at)
}

fn azure(remote: &Remote, options: &StoreOptions) -> Result<Opened, Error> {
    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(&remote.bucket)
        .with_client_options(client(remote, options)?)
        .with_retry(no_retries());
    let words;
    let mut account = remote.account.clone();
    match (&options.credentials, &remote.credentials) {
        (Some(Credentials::Azure { account: named, key }), _) => {
            account = account.or(named.clone());
            let key = credentials::azure_key(key).map_err(|why| {
                Error::refused(
                    format!("the Azure credentials given cannot be used: {why}"),
                    "check the key",
                )
            })?;
            builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(key)));
            words = "the account key given".to_owned();
        }
        (Some(Credentials::Anonymous), _) => {
            builder = builder.with_skip_signature(true);
            words = "none".to_owned();
        }
        (Some(other), _) => return Err(foreign(other, "az")),
        (None, Some(path)) => {
            let named = credentials::azure_account(&credentials::read(path)?)
                .ok()
                .and_then(|(account, _)| account);
            account = account.or(named);
            let parse = |text: &str| {
                credentials::azure_account(text).and_then(|(_, key)| credentials::azure_key(&key))
            };
            let file = InFile::open(path, Box::new(parse))?;
            builder = builder.with_credentials(Arc::new(file));
            words = path.display().to_string();
        }
        (None, None) => words = "from the environment or this machine".to_owned(),
    }
    if let Some(account) = &account {
        builder = builder.with_account(account);
    }
    if let Some(endpoint) = &remote.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    let Some(account) = builder.get_config_value(&AzureConfigKey::AccountName) else {
        return Err(Error::refused(
            format!("az://{} is in no known storage account", remote.bucket),
            "add account=NAME to the address, or name it in the credentials file",
        ));
    };
    let endpoint = remote
        .endpoint
        .clone()
        .unwrap_or_else(|| format!("https://{account}.blob.core.windows.net"));
    let at = whereabouts("container", remote, endpoint, words);
    Opened::new(builder.build(), at)
}

fn whereabouts(kind: &'static str, remote: &Remote, endpoint: String, credentials: String) -> Whereabouts {
    Whereabouts {
        kind,
        bucket: remote.bucket.clone(),
        endpoint,
        credentials,
    }
}

fn foreign(given: &Credentials, scheme: &str) -> Error {
    Error::refused(
        format!("{given:?} were given for a {scheme}:// store"),
        "give credentials of the store's own kind",
    )
}

/// Every call has its own limits in this crate, which count across attempts; the client's would count beside them.
fn client(remote: &Remote, options: &StoreOptions) -> Result<ClientOptions, Error> {
    let client = ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(options.connect)
        .with_allow_http(remote.allow_http);
    trusting(remote.ca.as_deref(), client)
}

fn no_retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: 0,
        retry_timeout: std::time::Duration::ZERO,
    }
}
