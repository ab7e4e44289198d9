//! The page, word for word.

use quorate_host::{Block, Member, Status, SupervisorStatus, Wait, Wanted};

use super::*;

fn member(ordinal: u32, role: &str) -> Member {
    Member {
        name: format!("etcd-{ordinal}"),
        id: Some(format!("8211f1d0f64f326{ordinal}")),
        ordinal,
        healthy: true,
        leader: role == "leader",
        learner: role == "learner",
        role: role.to_owned(),
        version: Some("3.6.16".to_owned()),
        db_size: Some(20_480),
        db_size_in_use: Some(1_600_000),
        client_url: format!("https://127.0.0.1:{}", 2379 + 2 * ordinal),
        pid: Some(4000 + ordinal),
        process: "running".to_owned(),
        ..Member::default()
    }
}

fn status() -> Status {
    Status {
        cluster: "etcd".to_owned(),
        cluster_id: Some("cafe12".to_owned()),
        supervisor: SupervisorStatus {
            pid: 77,
            running: true,
            ..SupervisorStatus::default()
        },
        spec: Wanted {
            replicas: 3,
            version: "3.6.16".to_owned(),
            paused: false,
        },
        members: vec![member(0, "leader"), member(1, "voter"), member(2, "voter")],
        ready: true,
        ..Status::default()
    }
}

fn plain(status: &Status, seconds: u64) -> String {
    let status = Status {
        age: Some(seconds),
        stale: !status.supervisor.running || seconds >= quorate_host::STALE.as_secs(),
        ..status.clone()
    };
    anstream::adapter::strip_str(&page(&status)).to_string()
}

#[test]
fn a_healthy_cluster() {
    let expected = "\
etcd (id cafe12, etcd 3.6.16) is healthy: all 3 members serve

NAME    ID                ROLE    HEALTH   VERSION      DB   IN USE   PID  CLIENT URL
etcd-0  8211f1d0f64f3260  leader  healthy  3.6.16   20 KiB  1.5 MiB  4000  https://127.0.0.1:2379
etcd-1  8211f1d0f64f3261  voter   healthy  3.6.16   20 KiB  1.5 MiB  4001  https://127.0.0.1:2381
etcd-2  8211f1d0f64f3262  voter   healthy  3.6.16   20 KiB  1.5 MiB  4002  https://127.0.0.1:2383
";
    assert_eq!(plain(&status(), 1), expected);
}

#[test]
fn a_cluster_that_grows_says_what_it_does_and_waits_for() {
    let mut status = status();
    status.ready = false;
    status.spec.replicas = 4;
    status.members.push(Member {
        version: None,
        db_size: None,
        db_size_in_use: None,
        ..member(3, "learner")
    });
    status.plan = vec!["promote learner 3 (8211f1d0f64f3263)".to_owned()];
    let wait = |member: Option<&str>, detail: &str| Wait {
        reason: "LearnerCatchingUp".to_owned(),
        member: member.map(str::to_owned),
        detail: detail.to_owned(),
        until: None,
    };
    status.waits = vec![
        wait(Some("etcd-3"), "has applied 5 of 900 entries"),
        wait(None, "one at a time"),
    ];
    let expected = "\
etcd (id cafe12, etcd 3.6.16) is changing: all 3 members serve

NAME    ID                ROLE     HEALTH   VERSION      DB   IN USE   PID  CLIENT URL
etcd-0  8211f1d0f64f3260  leader   healthy  3.6.16   20 KiB  1.5 MiB  4000  https://127.0.0.1:2379
etcd-1  8211f1d0f64f3261  voter    healthy  3.6.16   20 KiB  1.5 MiB  4001  https://127.0.0.1:2381
etcd-2  8211f1d0f64f3262  voter    healthy  3.6.16   20 KiB  1.5 MiB  4002  https://127.0.0.1:2383
etcd-3  8211f1d0f64f3263  learner  healthy  -             -        -  4003  https://127.0.0.1:2385

Doing
  promote learner 3 (8211f1d0f64f3263)

Waiting for
  LearnerCatchingUp: etcd-3: has applied 5 of 900 entries
  LearnerCatchingUp: one at a time
  quorate explain LearnerCatchingUp
";
    assert_eq!(plain(&status, 1), expected);
}

