//! Where the operator runs: its namespace, its Deployment, and the Services that lead to it.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, LocalObjectReference,
    Namespace, ObjectFieldSelector, PodSecurityContext, PodSpec, PodTemplateSpec, Probe,
    ResourceRequirements, SeccompProfile, SecurityContext, Service, ServicePort, ServiceSpec,
    TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{METRICS_PORT, NAME, Settings, USER};
use crate::webhook;

const PORT_NAME: &str = "metrics";
const WEBHOOK_PORT_NAME: &str = "webhook";

/// The labels of everything that is installed, by which the Deployment knows its pods too.
pub(super) fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([("app.kubernetes.io/name".to_owned(), NAME.to_owned())])
}

/// The operator's namespace. Pods in it may not ask for more than the operator does.
pub(super) fn namespace(settings: &Settings) -> Namespace {
    let mut labels = labels();
    labels.insert(
        "pod-security.kubernetes.io/enforce".to_owned(),
        "restricted".to_owned(),
    );
    Namespace {
        metadata: ObjectMeta {
            name: Some(settings.namespace.clone()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

/// The operator itself. One pod works; further ones stand by.
pub(super) fn deployment(settings: &Settings) -> Deployment {
    let selector = LabelSelector {
        match_labels: Some(labels()),
        ..LabelSelector::default()
    };
    Deployment {
        metadata: metadata(settings, NAME),
        spec: Some(DeploymentSpec {
            replicas: i32::try_from(settings.replicas).ok(),
            selector: selector.clone(),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels()),
                    annotations: Some(BTreeMap::from([(
                        "kubectl.kubernetes.io/default-container".to_owned(),
                        "operator".to_owned(),
                    )])),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(settings, selector)),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

/// Where the operator's metrics are read.
pub(super) fn service(settings: &Settings) -> Service {
    service_of(settings, &format!("{NAME}-metrics"), METRICS_PORT, PORT_NAME)
}

/// Where the API server reaches the webhook: any pod that is ready.
pub(super) fn webhook_service(settings: &Settings) -> Service {
    service_of(settings, webhook::SERVICE, 443, WEBHOOK_PORT_NAME)
}

fn service_of(settings: &Settings, name: &str, port: u16, target: &str) -> Service {
    Service {
        metadata: metadata(settings, name),
        spec: Some(ServiceSpec {
            selector: Some(labels()),
            ports: Some(vec![ServicePort {
                name: Some(target.to_owned()),
                port: i32::from(port),
                target_port: Some(IntOrString::String(target.to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn pod(settings: &Settings, selector: LabelSelector) -> PodSpec {
    PodSpec {
        service_account_name: Some(NAME.to_owned()),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        // Pods that stand by are of use on another node only.
        topology_spread_constraints: Some(vec![TopologySpreadConstraint {
            max_skew: 1,
            topology_key: "kubernetes.io/hostname".to_owned(),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            label_selector: Some(selector),
            ..TopologySpreadConstraint::default()
        }]),
        image_pull_secrets: (!settings.pull_secrets.is_empty()).then(|| pull_secrets(settings)),
        containers: vec![container(settings)],
        ..PodSpec::default()
    }
}

fn pull_secrets(settings: &Settings) -> Vec<LocalObjectReference> {
    let names = settings.pull_secrets.iter();
    names
        .map(|name| LocalObjectReference { name: name.clone() })
        .collect()
}

fn container(settings: &Settings) -> Container {
    let mut args = vec!["operator".to_owned()];
    let mut ports = vec![port(PORT_NAME, METRICS_PORT)];
    args.extend(
        settings
            .watch_namespace
            .iter()
            .map(|name| format!("--watch={name}")),
    );
    let repository = settings.etcd_repository.iter();
    args.extend(repository.map(|name| format!("--etcd-repository={name}")));
    if settings.webhook {
        args.push(format!("--webhook=0.0.0.0:{}", webhook::PORT));
        ports.push(port(WEBHOOK_PORT_NAME, webhook::PORT));
    }
    Container {
        name: "operator".to_owned(),
        image: Some(settings.image.clone()),
        args: Some(args),
        env: Some(vec![
            field("POD_NAME", "metadata.name"),
            field("POD_NAMESPACE", "metadata.namespace"),
            // Members' pods get quorate from the same image.
            EnvVar {
                name: "QUORATE_IMAGE".to_owned(),
                value: Some(settings.image.clone()),
                ..EnvVar::default()
            },
        ]),
        ports: Some(ports),
        // Readiness only: work that hangs loses the Lease to one that stands by, and a restart mends nothing that a
        // retry does not.
        readiness_probe: Some(Probe {
            http_get: Some(HTTPGetAction {
                path: Some("/readyz".to_owned()),
                port: IntOrString::String(PORT_NAME.to_owned()),
                ..HTTPGetAction::default()
            }),
            ..Probe::default()
        }),
        resources: Some(ResourceRequirements {
            requests: Some(amounts(&[("cpu", "20m"), ("memory", "64Mi")])),
            limits: Some(amounts(&[("memory", "256Mi")])),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

fn port(name: &str, port: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: i32::from(port),
        ..ContainerPort::default()
    }
}

fn field(name: &str, path: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: path.to_owned(),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

fn amounts(list: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    list.iter()
        .map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned())))
        .collect()
}

pub(super) fn metadata(settings: &Settings, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(settings.namespace.clone()),
        labels: Some(labels()),
        ..ObjectMeta::default()
    }
}
