//! What things are called: names, labels, annotations and addresses of one cluster's objects. Names and labels are those
//! that users of the operations guide know.

use std::collections::BTreeMap;

use quorate_api::MAX_REPLICAS;
use quorate_core::Memory;
use quorate_core::model::{MemberName, Ordinal, PeerUrl};
use quorate_pod::contract::{CLUSTER_LABEL, MemberRef, PEER_LABEL};

/// The label that all objects of all clusters carry; what the operator watches is chosen by it.
pub const APP_LABEL: (&str, &str) = ("app.kubernetes.io/name", "etcd");
/// The same label on a pod that its node does not end although another one runs in its place: no Service selects it.
pub const LEFT_BEHIND_LABEL: (&str, &str) = (APP_LABEL.0, "etcd-left-behind");
/// Labels that tools look for: the cluster's name, who made the object, and what it is a part of.
const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
const MANAGED_BY_LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "quorate");
const COMPONENT_LABEL: &str = "app.kubernetes.io/component";
/// The claim's annotation with what the operator knows of the volume in it.
pub const VOLUME_ANNOTATION: &str = "etcd.improbable.io/volume";
/// Pod annotations that say what the pod was made for.
pub const GENERATION_ANNOTATION: &str = "etcd.improbable.io/generation";
pub const VERSION_ANNOTATION: &str = "etcd.improbable.io/version";
pub const CONFIG_ANNOTATION: &str = "etcd.improbable.io/config";
/// The resources that a pod was to have while it runs, and that the API server refused.
pub const RESIZE_REFUSED_ANNOTATION: &str = "etcd.improbable.io/resize-refused";
/// A member's role in its pod's labels: clients are sent to voters, and budgets count them.
pub const ROLE_LABEL: &str = "etcd.improbable.io/role";
/// Kept an EtcdPeer until its claim was deleted, before that was a step of the plan.
pub const CLAIM_FINALIZER: &str = "etcdpeer.etcd.improbable.io/pvc-cleanup";

pub const CLIENT_PORT: i32 = 2379;
pub const PEER_PORT: i32 = 2380;
/// Where metrics and readiness are served in plain text when clients speak TLS.
pub const METRICS_PORT: i32 = 2381;

/// One cluster's name and namespace, and what follows from them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Names {
    pub namespace: String,
    pub cluster: String,
}

impl Names {
    pub fn of(namespace: &str, cluster: &str) -> Names {
        Names {
            namespace: namespace.to_owned(),
            cluster: cluster.to_owned(),
        }
    }

    /// The member in a slot; its EtcdPeer, claim and ReplicaSet are called the same.
    pub fn member(&self, ordinal: Ordinal) -> MemberName {
        MemberName::of(&self.cluster, ordinal)
    }

    /// The member in a slot, as its volume knows it.
    pub fn member_ref(&self, ordinal: Ordinal) -> MemberRef {
        MemberRef {
            namespace: self.namespace.clone(),
            cluster: self.cluster.clone(),
            name: self.member(ordinal).to_string(),
        }
    }

    /// The slot of an object called `name`, if it is one of this cluster's.
    pub fn ordinal(&self, name: &str) -> Option<Ordinal> {
        let number = name.strip_prefix(&self.cluster)?.strip_prefix('-')?;
        let canonical = number == "0" || !number.starts_with('0');
        let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        (canonical && digits).then(|| number.parse().ok().map(Ordinal))?
    }

    /// Is an object of this name one that every cluster has one of, or one that each of its members has one of?
    pub fn names_own(&self, name: &str) -> bool {
        let member = name.strip_suffix("-tls").unwrap_or(name);
        let of_member = self.ordinal(member).is_some_and(|o| o.0 < MAX_REPLICAS);
        let of_cluster = [&self.client_service(), &self.ca_secret(), &self.operator_secret()];
        of_member || name == self.cluster || of_cluster.into_iter().any(|own| own == name)
    }

