//! The two Services: one without an address of its own, in which members find each other, and one for clients.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::BuildContext;
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
pub fn headless(context: &BuildContext<'_>) -> Service {
    Service {
        metadata: context.meta(context.names.service()),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(context.names.labels()),
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

/// The Service for clients: one address, ready voters only. Learners refuse what clients ask.
pub fn for_clients(context: &BuildContext<'_>) -> Service {
    Service {
        metadata: context.meta(&context.names.client_service()),
        spec: Some(ServiceSpec {
            selector: Some(context.names.voter_labels()),
            ports: Some(vec![port(CLIENT_PORT_NAME, CLIENT_PORT)]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// Is a Service all that it should be? What others add to it (ports, a type, addresses) is theirs.
pub fn fits(present: &Service, wanted: &Service) -> bool {
    let (Some(present), Some(wanted)) = (&present.spec, &wanted.spec) else {
        return false;
    };
    let has = |port: &ServicePort| present.ports.iter().flatten().any(|p| same(p, port));
    present.selector == wanted.selector
        && present.publish_not_ready_addresses.unwrap_or(false)
            == wanted.publish_not_ready_addresses.unwrap_or(false)
        && wanted.ports.iter().flatten().all(has)
}

fn same(present: &ServicePort, wanted: &ServicePort) -> bool {
    let of = |p: &ServicePort| (p.name.clone(), p.port, p.target_port.clone());
    of(present) == of(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::execute::tests::Ground0;

    #[test]
    fn a_service_that_leads_elsewhere_does_not_fit_and_one_that_has_more_does() {
        let ground = Ground0::new();
        let wanted = for_clients(&ground.context());
        let bent = |how: fn(&mut ServiceSpec)| {
            let mut service = wanted.clone();
            how(service.spec.as_mut().unwrap());
            fits(&service, &wanted)
        };
        assert!(bent(|_| {}));
        assert!(bent(|s| s.cluster_ip = Some("10.0.0.1".to_owned())));
        assert!(bent(|s| s.ports.as_mut().unwrap().push(port("more", 80))));
        assert!(!bent(|s| s.ports = None));
        assert!(!bent(
            |s| s.ports.as_mut().unwrap()[0].target_port = Some(IntOrString::Int(1))
        ));
        assert!(!bent(|s| {
            s.selector
                .as_mut()
                .unwrap()
                .insert("app".to_owned(), "other".to_owned());
        }));
        assert!(!bent(|s| s.publish_not_ready_addresses = Some(true)));
    }
}
