//! Encryption in Kubernetes: certificates that quorate makes, renews and replaces under clients that write down every
//! answer.

use std::time::{Duration, SystemTime};

use quorate_client::{Identity, Tls};
use quorate_pki::{Ca, Leaf, LeafUsages, PairPem, San};
use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::changes::rotate_ca;
use quorate_tests::kube::cluster::{condition, is_ready, manifest, member_id};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::said;
use quorate_tests::kube::tls::{answers, encrypted, pem, secret_value, shown_certificate};
use quorate_tests::kube::traffic::Traffic;

#[test]
fn a_cluster_made_again_keeps_its_ca() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("tls");
    let cluster = namespace.create("c", &encrypted("c", 3, &version));
    cluster.await_ready(3, &version);
    cluster.put("k", "v");
    let (id, ca) = (cluster.cluster_id(), secret_value(&namespace, "c-ca", "ca.crt"));
    namespace.must(&["delete", "etcdcluster", "c"]);
    namespace.wait_for("all but the data and the CA gone", || {
        let left = namespace.names(&["secrets", "-l", &cluster.selector()]);
        (left == ["c-ca"] && cluster.pods().is_empty()).then_some(())
    });
    let cluster = namespace.create("c", &encrypted("c", 3, &version));
    cluster.await_ready(3, &version);
    assert_eq!((cluster.cluster_id(), cluster.value("k")), (id, "v".to_owned()));
    assert_eq!(secret_value(&namespace, "c-ca", "ca.crt"), ca);
}

/// A certificate that was lost is recreated, and shown by the member without a restart.
#[test]
fn renewed_certificates_are_shown_by_members_that_go_on_running() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("tls-renewed");
    let cluster = namespace.create("c", &encrypted("c", 3, &version));
    cluster.await_ready(3, &version);
    let running = cluster.pod_uids(3);
    let before = shown_certificate(&cluster, "c-1");
    assert!(before.is_some(), "a member shows a certificate to any client");
    namespace.must(&["delete", "secret", "c-1-tls"]);
    namespace.wait_for("another certificate shown", || {
        shown_certificate(&cluster, "c-1").filter(|now| Some(now) != before.as_ref())
    });
    cluster.await_ready(3, &version);
    assert_eq!(cluster.pod_uids(3), running, "nobody was restarted");
}

/// Another one each time, or that of the environment.
fn seed() -> u64 {
    let named = std::env::var("QUORATE_SEED").ok();
    named.map_or_else(
        || fastrand::u64(..),
        |s| s.parse().expect("QUORATE_SEED is a number"),
    )
}

/// All members trust both CAs before one of the new one's certificates is shown, and show only those before the
/// old one is dropped, whenever the operator dies.
#[test]
fn another_ca_loses_no_write_though_the_operator_is_killed() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("tls-rotation");
    let cluster = namespace.create("c", &encrypted("c", 3, &version));
    cluster.await_ready(3, &version);
    let seed = seed();
    println!("QUORATE_SEED={seed} makes the same choices again");
    let mut rng = fastrand::Rng::with_seed(seed);
    let traffic = Traffic::start(&cluster);
    rotate_ca(&cluster, &traffic, &version, || {
        for _ in 0..4 {
            // Not a wait for something: the moment of the kill is what varies.
            std::thread::sleep(Duration::from_millis(rng.u64(500..9000)));
            bed.kill_operator();
        }
    });
    traffic.verdict();
}

/// All Secrets deleted under running members: nobody has the CA that they trust, so they are restarted with
/// another, and lose nothing but a moment.
#[test]
fn if_all_secrets_are_deleted_members_get_new_ones_and_keep_their_data() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("tls-lost");
    let cluster = namespace.create("c", &encrypted("c", 3, &version));
    cluster.await_ready(3, &version);
    cluster.put("k", "v");
    let (id, before) = (cluster.cluster_id(), secret_value(&namespace, "c-ca", "ca.crt"));
    let running = cluster.pod_uids(3);
    // One after the other, an operator that runs would save what it can from those that are left.
    bed.scale_operator(0);
    namespace.must(&["delete", "secrets", "-l", &cluster.selector()]);
    bed.scale_operator(1);
    namespace.await_event("CaLost", "until a majority");
    cluster.await_other_pods(&running);
    cluster.await_ready(3, &version);
    assert_eq!((cluster.cluster_id(), cluster.value("k")), (id, "v".to_owned()));
    assert_ne!(secret_value(&namespace, "c-ca", "ca.crt"), before);
    let tls = cluster.client_tls().expect("a Secret for clients");
    for member in ["c-0", "c-1", "c-2"] {
        assert!(answers(&cluster, member, "https", Some(&tls)), "{member}");
    }
}