    /// The slot of a member, if it is one of this cluster.
    pub fn ordinal_of(&self, member: &MemberRef) -> Option<Ordinal> {
        let own = member.namespace == self.namespace && member.cluster == self.cluster;
        self.ordinal(&member.name).filter(|_| own)
    }

    /// The slot of the member that the others reach there, if the address is one of this cluster's.
    pub fn ordinal_at(&self, url: &PeerUrl) -> Option<Ordinal> {
        let (_, host) = url.0.split_once("://")?;
        let ordinal = self.ordinal(host.split('.').next()?)?;
        [false, true]
            .iter()
            .any(|tls| self.peer_url(ordinal, *tls) == *url)
            .then_some(ordinal)
    }

    /// The headless Service in which members find each other.
    pub fn service(&self) -> &str {
        &self.cluster
    }

    /// The Service for clients.
    pub fn client_service(&self) -> String {
        format!("{}-client", self.cluster)
    }

    /// The Secret with the CA. It outlives the EtcdCluster, like the claims.
    pub fn ca_secret(&self) -> String {
        format!("{}-ca", self.cluster)
    }

    /// The Secret with what the operator connects with: a certificate for etcd's root user. Nobody else needs it.
    pub fn operator_secret(&self) -> String {
        format!("{}-operator", self.cluster)
    }

    /// The Secret for applications: a certificate, its key, and whom to trust.
    pub fn client_secret(&self) -> String {
        format!("{}-client", self.cluster)
    }

    /// The Secret with a member's certificates.
    pub fn member_secret(&self, ordinal: Ordinal) -> String {
        format!("{}-tls", self.member(ordinal))
    }

    /// The name of a member's pod in the cluster's DNS; the cluster's domain is left to the resolver.
    pub fn host(&self, ordinal: Ordinal) -> String {
        format!("{}.{}.{}.svc", self.member(ordinal), self.cluster, self.namespace)
    }

    /// Where the others reach a member.
    pub fn peer_url(&self, ordinal: Ordinal, tls: bool) -> PeerUrl {
        PeerUrl(format!("{}://{}:{PEER_PORT}", scheme(tls), self.host(ordinal)))
    }

    /// Where clients reach a member.
    pub fn client_url(&self, ordinal: Ordinal, tls: bool) -> String {
        format!("{}://{}:{CLIENT_PORT}", scheme(tls), self.host(ordinal))
    }

    /// The labels of an object of the cluster as a whole.
    pub fn object_labels(&self) -> BTreeMap<String, String> {
        complete(self.labels())
    }

    /// The labels of an object of one member.
    pub fn member_object_labels(&self, ordinal: Ordinal) -> BTreeMap<String, String> {
        complete(self.member_labels(ordinal))
    }

    /// The labels by which everything of this cluster is selected.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let (name, value) = APP_LABEL;
        BTreeMap::from([
            (name.to_owned(), value.to_owned()),
            (CLUSTER_LABEL.to_owned(), self.cluster.clone()),
        ])
    }

    /// The labels by which everything of one member is selected.
    pub fn member_labels(&self, ordinal: Ordinal) -> BTreeMap<String, String> {
        let mut labels = self.labels();
        labels.insert(PEER_LABEL.to_owned(), self.member(ordinal).to_string());
        labels
    }

    /// The labels of pods of members that vote.
    pub fn voter_labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.labels();
        labels.insert(ROLE_LABEL.to_owned(), Role::Voter.as_str().to_owned());
        labels
    }

    /// The same as a selector in text.
    pub fn selector(&self) -> String {
        let pairs: Vec<String> = self.labels().iter().map(|(k, v)| format!("{k}={v}")).collect();
        pairs.join(",")
    }
}

