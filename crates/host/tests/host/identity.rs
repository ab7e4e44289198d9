//! Data that is not what its member had: put back to an earlier state, swapped, cloned.

use std::path::{Path, PathBuf};
use std::process::Command;

use quorate_host::Status;

use crate::harness::{Place, any_etcd, first_member, run};

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(
        copied.is_ok_and(|s| s.success()),
        "{} can be copied",
        from.display()
    );
}

fn volume(place: &Place, member: u32) -> PathBuf {
    place.root().join(format!("members/t-{member}/g0"))
}

fn swap(place: &Place, one: u32, other: u32) {
    let (one, other) = (volume(place, one), volume(place, other));
    let aside = place.root().join("swapped");
    for (from, to) in [(&one, &aside), (&other, &one), (&aside, &other)] {
        std::fs::rename(from, to).unwrap();
    }
}

/// Puts what is at `saved` where the data of a member is, which is moved away.
fn put_back(place: &Place, member: u32, saved: &Path) {
    std::fs::rename(volume(place, member), place.root().join("newest")).unwrap();
    std::fs::rename(saved, volume(place, member)).unwrap();
}

fn blocked(status: &Status, part: &str) -> bool {
    let mut details = status
        .blocks
        .iter()
        .map(|b| format!("{}: {}", b.reason, b.detail));
    details.any(|detail| detail.contains(part))
}

fn reported(place: &Place, part: &str) -> bool {
    let lines = place.lines.lock().unwrap();
    lines.iter().any(|line| line.contains(part))
}

async fn put(status: &Status, keys: u32) {
    let endpoint = first_member(status);
    for key in 0..keys {
        endpoint
            .put(format!("key-{key}").as_bytes(), &[7; 100_000])
            .await
            .unwrap();
    }
}

/// It lacks a start that was made on it.
#[test]
fn a_member_whose_data_was_put_back_before_its_last_start_is_replaced() {
    run(async {
        let place = Place::new(3, &any_etcd());
        let saved = place.root().join("saved");
        let up = place.up();
        place.until_ready().await;
        up.down().await;
        copy(&volume(&place, 1), &saved);
        let up = place.up();
        let before = place.until_ready().await;
        up.down().await;
        put_back(&place, 1, &saved);
        let up = place.up();
        let replaced = |s: &Status| s.ready && s.members[1].id != before.members[1].id;
        let after = place.until("replaced", replaced).await;
        assert!(reported(
            &place,
            "RolledBack: t-1 is not started, for its volume was rolled back"
        ));
        assert_eq!(after.cluster_id, before.cluster_id);
        assert!(volume(&place, 1) != after.members[1].data_dir);
        up.down().await;
    });
}

/// It knows of its last start, and its log lacks what was written since: as after a snapshot of the disk that was taken while
/// it ran.
#[test]
fn data_that_lacks_what_was_on_its_disk_is_not_started_even_by_the_only_member() {
    run(async {
        let place = Place::new(1, &any_etcd());
        let saved = place.root().join("saved");
        let up = place.up();
        let status = place.until_ready().await;
        put(&status, 1).await;
        copy(&volume(&place, 0), &saved);
        put(&status, 50).await;
        // The supervisor has looked since.
        place
            .until("seen", |s| s.members[0].db_size > Some(3_000_000))
            .await;
        up.down().await;
        put_back(&place, 0, &saved);
        let up = place.up();
        let status = place
            .until("blocked", |s| blocked(s, "its log ends at index"))
            .await;
        assert_eq!(status.members[0].pid, None);
        up.down().await;
        // The newest state, put back, serves.
        std::fs::rename(volume(&place, 0), place.root().join("older")).unwrap();
        std::fs::rename(place.root().join("newest"), volume(&place, 0)).unwrap();
        let up = place.up();
        let newest = place.until_ready().await;
        up.down().await;
        // The older one again: the user agrees to go on from that, and it does.
        put_back(&place, 0, &place.root().join("older"));
        let up = place.up();
        let status = place
            .until("blocked", |s| blocked(s, "spec.acceptRolledBack"))
            .await;
        let block = status.blocks.iter().find(|b| b.reason == "RolledBack").unwrap();
        let (_, consent) = block.detail.split_once("spec.acceptRolledBack to ").unwrap();
        place.edit_manifest(
            "\n  host:\n",
            &format!("\n  acceptRolledBack: {consent}\n  host:\n"),
        );
        let older = place.until_ready().await;
        assert_eq!(
            (&older.cluster_id, &older.members[0].id),
            (&newest.cluster_id, &newest.members[0].id)
        );
        assert!(older.members[0].db_size < newest.members[0].db_size, "{older:?}");
        // It counts once: what goes on from there is as safe as before.
        up.down().await;
        let up = place.up();
        place.until_ready().await;
        up.down().await;
    });
}

#[test]
fn swapped_and_cloned_data_is_named_and_starts_only_where_it_belongs() {
    run(async {
        let place = Place::new(3, &any_etcd());
        let up = place.up();
        let before = place.until_ready().await;
        up.down().await;
        swap(&place, 0, 2);
        let up = place.up();
        let status = place.until("blocked", |s| blocked(s, "swapped")).await;
        assert!(blocked(&status, "ForeignData"), "{:?}", status.blocks);
        assert_eq!((status.members[0].pid, status.members[2].pid), (None, None));
        up.down().await;
        swap(&place, 0, 2);
        // A clone, of the data of a member that has its own.
        let own = place.root().join("own");
        std::fs::rename(volume(&place, 2), &own).unwrap();
        copy(&volume(&place, 1), &volume(&place, 2));
        let up = place.up();
        let status = place.until("blocked", |s| blocked(s, "clone")).await;
        assert_eq!(status.members[2].pid, None);
        up.down().await;
        std::fs::remove_dir_all(volume(&place, 2)).unwrap();
        std::fs::rename(&own, volume(&place, 2)).unwrap();
        let up = place.up();
        let after = place.until_ready().await;
        let ids = |s: &Status| s.members.iter().map(|m| m.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&after), ids(&before));
        up.down().await;
    });
}