/// The CA deleted together with a member's certificates and the clients': the member shows clients what another does
/// until the next CA signs, and a quorum is there throughout.
#[test]
fn a_lost_ca_is_replaced_though_a_member_has_no_certificates() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("tls-lent");
    let cluster = namespace.create("c", &encrypted("c", 3, &version));
    cluster.await_ready(3, &version);
    cluster.put("k", "v");
    let before = secret_value(&namespace, "c-ca", "ca.crt");
    namespace.must(&["delete", "secret", "c-ca", "c-client", "c-2-tls"]);
    namespace.await_event("CaSwitched", "it signs from now on");
    cluster.await_ready(3, &version);
    let after = secret_value(&namespace, "c-ca", "ca.crt");
    assert_ne!(after, before);
    let tls = namespace.wait_for("a Secret for clients", || cluster.client_tls());
    for member in ["c-0", "c-1", "c-2"] {
        assert!(answers(&cluster, member, "https", Some(&tls)), "{member}");
    }
    assert_eq!(cluster.value("k"), "v");
}

/// As an earlier quorate left it: the Secret holds one CA, which signs for all.
#[test]
fn members_of_an_earlier_cluster_get_a_ca_of_their_own() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("tls-earlier");
    let ca = Ca::make("c", Duration::from_secs(3650 * 24 * 3600), SystemTime::now()).expect("a CA");
    put_secret(
        &namespace,
        "c-ca",
        &[("ca.crt", &ca.pem().cert), ("ca.key", &ca.pem().key)],
    );
    namespace.must(&[
        "label",
        "secret",
        "c-ca",
        "app.kubernetes.io/name=etcd",
        "etcd.improbable.io/cluster-name=c",
    ]);
    let cluster = namespace.create("c", &encrypted("c", 3, &version));
    namespace.await_event("CaDropped", "trusted no longer");
    cluster.await_ready(3, &version);
    assert_eq!(secret_value(&namespace, "c-ca", "ca.crt"), ca.pem().cert);
    assert_eq!(secret_value(&namespace, "c-client", "ca.crt"), ca.pem().cert);
    for member in ["c-0-tls", "c-1-tls", "c-2-tls"] {
        let between = secret_value(&namespace, member, "peer-ca.crt");
        assert_ne!(between, ca.pem().cert, "{member}");
        assert_eq!(
            between,
            secret_value(&namespace, "c-ca", "peer-ca.crt"),
            "{member}"
        );
    }
}

/// A certificate as users make theirs: good for all members and for clients.
fn issued(ca: &Ca, namespace: &Namespace) -> PairPem {
    let space = &namespace.name;
    let hosts = (0..3).map(|n| format!("c-{n}.c.{space}.svc"));
    let others = [format!("c-client.{space}.svc"), "localhost".to_owned()];
    let sans = hosts.chain(others);
    let leaf = Leaf {
        common_name: "root",
        cluster_name: "c",
        sans: sans.map(|name| San::parse(&name).expect("a name")).collect(),
        usages: LeafUsages::ServerAndClient,
    };
    ca.issue(&leaf, Duration::from_secs(24 * 3600), SystemTime::now())
        .expect("a certificate")
}

/// Puts what a user has into a Secret of theirs.
fn put_secret(namespace: &Namespace, name: &str, parts: &[(&str, &[u8])]) {
    let parts = parts
        .iter()
        .map(|(key, value)| ((*key).to_owned(), String::from_utf8_lossy(value).into()));
    let data: serde_json::Map<String, serde_json::Value> = parts.collect();
    let secret = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": data,
    });
    namespace.apply(&secret.to_string());
}

fn put_whole(namespace: &Namespace, name: &str, pair: &PairPem, ca: &[u8]) {
    let parts: [(&str, &[u8]); 3] = [("tls.crt", &pair.cert), ("tls.key", &pair.key), ("ca.crt", ca)];
    put_secret(namespace, name, &parts);
}

/// In the manifest of a cluster with certificates of the user's.
const OWN: &str = "  tls: {client: {secretName: mine-client}, peer: {secretName: mine-peer}}\n";

/// A CA of the user's, replaced at one stroke: the members refuse each other, which is said, and what it says to
/// do helps.
#[test]
fn what_to_do_is_said_when_the_users_ca_is_replaced_at_one_stroke() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("tls-stroke");
    let replace = || {
        let made = Ca::make("mine", Duration::from_secs(48 * 3600), SystemTime::now());
        let ca = made.expect("a CA");
        for name in ["mine-client", "mine-peer"] {
            put_whole(&namespace, name, &issued(&ca, &namespace), &ca.pem().cert);
        }
    };
    replace();
    let cluster = namespace.create("c", &(manifest("c", 3, &version) + OWN));
    cluster.await_ready(3, &version);
    cluster.put("k", "v");
    let id = cluster.cluster_id();
    replace();
    let advice = cluster.await_condition("Warning", "True", "Manifest");
    assert!(
        advice.contains("put the former one into ca.crt too, beside the new one"),
        "{advice}"
    );
    let command = advice
        .split_once("run kubectl ")
        .and_then(|(_, rest)| rest.split_once(": "));
    let command: Vec<&str> = command.expect("a command").0.split(' ').collect();
    namespace.bed().must(&command);
    let ready = cluster.wait_for("ready, and no more warned of", |c| {
        is_ready(c, 3, &version) && condition(c, "Warning").is_none()
    });
    assert_eq!(ready["status"]["members"].as_array().map(Vec::len), Some(3));
    assert_eq!((cluster.cluster_id(), cluster.value("k")), (id, "v".to_owned()));
}

