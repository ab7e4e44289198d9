//! The pod of a member: it is made ready, looked at and let through by two init containers, and then becomes etcd.
//!
//! Never: a liveness probe (it kills members in the very moments in which they are needed); a service account token;
//! more rights than needed: only the init containers may change owners on the volume, and only where the user has
//! not chosen who the pod runs as.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, DownwardAPIVolumeFile, DownwardAPIVolumeSource,
    EmptyDirVolumeSource, EnvVar, EnvVarSource, HTTPGetAction, KeyToPath, ObjectFieldSelector,
    PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec, PodTemplateSpec, Probe,
    ProjectedVolumeSource, ResourceRequirements, SeccompProfile, SecretProjection, SecretVolumeSource,
    SecurityContext, TopologySpreadConstraint, Volume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use quorate_core::model::{Ordinal, Version};
use quorate_pod::contract::{
    BINARY_PATH, ETCD_CONTAINER, GO_PATH, KnownProgress, LOOK_CONTAINER, PODINFO_PATH, PREPARE_CONTAINER,
    REACHED_ANNOTATION, REACHED_FILE, REACHED_PATH, SHARED_PATH, START_ANNOTATION, START_FILE,
    TERMINATION_LOG, VOLUME_PATH,
};

use super::service::{CLIENT_PORT_NAME, PEER_PORT_NAME};
use super::{BuildContext, etcd};
use crate::cluster::observe::slot::Peer;
use crate::names::{
    CLIENT_PORT, CONFIG_ANNOTATION, GENERATION_ANNOTATION, METRICS_PORT, PEER_PORT, ROLE_LABEL, Role,
    VERSION_ANNOTATION,
};

/// The user and group etcd runs as, unless the manifest says otherwise.
const USER: i64 = 65532;
/// The init container that proves that etcd's image is there and is what it is called, before anything is decided.
pub const IMAGE_CONTAINER: &str = "image";
/// How long etcd has to hand over and end.
const GRACE_SECONDS: i64 = 30;
const ETCD_PROGRAM: &str = "/usr/local/bin/etcd";

/// The template of the pods of the member in `ordinal`, made for what its EtcdPeer says. Their volume has what `floor` says,
/// at least.
pub fn template(
    context: &BuildContext<'_>,
    ordinal: Ordinal,
    peer: &Peer,
    (role, floor): (Role, KnownProgress),
) -> PodTemplateSpec {
    let pod = &context.cluster.pod;
    let mut labels = context.names.member_object_labels(ordinal);
    labels.insert(ROLE_LABEL.to_owned(), role.as_str().to_owned());
    let mut annotations = pod.metadata.clone().unwrap_or_default().annotations;
    annotations.extend([
        (GENERATION_ANNOTATION.to_owned(), peer.generation.0.to_string()),
        (VERSION_ANNOTATION.to_owned(), peer.version.to_string()),
        (CONFIG_ANNOTATION.to_owned(), peer.config.clone()),
        (REACHED_ANNOTATION.to_owned(), floor.to_annotation()),
    ]);
    let spec = PodSpec {
        hostname: Some(context.names.member(ordinal).to_string()),
        subdomain: Some(context.names.service().to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        security_context: Some(security(pod.security_context.clone().unwrap_or_default())),
        init_containers: Some(vec![
            image(context, peer.version),
            look(context, peer),
            prepare(context, ordinal, peer),
        ]),
        containers: vec![etcd_container(context, ordinal, peer.version)],
        volumes: Some(volumes(context, ordinal)),
        affinity: pod.affinity.clone(),
        tolerations: pod.tolerations.clone(),
        node_selector: pod.node_selector.clone(),
        topology_spread_constraints: spread(context),
        priority_class_name: pod.priority_class_name.clone(),
        image_pull_secrets: pod.image_pull_secrets.clone(),
        ..PodSpec::default()
    };
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        }),
        spec: Some(spec),
    }
}

/// What the user chose. Where nothing was said about places, members prefer nodes that have none of the others.
fn spread(context: &BuildContext<'_>) -> Option<Vec<TopologySpreadConstraint>> {
    let pod = &context.cluster.pod;
    if pod.affinity.is_some() || pod.topology_spread_constraints.is_some() {
        return pod.topology_spread_constraints.clone();
    }
    Some(vec![TopologySpreadConstraint {
        max_skew: 1,
        topology_key: "kubernetes.io/hostname".to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: Some(context.names.labels()),
            ..LabelSelector::default()
        }),
        ..TopologySpreadConstraint::default()
    }])
}

