//! A version change by editing one value of the manifest, under clients that write down every answer.

use quorate_tests::etcd;
use quorate_tests::kube::assertions::await_version;
use quorate_tests::kube::changes::upgrade;
use quorate_tests::kube::cluster::manifest;
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::traffic::Traffic;
use serde_json::json;

/// A version that no member could follow to is refused at once, in the words of the manifest's author.
#[test]
fn no_acknowledged_write_is_lost_in_an_upgrade_and_the_way_back_is_refused() {
    let (from, to) = (etcd::newest("3.5"), etcd::newest("3.6"));
    let namespace = Namespace::new("upgrade");
    let cluster = namespace.create("c", &manifest("c", 3, &from));
    cluster.await_ready(3, &from);
    await_version(&cluster, &from);
    let traffic = Traffic::start(&cluster);
    upgrade(&cluster, &traffic, &to);
    traffic.verdict();
    for (wanted, word) in [
        (from.as_str(), "newer minor"),
        ("3.6", "dotted-tri"),
        ("4.0.0", "only Etcd version 3"),
    ] {
        namespace.refusal(
            &[word],
            || cluster.patch(&json!({"version": wanted})),
            || cluster.set_version(&to),
        );
    }
}