/// Two Secrets of the user's: an incomplete one is said to be, what is in them is shown, a renewed certificate without a
/// restart, and another CA beside the first restarts members one by one.
#[test]
fn the_users_own_certificates_are_shown_and_followed() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("tls-own");
    let make = || Ca::make("mine", Duration::from_secs(48 * 3600), SystemTime::now());
    let signer = make().expect("a CA");
    let ca = &signer.pem().cert;
    let (client, peer) = (issued(&signer, &namespace), issued(&signer, &namespace));
    let whole = |name: &str, pair: &PairPem, ca: &[u8]| put_whole(&namespace, name, pair, ca);
    whole("mine-client", &client, ca);
    let incomplete: [(&str, &[u8]); 2] = [("tls.crt", &peer.cert), ("tls.key", &peer.key)];
    put_secret(&namespace, "mine-peer", &incomplete);
    let cluster = namespace.create("c", &(manifest("c", 3, &version) + OWN));
    let why = cluster.await_condition("Blocked", "True", "Certificates");
    assert!(why.contains("Secret \"mine-peer\" has no ca.crt"), "{why}");
    assert!(
        cluster.pods().is_empty(),
        "nothing is started without certificates"
    );
    whole("mine-peer", &peer, ca);
    cluster.await_ready(3, &version);
    cluster.put("k", "v");
    let of = |pair: &PairPem| pem(&String::from_utf8_lossy(&pair.cert)).expect("a certificate");
    assert_eq!(shown_certificate(&cluster, "c-1"), Some(of(&client)));
    let dial = |pair: &PairPem, ca: &[u8]| {
        let identity = Identity {
            cert_pem: pair.cert.clone(),
            key_pem: pair.key.clone(),
        };
        let tls = Tls::from_pem(ca.to_vec(), Some(identity)).expect("usable certificates");
        tls.with_server_name(format!("c-client.{}.svc", namespace.name))
    };
    assert!(answers(&cluster, "c-1", "https", Some(&dial(&client, ca))));
    let own = namespace.names(&["secrets"]);
    assert_eq!(
        own,
        ["mine-client", "mine-peer"],
        "quorate makes none beside them"
    );

    let running = cluster.pod_uids(3);
    let renewed = issued(&signer, &namespace);
    whole("mine-client", &renewed, ca);
    namespace.wait_for("the renewed certificate shown by all", || {
        let all = ["c-0", "c-1", "c-2"].map(|member| shown_certificate(&cluster, member));
        all.iter().all(|s| *s == Some(of(&renewed))).then_some(())
    });
    cluster.await_ready(3, &version);
    assert_eq!(cluster.pod_uids(3), running, "nobody was restarted");

    let both = [ca.clone(), make().expect("another CA").pem().cert.clone()].concat();
    let traffic = Traffic::start_with(&cluster, Some(dial(&renewed, ca)));
    traffic.planned("another CA is trusted beside the first", || {
        whole("mine-client", &renewed, &both);
        whole("mine-peer", &peer, &both);
        cluster.await_other_pods(&running);
        cluster.await_ready(3, &version);
    });
    traffic.verdict();
    assert_eq!(cluster.value("k"), "v");
}

const NO_SECRETS: &str = "
apiVersion: v1
kind: ResourceQuota
metadata: {name: no-secrets}
spec:
  hard: {secrets: '0'}
";

/// The Secret of the CA is gone, and a quota keeps quorate from making another. A member that loses its volume is replaced
/// all the same, and the operator says what it cannot do.
#[test]
fn a_member_that_is_lost_while_secrets_are_refused_is_replaced() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("tls-refused");
    let cluster = namespace.create("c", &encrypted("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    namespace.apply(NO_SECRETS);
    namespace.wait_for("a quota that is in force", || {
        let made = namespace.kubectl(&["create", "secret", "generic", "probe"]);
        if made.status.success() {
            namespace.must(&["delete", "secret", "probe"]);
        }
        said(&made).contains("exceeded quota").then_some(())
    });
    namespace.must(&["delete", "secret", "c-ca"]);
    let reported = cluster.await_condition("Blocked", "True", "Certificates");
    assert!(reported.contains("exceeded quota"), "{reported}");
    namespace.must(&["delete", "persistentvolumeclaim", "c-1", "--wait=false"]);
    cluster.kill_pods("etcd.improbable.io/peer-name in (c-1,c-2)");
    cluster.wait_for("c-1 under a new id, and three members that serve", |c| {
        c["status"]["readyReplicas"] == 3 && member_id(c, "c-1") != member_id(&before, "c-1")
    });
    assert!(
        namespace.json(&["secret", "c-ca"]).is_none(),
        "it is refused all the while"
    );
    namespace.must(&["delete", "resourcequota", "no-secrets"]);
    namespace.wait_for("the Secret of the CA", || namespace.json(&["secret", "c-ca"]));
    cluster.wait_for("nothing that blocks it", |c| {
        condition(c, "Blocked").is_some_and(|blocked| blocked["status"] == "False")
    });
}