/// What the user chose, and ours where nothing was chosen. The volume belongs to the group that etcd runs in.
fn security(chosen: PodSecurityContext) -> PodSecurityContext {
    let group = chosen.run_as_group.or(chosen.run_as_user).unwrap_or(USER);
    let seccomp = || SeccompProfile {
        type_: "RuntimeDefault".to_owned(),
        ..SeccompProfile::default()
    };
    PodSecurityContext {
        fs_group: chosen.fs_group.or(Some(group)),
        fs_group_change_policy: (chosen.fs_group_change_policy).or(Some("OnRootMismatch".to_owned())),
        seccomp_profile: chosen.seccomp_profile.or_else(|| Some(seccomp())),
        ..chosen
    }
}

/// Nothing but what a program needs that reads and writes its volume.
fn confined(add: &[&str]) -> SecurityContext {
    let add = add.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            add: (!add.is_empty()).then_some(add),
        }),
        ..SecurityContext::default()
    }
}

/// The user chose who the pod runs as: then all of it does, and owners on the volume are left alone.
fn user_chose(context: &BuildContext<'_>) -> bool {
    let chosen = context.cluster.pod.security_context.as_ref();
    chosen.is_some_and(|c| c.run_as_user.is_some() || c.run_as_non_root == Some(true))
}

fn as_member(context: &BuildContext<'_>) -> SecurityContext {
    let mut security = confined(&[]);
    if !user_chose(context) {
        security.run_as_user = Some(USER);
        security.run_as_group = Some(USER);
        security.run_as_non_root = Some(true);
    }
    security
}

/// A volume may belong to root (one that Kubernetes does not hand to a group); the init containers see to that.
fn as_keeper(context: &BuildContext<'_>) -> SecurityContext {
    if user_chose(context) {
        return confined(&[]);
    }
    let mut context = confined(&["CHOWN", "DAC_OVERRIDE", "FOWNER"]);
    context.run_as_user = Some(0);
    context
}

