//! How a store is spoken to: limits, and who we are.

use std::fmt;
use std::time::Duration;

/// How a store is spoken to.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// How long one call goes on trying. Data gets a second more for every 128 KiB of it.
    pub patience: Duration,
    /// How often one call tries at most.
    pub tries: u32,
    /// How long a connection may take.
    pub connect: Duration,
    /// How long an answer may make no progress.
    pub stall: Duration,
    /// Who we are; if none, the URL's file, the environment and the machine are asked, in this order.
    pub credentials: Option<Credentials>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            patience: Duration::from_secs(60),
            tries: 8,
            connect: Duration::from_secs(5),
            stall: Duration::from_secs(60),
            credentials: None,
        }
    }
}

/// Who we are to a store.
#[derive(Clone)]
pub enum Credentials {
    S3 {
        /// The access key's id.
        key_id: String,
        /// The access key's secret.
        secret: String,
        token: Option<String>,
    },
    /// Google: the JSON of a service account.
    Google { service_account: String },
    /// Azure: a storage account's key.
    Azure {
        /// The account, if the URL names none.
        account: Option<String>,
        /// Its key, in base64 as Azure shows it.
        key: String,
    },
    /// Nobody: requests are not signed.
    Anonymous,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credentials::S3 { .. } => "S3 credentials",
            Credentials::Google { .. } => "Google credentials",
            Credentials::Azure { .. } => "Azure credentials",
            Credentials::Anonymous => "no credentials",
        })
    }
}
