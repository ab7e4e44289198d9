//! The documents, each with a line that says what it is for.

use std::fmt::Write as _;

use serde::Serialize;

use super::{InstallError, Settings, deployment, network, rights};
use crate::webhook::{CONFIGURATION, configuration};

/// All documents, one after another.
pub fn stream(settings: &Settings) -> Result<String, InstallError> {
    let mut documents = Documents::default();
    for definition in quorate_api::crd::WRITTEN {
        // Without the line that says not to edit the file.
        let (_, body) = definition.split_once('\n').unwrap_or_default();
        documents.add_text("A kind that quorate serves.", body);
    }
    documents.add(
        "the Namespace",
        "Where the operator itself lives; clusters may live in any namespace.",
        &deployment::namespace(settings),
    )?;
    documents.add(
        "the ServiceAccount",
        "The operator's account.",
        &rights::account(settings),
    )?;
    documents.rights(settings)?;
    documents.add(
        "the Role",
        "What the operator may do in its own namespace: hold the Lease that says which of its pods works.",
        &rights::role(settings),
    )?;
    documents.add(
        "the RoleBinding",
        "Gives the account those rights.",
        &rights::role_binding(settings),
    )?;
    documents.add(
        "the Service",
        "Where the operator's metrics are read.",
        &deployment::service(settings),
    )?;
    documents.add(
        "the Deployment",
        "The operator.",
        &deployment::deployment(settings),
    )?;
    if settings.webhook {
        documents.webhook(settings)?;
    }
    if settings.network_policy {
        documents.network(settings)?;
    }
    Ok(documents.text)
}

#[derive(Default)]
struct Documents {
    text: String,
}

impl Documents {
    fn rights(&mut self, settings: &Settings) -> Result<(), InstallError> {
        let secrets = "Secrets are among it because it keeps the certificates of clusters with managed TLS in them, and \
                       reads those that clusters name.";
        if let Some(role) = rights::cluster_role(settings) {
            let remark = match settings.watch_namespace {
                None => format!("What the operator may do in all namespaces. {secrets}"),
                Some(_) => "What the webhook needs: that the API server trusts it.".to_owned(),
            };
            self.add("the ClusterRole", &remark, &role)?;
            self.add(
                "the ClusterRoleBinding",
                "Gives the account those rights.",
                &rights::cluster_role_binding(settings),
            )?;
        }
        if let Some(namespace) = &settings.watch_namespace {
            let (role, binding) = rights::in_watched(settings, namespace);
            let remark = format!("What the operator may do in the namespace of the clusters. {secrets}");
            self.add("the Role for clusters", &remark, &role)?;
            self.add(
                "the RoleBinding for clusters",
                "Gives the account those rights.",
                &binding,
            )?;
        }
        Ok(())
    }

    fn network(&mut self, settings: &Settings) -> Result<(), InstallError> {
        self.add(
            "the NetworkPolicy of the operator",
            "The operator is reached for metrics and admission, and for nothing else.",
            &network::of_operator(settings),
        )?;
        let Some(namespace) = &settings.watch_namespace else {
            return Ok(());
        };
        self.add(
            "the NetworkPolicy of the members",
            "Members are reached by each other; clients reach only the ports for clients.",
            &network::of_members(namespace),
        )
    }

    fn webhook(&mut self, settings: &Settings) -> Result<(), InstallError> {
        self.add(
            "the Service of the webhook",
            "Where the API server asks about EtcdClusters and EtcdPeers.",
            &deployment::webhook_service(settings),
        )?;
        let metadata = || deployment::metadata(settings, CONFIGURATION);
        self.add(
            "the MutatingWebhookConfiguration",
            "The API server asks before it looks at the schema, so that all faults are reported at once; nothing is changed. \
             caBundle is left to the operator.",
            &configuration::mutating(&settings.namespace, metadata()),
        )?;
        self.add(
            "the ValidatingWebhookConfiguration",
            "It asks again after others may have changed the object. caBundle is left to the operator.",
            &configuration::validating(&settings.namespace, metadata()),
        )
    }

    fn add(&mut self, what: &'static str, remark: &str, object: &impl Serialize) -> Result<(), InstallError> {
        // Plain data first: otherwise the writer of YAML is compiled for each of Kubernetes' types.
        let plain = serde_json::to_value(object).map_err(|error| InstallError {
            what,
            source: serde::ser::Error::custom(error),
        })?;
        let body = serde_saphyr::to_string(&plain).map_err(|source| InstallError { what, source })?;
        self.add_text(remark, &body);
        Ok(())
    }

    fn add_text(&mut self, remark: &str, body: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "---\n# {remark}\n{}", body.trim_end());
    }
}
