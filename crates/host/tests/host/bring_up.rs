//! Clusters come up, on every supported version, grow, shrink, and go down.

use quorate_host::control;

use crate::harness::{Place, any_etcd, pids, run};

#[test]
fn three_members_come_up_and_go_down() {
    run(async {
        let place = Place::new(3, &any_etcd());
        let up = place.up();
        let status = place.until_ready().await;
        assert_eq!(status.members.len(), 3);
        assert!(
            status
                .members
                .iter()
                .all(|m| m.healthy && m.id.is_some() && m.process == "running")
        );
        assert_eq!(status.members.iter().filter(|m| m.leader).count(), 1);
        assert_eq!(status.endpoints.len(), 3);
        assert_eq!(pids(&status).len(), 3);
        assert!(status.supervisor.running);
        assert!(status.certs.unwrap().key.is_file());
        up.down().await;
        // A process that another test forks holds a copy of the lock for a moment, until it executes its program.
        place
            .until("stopped", |s| !s.supervisor.running && pids(s).is_empty())
            .await;
        assert_eq!(
            control::down(place.root()).await.unwrap(),
            control::Down::NothingRan
        );
    });
}

#[test]
fn a_cluster_that_was_stopped_resumes_as_it_was() {
    run(async {
        let place = Place::new(3, &any_etcd());
        let up = place.up();
        let before = place.until_ready().await;
        up.down().await;
        let up = place.up();
        let after = place
            .until("ready again", |s| {
                s.ready && s.supervisor.since != before.supervisor.since
            })
            .await;
        assert_eq!(before.cluster_id, after.cluster_id);
        let ids =
            |status: &quorate_host::Status| status.members.iter().map(|m| m.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&before), ids(&after));
        up.down().await;
    });
}

#[test]
fn every_version_in_the_cache_starts() {
    for name in quorate_testkit::versions() {
        run(async {
            let place = Place::new(1, &name);
            let up = place.up();
            let status = place.until_ready().await;
            assert_eq!(status.members[0].version.as_deref(), Some(name.as_str()));
            up.down().await;
        });
    }
}

#[test]
fn a_cluster_grows_and_shrinks_with_its_manifest() {
    let _slot = quorate_testkit::ClusterSlot::acquire();
    run(async {
        let place = Place::new(1, &any_etcd());
        let up = place.up();
        place.until_ready().await;
        place.edit_manifest("replicas: 1", "replicas: 3");
        let grown = place
            .until("three members", |s| s.ready && s.members.len() == 3)
            .await;
        assert!(grown.members.iter().all(|m| m.healthy && !m.learner));
        place.edit_manifest("replicas: 3", "replicas: 1");
        let shrunk = place
            .until("one member", |s| s.ready && s.members.len() == 1)
            .await;
        assert_eq!(shrunk.members[0].id, grown.members[0].id);
        assert_eq!(pids(&shrunk).len(), 1);
        place
            .until("old data aside", |_| {
                place.root().join("aside").read_dir().unwrap().count() == 2
            })
            .await;
        let certificates_of = |member: &str| {
            let entries = place.root().join("pki").read_dir().unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name.contains(member)).count()
        };
        // They are looked at when the manifest is read again, at the latest.
        place.edit_manifest("\n  host:", "\n  paused: false\n  host:");
        place
            .until("certificates of former members gone", |_| {
                certificates_of("t-1") + certificates_of("t-2") == 0
            })
            .await;
        assert_eq!(certificates_of("t-0"), 4);
        // Who comes to their place gets others.
        place.edit_manifest("replicas: 1", "replicas: 2");
        place
            .until("two members", |s| s.ready && s.members.len() == 2)
            .await;
        assert_eq!(certificates_of("t-1"), 4);
        up.down().await;
    });
}

#[test]
fn a_redeployment_restarts_one_after_the_other() {
    run(async {
        let place = Place::new(3, &any_etcd());
        let up = place.up();
        let before = place.until_ready().await;
        place.edit_manifest("\n  host:\n", "\n  forceRedeploymentReason: again\n  host:\n");
        let all_new =
            |s: &quorate_host::Status| s.ready && pids(s).is_disjoint(&pids(&before)) && pids(s).len() == 3;
        let after = place.until("all restarted", all_new).await;
        assert!(after.members.iter().all(|m| m.restarts == 1));
        up.down().await;
    });
}

#[test]
fn an_upgrade_goes_one_member_at_a_time() {
    run(async {
        let place = Place::new(3, "3.4.23");
        let up = place.up();
        let before = place.until_ready().await;
        place.edit_manifest("version: 3.4.23", "version: 3.5.35");
        let all = |s: &quorate_host::Status, v: &str| {
            s.ready && s.members.iter().all(|m| m.version.as_deref() == Some(v))
        };
        place.until("all at 3.5.35", |s| all(s, "3.5.35")).await;
        place.edit_manifest("version: 3.5.35", "version: 3.6.16");
        let after = place.until("all at 3.6.16", |s| all(s, "3.6.16")).await;
        assert_eq!(before.cluster_id, after.cluster_id);
        up.down().await;
    });
}
