//! Who may reach the operator and the members, for clusters whose network enforces that.

use serde_json::{Value, json};

use super::deployment::labels;
use super::{METRICS_PORT, NAME, Settings};
use crate::names::{APP_LABEL, CLIENT_PORT, METRICS_PORT as MEMBER_METRICS_PORT, PEER_PORT};
use crate::webhook;

/// The operator's pods are reached for metrics, and by the API server for admission, from anywhere: an API server is often
/// outside of the cluster's network.
pub(super) fn of_operator(settings: &Settings) -> Value {
    let mut ports = vec![port(METRICS_PORT.into())];
    if settings.webhook {
        ports.push(port(webhook::PORT.into()));
    }
    policy(
        NAME,
        &settings.namespace,
        json!(labels()),
        json!([{"ports": ports}]),
    )
}

/// Members reach each other, and nobody else reaches their peer port. Clients come from where they like: whether they are
/// let in is for certificates and etcd's own authentication to say.
pub(super) fn of_members(namespace: &str) -> Value {
    let (name, value) = APP_LABEL;
    let members = json!({name: value});
    let from_members = json!([{"podSelector": {"matchLabels": members}}]);
    let ingress = json!([
        {"ports": [port(CLIENT_PORT), port(MEMBER_METRICS_PORT)]},
        {"ports": [port(PEER_PORT)], "from": from_members},
    ]);
    policy("quorate-members", namespace, members, ingress)
}

fn port(number: i32) -> Value {
    json!({"protocol": "TCP", "port": number})
}

fn policy(name: &str, namespace: &str, pods: Value, ingress: Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace, "labels": labels()},
        "spec": {"podSelector": {"matchLabels": pods}, "policyTypes": ["Ingress"], "ingress": ingress},
    })
}
