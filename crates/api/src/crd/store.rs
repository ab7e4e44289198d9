//! Where backups are kept, and with what right: shared by the three kinds about backups.

use k8s_openapi::api::core::v1::SecretKeySelector;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{embed, rules};

/// Credentials for the object store. Absent: those of the operator's pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::at_most_one(&["googleCloud", "aws", "azure"]))]
pub struct Credentials {
    /// For gs:// addresses: the JSON key of a service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub google_cloud: Option<CredentialSource>,
    /// For s3:// addresses: a credentials file as the AWS tools read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws: Option<CredentialSource>,
    /// For az:// addresses: the storage account's name and key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure: Option<CredentialSource>,
}

/// Where a credential is read from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialSource {
    /// The Secret, in the same namespace, and the key in it.
    #[schemars(schema_with = "embed::secret_key")]
    pub secret_key_ref: SecretKeySelector,
}

/// A place in a bucket.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bucket {
    /// The bucket's address: gs://NAME, s3://NAME or az://NAME. Options may follow after a question mark, for example
    /// ?endpoint=http://minio:9000.
    #[serde(rename = "bucketURL")]
    #[schemars(length(min = 3, max = 222))]
    pub bucket_url: String,
    /// The object's path in the bucket. For a backup it may hold the same placeholders as objectURLTemplate; absent, a
    /// name is made from the backup's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub object_path: Option<String>,
    /// Credentials for the bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
}

/// An archive: one cluster's history, full backups and the deltas between them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Archive {
    /// The archive's address: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX.
    #[schemars(length(min = 3, max = 2048))]
    pub url: String,
    /// Credentials for the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
}

/// A directory of the pod that takes the backup.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalDirectory {
    /// The path of the directory.
    #[schemars(length(min = 1, max = 1024))]
    pub path: String,
}
