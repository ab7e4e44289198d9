//! An etcd whose user has enabled authentication, without TLS: quorate says what it needs, and goes on once it has it.

use quorate_client::Credentials;
use quorate_testkit::versions;

use crate::harness::{Place, first_member, run};

#[test]
fn with_authentication_enabled_it_says_what_it_needs_and_then_goes_on_managing() {
    for version in versions() {
        run(goes_on_managing(&version));
    }
}

async fn goes_on_managing(version: &str) {
    let place = Place::new(1, version);
    let manifest = std::fs::read_to_string(place.root().join("cluster.yaml")).unwrap();
    place.write_manifest(&format!("{manifest}\n  tls:\n    enabled: false\n"));
    let up = place.up();
    let before = place.until_ready().await;
    let url = &before.members[0].client_url;
    assert!(url.starts_with("http://"), "{url}");
    let etcd = first_member(&before);
    let root = Credentials {
        user: "root".to_owned(),
        password: "hunter2".to_owned(),
    };
    etcd.user_add(&root).await.unwrap();
    etcd.role_add("root").await.unwrap();
    etcd.user_grant_role(&root, "root").await.unwrap();
    etcd.auth_enable().await.unwrap();
    place.edit_manifest("replicas: 1", "replicas: 2");

    let refused = place
        .until("etcd does not let it in", |status| {
            status.blocks.iter().any(|block| block.reason == "LoginRefused")
        })
        .await;
    assert!(!refused.ready, "{version}: {refused:#?}");
    let blocks: Vec<&str> = refused.blocks.iter().map(|b| b.reason.as_str()).collect();
    assert_eq!(blocks, ["LoginRefused"], "{version}: and nothing that is not so");
    let detail = &refused.blocks[0].detail;
    assert!(detail.contains("spec.auth.passwordFile"), "{version}: {detail}");

    let password = place.root().join("password");
    let manifest = std::fs::read_to_string(place.root().join("cluster.yaml")).unwrap();
    let auth = format!("  auth:\n    passwordFile: {}\n", password.display());
    place.write_manifest(&format!("{manifest}{auth}"));
    place
        .until("the file is missed", |status| {
            status
                .problems
                .iter()
                .any(|p| p.contains("spec.auth.passwordFile"))
        })
        .await;
    std::fs::write(&password, "hunter2\n").unwrap();
    let grown = place
        .until("it has grown", |status| status.ready && status.members.len() == 2)
        .await;
    assert!(grown.members.iter().all(|m| m.healthy), "{version}: {grown:#?}");
    let reported = format!("{grown:?}") + &place.lines.lock().unwrap().join("\n");
    assert!(
        !reported.contains("hunter2"),
        "{version}: the password is reported"
    );
    up.down().await;
}