/// The resources of every container: those of the manifest, or else what a LimitRange of the namespace gives. Init
/// containers end before etcd starts, so with its own resources the pod asks for no more; amounts of their own could lie
/// outside of what the LimitRange allows.
fn resources(context: &BuildContext<'_>) -> Option<ResourceRequirements> {
    context.cluster.pod.resources.clone()
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

fn image(context: &BuildContext<'_>, version: Version) -> Container {
    Container {
        name: IMAGE_CONTAINER.to_owned(),
        image: Some(format!("{}:v{version}", context.images.etcd)),
        command: Some(vec![ETCD_PROGRAM.to_owned(), "--version".to_owned()]),
        resources: resources(context),
        security_context: Some(as_member(context)),
        ..Container::default()
    }
}

fn keeper(context: &BuildContext<'_>, name: &str, args: Vec<String>, mounts: Vec<VolumeMount>) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(context.images.quorate.clone()),
        args: Some([vec!["prepare".to_owned()], args].concat()),
        resources: resources(context),
        security_context: Some(as_keeper(context)),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

fn look(context: &BuildContext<'_>, peer: &Peer) -> Container {
    let args = vec![
        "--look".to_owned(),
        "--foretell".to_owned(),
        format!("--report={TERMINATION_LOG}"),
        format!("--volume={VOLUME_PATH}"),
        format!("--generation={}", peer.generation.0),
    ];
    keeper(
        context,
        LOOK_CONTAINER,
        args,
        vec![mount("etcd-data", VOLUME_PATH, false)],
    )
}

fn prepare(context: &BuildContext<'_>, ordinal: Ordinal, peer: &Peer) -> Container {
    let mut args = vec![
        format!("--volume={VOLUME_PATH}"),
        format!("--generation={}", peer.generation.0),
        format!("--version={}", peer.version),
        format!("--config={}", etcd::settings_of(&peer.config)),
        "--pod-uid=$(POD_UID)".to_owned(),
        format!("--member={}", context.names.member_ref(ordinal)),
        format!("--go={GO_PATH}"),
        format!("--reached={REACHED_PATH}"),
        format!("--shared={SHARED_PATH}"),
        format!("--report={TERMINATION_LOG}"),
    ];
    if !user_chose(context) {
        args.push(format!("--owner={USER}:{USER}"));
    }
    let mounts = vec![
        mount("etcd-data", VOLUME_PATH, false),
        mount("quorate", SHARED_PATH, false),
        mount("podinfo", PODINFO_PATH, true),
    ];
    let uid = EnvVar {
        name: "POD_UID".to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: "metadata.uid".to_owned(),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    Container {
        env: Some(vec![uid]),
        ..keeper(context, PREPARE_CONTAINER, args, mounts)
    }
}

fn etcd_container(context: &BuildContext<'_>, ordinal: Ordinal, version: Version) -> Container {
    let resources = resources(context);
    let shared = format!("--shared={SHARED_PATH}");
    let mut command: Vec<String> = [BINARY_PATH, "launch-in-pod", &shared, "--", ETCD_PROGRAM]
        .map(str::to_owned)
        .into();
    command.extend(etcd::arguments(context, ordinal));
    let mut mounts = vec![
        mount("etcd-data", VOLUME_PATH, false),
        mount("quorate", SHARED_PATH, false),
    ];
    let port = |name: &str, port| ContainerPort {
        name: Some(name.to_owned()),
        container_port: port,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    let mut ports = vec![
        port(CLIENT_PORT_NAME, CLIENT_PORT),
        port(PEER_PORT_NAME, PEER_PORT),
    ];
    if context.cluster.tls {
        mounts.push(mount("certs", etcd::CERTS_PATH, true));
        ports.push(port("etcd-metrics", METRICS_PORT));
    }
    Container {
        name: ETCD_CONTAINER.to_owned(),
        image: Some(format!("{}:v{version}", context.images.etcd)),
        command: Some(command),
        env: etcd::threads(resources.as_ref()).map(|threads| vec![threads]),
        resources,
        ports: Some(ports),
        readiness_probe: readiness(context, version),
        security_context: Some(as_member(context)),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

/// Ready is who says so himself, without asking the others: a cluster that has lost its quorum still serves its own
/// member list and stale reads.
fn readiness(context: &BuildContext<'_>, version: Version) -> Option<Probe> {
    let port = if context.cluster.tls {
        METRICS_PORT
    } else {
        CLIENT_PORT
    };
    Some(Probe {
        http_get: Some(HTTPGetAction {
            path: Some(etcd::ready_path(version)?.to_owned()),
            port: IntOrString::Int(port),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(5),
        timeout_seconds: Some(3),
        failure_threshold: Some(3),
        ..Probe::default()
    })
}

fn volumes(context: &BuildContext<'_>, ordinal: Ordinal) -> Vec<Volume> {
    let volume = |name: &str| Volume {
        name: name.to_owned(),
        ..Volume::default()
    };
    let member = context.names.member(ordinal).to_string();
    let shown = |file: &str, annotation: &str| DownwardAPIVolumeFile {
        path: file.to_owned(),
        field_ref: Some(ObjectFieldSelector {
            field_path: format!("metadata.annotations['{annotation}']"),
            ..ObjectFieldSelector::default()
        }),
        ..DownwardAPIVolumeFile::default()
    };
    let files = vec![
        shown(START_FILE, START_ANNOTATION),
        shown(REACHED_FILE, REACHED_ANNOTATION),
    ];
    let mut all = vec![
        Volume {
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: member.clone(),
                ..PersistentVolumeClaimVolumeSource::default()
            }),
            ..volume("etcd-data")
        },
        Volume {
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..volume("quorate")
        },
        Volume {
            downward_api: Some(DownwardAPIVolumeSource {
                items: Some(files),
                ..DownwardAPIVolumeSource::default()
            }),
            ..volume("podinfo")
        },
    ];
    if context.cluster.tls {
        all.push(certificates(context, ordinal));
    }
    all
}

/// The certificates: quorate's own in one Secret, or the user's from two. kubelet replaces all files of a volume at once,
/// so no member ever has a certificate without its key.
fn certificates(context: &BuildContext<'_>, ordinal: Ordinal) -> Volume {
    let certs = Volume {
        name: "certs".to_owned(),
        ..Volume::default()
    };
    let Some(own) = &context.cluster.tls_secrets else {
        let secret = SecretVolumeSource {
            secret_name: Some(context.names.member_secret(ordinal)),
            ..SecretVolumeSource::default()
        };
        return Volume {
            secret: Some(secret),
            ..certs
        };
    };
    let source = |secret: &str, files: [(&str, &str); 3]| VolumeProjection {
        secret: Some(SecretProjection {
            name: secret.to_owned(),
            items: Some(
                files
                    .map(|(key, path)| KeyToPath {
                        key: key.to_owned(),
                        path: path.to_owned(),
                        ..KeyToPath::default()
                    })
                    .into(),
            ),
            ..SecretProjection::default()
        }),
        ..VolumeProjection::default()
    };
    let sources = vec![
        source(
            &own.client,
            [
                ("tls.crt", "server.crt"),
                ("tls.key", "server.key"),
                ("ca.crt", "ca.crt"),
            ],
        ),
        source(
            &own.peer,
            [
                ("tls.crt", "peer.crt"),
                ("tls.key", "peer.key"),
                ("ca.crt", "peer-ca.crt"),
            ],
        ),
    ];
    Volume {
        projected: Some(ProjectedVolumeSource {
            sources: Some(sources),
            ..ProjectedVolumeSource::default()
        }),
        ..certs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_prefer_other_nodes_unless_the_user_says_where() {
        use crate::cluster::execute::tests::Ground0;
        let ground = Ground0::new();
        let spread = |change: &dyn Fn(&mut quorate_api::PodTemplate)| {
            let mut cluster = ground.context().cluster.clone();
            change(&mut cluster.pod);
            super::spread(&BuildContext {
                cluster: &cluster,
                ..ground.context()
            })
        };
        let ours = spread(&|_| {}).unwrap();
        assert_eq!(ours.len(), 1);
        assert_eq!(
            ours[0].when_unsatisfiable, "ScheduleAnyway",
            "on one node it still runs"
        );
        assert!(spread(&|pod| pod.affinity = Some(Default::default())).is_none());
        assert_eq!(
            spread(&|pod| pod.topology_spread_constraints = Some(vec![])),
            Some(vec![])
        );
    }

    #[test]
    fn init_containers_ask_for_what_etcd_does_so_that_the_pod_asks_for_no_more() {
        use crate::cluster::execute::tests::{Ground0, peer};
        let ground = Ground0::new();
        let asked = |resources: Option<ResourceRequirements>| {
            let mut cluster = ground.context().cluster.clone();
            cluster.pod.resources = resources;
            let context = BuildContext {
                cluster: &cluster,
                ..ground.context()
            };
            let spec = template(
                &context,
                Ordinal(0),
                &peer(),
                (Role::Voter, KnownProgress::default()),
            )
            .spec
            .unwrap();
            let all = [spec.init_containers.unwrap(), spec.containers].concat();
            assert_eq!(all.len(), 4);
            all.into_iter().map(|c| c.resources).collect::<Vec<_>>()
        };
        assert_eq!(
            asked(None),
            vec![None; 4],
            "a LimitRange of the namespace decides"
        );
        let chosen: ResourceRequirements = serde_json::from_value(serde_json::json!({
            "requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "1Gi"},
        }))
        .unwrap();
        assert_eq!(asked(Some(chosen.clone())), vec![Some(chosen); 4]);
    }

    #[test]
    fn what_the_user_does_not_choose_of_the_security_context_stays_ours() {
        let ours = security(PodSecurityContext::default());
        assert_eq!(ours.fs_group, Some(USER));
        let chosen = security(PodSecurityContext {
            supplemental_groups: Some(vec![7]),
            ..PodSecurityContext::default()
        });
        assert_eq!(chosen.fs_group, Some(USER));
        assert_eq!(chosen.supplemental_groups, Some(vec![7]));
        assert_eq!(chosen.seccomp_profile, ours.seccomp_profile);
        assert_eq!(chosen.fs_group_change_policy, ours.fs_group_change_policy);
        let other = security(PodSecurityContext {
            run_as_user: Some(1000),
            seccomp_profile: Some(SeccompProfile {
                type_: "Unconfined".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        });
        assert_eq!(other.fs_group, Some(1000), "the group that etcd runs in");
        assert_eq!(other.seccomp_profile.unwrap().type_, "Unconfined");
        let group = security(PodSecurityContext {
            fs_group: Some(5),
            run_as_user: Some(1000),
            ..PodSecurityContext::default()
        });
        assert_eq!(group.fs_group, Some(5));
    }
}