#[test]
fn a_cluster_without_a_quorum_says_what_blocks_it() {
    let mut status = status();
    status.ready = false;
    status.members.truncate(1);
    for ordinal in [1, 2] {
        status.members.push(Member {
            healthy: false,
            pid: None,
            db_size: None,
            db_size_in_use: None,
            process: "ended: exit code 1: cannot open the database".to_owned(),
            ..member(ordinal, "voter")
        });
    }
    status.blocks = vec![Block {
        reason: "QuorumLost".to_owned(),
        member: None,
        detail: "the data of 2 of 3 members is gone".to_owned(),
    }];
    status.problems = vec!["cluster.yaml:9: spec.replicas: found -1".to_owned()];
    let expected = "\
etcd (id cafe12, etcd 3.6.16) has no quorum: 1 of 3 voting members healthy, 2 needed

NAME    ID                ROLE    HEALTH   VERSION      DB   IN USE   PID  CLIENT URL
etcd-0  8211f1d0f64f3260  leader  healthy  3.6.16   20 KiB  1.5 MiB  4000  https://127.0.0.1:2379
etcd-1  8211f1d0f64f3261  voter   down     3.6.16        -        -     -  https://127.0.0.1:2381
etcd-2  8211f1d0f64f3262  voter   down     3.6.16        -        -     -  https://127.0.0.1:2383

  etcd-1 is down: exit code 1: cannot open the database; see `quorate logs etcd-1`
  etcd-2 is down: exit code 1: cannot open the database; see `quorate logs etcd-2`

Blocked by
  QuorumLost: the data of 2 of 3 members is gone
  quorate explain QuorumLost

Problems
  cluster.yaml:9: spec.replicas: found -1
";
    assert_eq!(plain(&status, 1), expected);
}

#[test]
fn an_old_status_is_not_passed_off_as_news() {
    let mut status = status();
    status.members.clear();
    status.cluster_id = None;
    status.ready = false;
    assert_eq!(
        plain(&status, 45),
        "etcd (etcd 3.6.16) is not known to be healthy\n\
         This is from 45 s ago, although the supervisor (pid 77) runs: it is stuck or starved, or cannot\n\
         write. How the members are now is not known.\n"
    );
    status.supervisor.running = false;
    assert_eq!(
        plain(&status, 5),
        "etcd (etcd 3.6.16) is stopped\n\
         Nothing runs; it was last seen 5 s ago. `quorate up` starts it again from its data.\n"
    );
    status.members = vec![Member {
        healthy: false,
        leader: false,
        ..member(0, "leader")
    }];
    assert_eq!(
        plain(&status, 300),
        "etcd (etcd 3.6.16) is not supervised\n\
         No supervisor runs; the members were last looked at 5 min ago, and those that run go on serving.\n\
         `quorate up` takes them over, `quorate down` stops them.\n\
         \n\
         NAME    ID                ROLE   HEALTH   VERSION      DB   IN USE   PID  CLIENT URL\n\
         etcd-0  8211f1d0f64f3260  voter  running  3.6.16   20 KiB  1.5 MiB  4000  https://127.0.0.1:2379\n"
    );
}

#[test]
fn health_in_words() {
    let words = |change: &dyn Fn(&mut Status)| {
        let mut status = status();
        status.ready = false;
        change(&mut status);
        health(&status).1
    };
    assert_eq!(words(&|s| s.ready = true), "is healthy: all 3 members serve");
    assert_eq!(words(&|s| s.spec.paused = true), "is paused: all 3 members serve");
    assert_eq!(
        words(&|s| s.members[1].healthy = false),
        "serves with 2 of 3 voting members healthy"
    );
    assert_eq!(
        words(&|s| s.blocks.push(Block::default())),
        "is blocked: all 3 members serve"
    );
    let starting = |s: &mut Status| {
        s.cluster_id = None;
        s.members
            .iter_mut()
            .for_each(|m| (m.healthy, m.role) = (false, "unknown".to_owned()));
    };
    assert_eq!(words(&starting), "is starting");
    let lost = |s: &mut Status| {
        starting(s);
        s.cluster_id = Some("cafe12".to_owned());
        s.members[0].pid = None;
    };
    assert_eq!(words(&lost), "has no quorum: 2 of 3 members run");
    let stuck = |s: &mut Status| {
        starting(s);
        s.blocks.push(Block::default());
    };
    assert_eq!(words(&stuck), "cannot start");
    let single = |s: &mut Status| {
        s.members.truncate(1);
        s.ready = true;
    };
    assert_eq!(words(&single), "is healthy: its only member serves");
}

#[test]
fn versions_tell_where_it_moves() {
    let mut status = status();
    status.spec.version = "3.7.3".to_owned();
    assert_eq!(versions(&status), "etcd 3.6.16, wanted 3.7.3");
    status.members[2].version = Some("3.7.3".to_owned());
    assert_eq!(versions(&status), "etcd 3.6.16 and 3.7.3, wanted 3.7.3");
}

#[test]
fn sizes() {
    let table = [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1_048_575, "1 MiB"),
        (3 << 30, "3 GiB"),
    ];
    for (bytes, words) in table {
        assert_eq!(bytes_in_words(bytes), words);
    }
}
