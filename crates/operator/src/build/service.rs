//! The two Services: one without an address of its own, in which members find each other, and one for clients.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Plot;
use crate::names::{CLIENT_PORT, PEER_PORT};

/// The name of the client port: clients find members by SRV records of it.
pub const CLIENT_PORT_NAME: &str = "etcd-client";
/// The name of the peer port.
pub const PEER_PORT_NAME: &str = "etcd-peer";

fn port(name: &str, port: i32) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port,
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::Int(port)),
        ..ServicePort::default()
    }
}

/// The headless Service. Members are found in it before they are ready: they cannot get ready without each other.
pub fn headless(plot: &Plot<'_>) -> Service {
    Service {
        metadata: plot.meta(plot.names.service()),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(plot.names.labels()),
            publish_not_ready_addresses: Some(true),
            ports: Some(vec![
                port(CLIENT_PORT_NAME, CLIENT_PORT),
                port(PEER_PORT_NAME, PEER_PORT),
            ]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// The Service for clients: one address, ready members only.
pub fn for_clients(plot: &Plot<'_>) -> Service {
    Service {
        metadata: plot.meta(&plot.names.client_service()),
        spec: Some(ServiceSpec {
            selector: Some(plot.names.labels()),
            ports: Some(vec![port(CLIENT_PORT_NAME, CLIENT_PORT)]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}