/// The labels that tools look for, as far as an object of ours does not carry them. They follow from those that it is
/// selected by, and select nothing themselves: they may come later, and no member is restarted for them.
pub fn lacking(present: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let value = |key: &str| present.and_then(|labels| labels.get(key));
    let Some(cluster) = value(CLUSTER_LABEL) else {
        return BTreeMap::new();
    };
    let component = match value(PEER_LABEL) {
        Some(_) => "member",
        None => "cluster",
    };
    let (managed_by, quorate) = MANAGED_BY_LABEL;
    let wanted = [
        (INSTANCE_LABEL, cluster.as_str()),
        (managed_by, quorate),
        (COMPONENT_LABEL, component),
    ];
    let lacks = |(key, wanted): &(&str, &str)| value(key).map(String::as_str) != Some(*wanted);
    let lacking = wanted.into_iter().filter(lacks);
    lacking
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn complete(mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    labels.extend(lacking(Some(&labels)));
    labels
}

/// What a member is in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Voter,
    /// It takes no client's requests, and nothing is lost with it.
    Learner,
}

impl Role {
    /// The role of a slot's member. The first members vote from the start, others once they were promoted.
    pub fn of(memory: &Memory, ordinal: Ordinal) -> Role {
        let slot = memory.slot(ordinal);
        let votes = match slot.member {
            Some(_) => slot.voter,
            None => memory.cluster.is_none(),
        };
        if votes { Role::Voter } else { Role::Learner }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Voter => "voter",
            Role::Learner => "learner",
        }
    }
}

pub fn scheme(tls: bool) -> &'static str {
    if tls { "https" } else { "http" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinal_is_read_back_from_its_own_name_only() {
        let names = Names::of("n", "my-cluster");
        for ordinal in [0, 1, 9, 10, 123] {
            let name = names.member(Ordinal(ordinal)).to_string();
            assert_eq!(names.ordinal(&name), Some(Ordinal(ordinal)));
        }
        for foreign in [
            "my-cluster",
            "my-cluster-",
            "my-cluster-01",
            "my-cluster-x",
            "my-cluster-2-1",
            "other-1",
            "my-cluster-+1",
        ] {
            assert_eq!(names.ordinal(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn objects_carry_the_labels_that_tools_look_for_and_are_selected_without_them() {
        let names = Names::of("n", "c");
        let of_member = names.member_object_labels(Ordinal(1));
        for (key, value) in [
            ("name", "etcd"),
            ("instance", "c"),
            ("managed-by", "quorate"),
            ("component", "member"),
        ] {
            assert_eq!(of_member[&format!("app.kubernetes.io/{key}")], value);
        }
        assert_eq!(names.object_labels()["app.kubernetes.io/component"], "cluster");
        assert!(lacking(Some(&of_member)).is_empty());
        let before = names.member_labels(Ordinal(1));
        assert_eq!(lacking(Some(&before)).len(), 3, "an object of an older quorate");
        assert!(
            before
                .iter()
                .all(|(key, value)| of_member.get(key) == Some(value))
        );
        let mut changed = of_member.clone();
        changed.insert("app.kubernetes.io/managed-by".to_owned(), "Helm".to_owned());
        assert_eq!(lacking(Some(&changed))["app.kubernetes.io/managed-by"], "quorate");
        assert!(lacking(None).is_empty(), "not ours");
    }

    #[test]
    fn an_address_of_a_member_is_known_again() {
        let names = Names::of("prod", "c");
        for tls in [false, true] {
            assert_eq!(
                names.ordinal_at(&names.peer_url(Ordinal(7), tls)),
                Some(Ordinal(7))
            );
        }
        for other in [
            "http://c-1.c.test.svc:2380",
            "http://c-1.d.prod.svc:2380",
            "http://10.0.0.1:2380",
            "c-1",
        ] {
            assert_eq!(names.ordinal_at(&PeerUrl(other.to_owned())), None, "{other}");
        }
    }

    #[test]
    fn addresses_leave_the_domain_to_the_resolver() {
        let names = Names::of("prod", "c");
        assert_eq!(names.peer_url(Ordinal(2), false).0, "http://c-2.c.prod.svc:2380");
        assert_eq!(names.client_url(Ordinal(0), true), "https://c-0.c.prod.svc:2379");
    }
}
