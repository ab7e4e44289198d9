//! What is refused, with the exit code and the words that the command line shows.

use quorate_host::Error;

use crate::harness::{Place, any_etcd, run};

#[test]
fn a_second_supervisor_is_refused() {
    run(async {
        let place = Place::new(1, &any_etcd());
        let up = place.up();
        place.until_ready().await;
        let error = place.up().failure().await;
        assert_eq!(error.exit_code(), 3);
        let text = error.to_string();
        for part in [
            format!("pid {}", std::process::id()),
            "quorate status --root".into(),
            "quorate down".into(),
        ] {
            assert!(text.contains(&part), "{part:?} is not in {text:?}");
        }
        up.down().await;
    });
}

#[test]
fn data_without_a_journal_is_not_bootstrapped_over() {
    run(async {
        let place = Place::new(1, &any_etcd());
        let up = place.up();
        place.until_ready().await;
        up.down().await;
        std::fs::remove_file(place.root().join("journal.json")).unwrap();
        let error = place.up().failure().await;
        assert!(
            matches!(error, Error::JournalMissing { .. }) && error.exit_code() == 3,
            "{error}"
        );
        assert!(error.to_string().contains("members/t-0/g0"), "{error}");
    });
}

#[test]
fn another_clusters_manifest_is_refused_and_an_edited_name_is_not_taken() {
    run(async {
        let place = Place::new(1, &any_etcd());
        let up = place.up();
        place.until_ready().await;
        up.down().await;
        let other = place.root().join("other.yaml");
        let text = std::fs::read_to_string(place.root().join("cluster.yaml")).unwrap();
        std::fs::write(&other, text.replace("name: t", "name: other")).unwrap();
        let error = place.up_by(&other).failure().await;
        assert!(
            matches!(error, Error::OtherCluster { .. }) && error.exit_code() == 3,
            "{error}"
        );
        // The manifest that the root was run by until now.
        place.edit_manifest("name: t", "name: other");
        let up = place.up();
        let blocked = place.until("blocked, and served", |s| {
            let block = s.blocks.iter().find(|b| b.reason == "Invalid");
            block.is_some() && s.members[0].healthy
        });
        let blocks = blocked.await.blocks;
        assert!(blocks[0].detail.contains("changed from t to other"), "{blocks:?}");
        place.edit_manifest("name: other", "name: t");
        place.until_ready().await;
        up.down().await;
    });
}

#[test]
fn a_version_that_is_not_here_is_said_at_once() {
    run(async {
        let place = Place::new(1, "3.6.999");
        let error = place.up().failure().await;
        assert!(matches!(error, Error::NoEtcd(_)), "{error}");
        assert!(
            error.to_string().contains("etcd 3.6.999 was not found"),
            "{error}"
        );
    });
}
