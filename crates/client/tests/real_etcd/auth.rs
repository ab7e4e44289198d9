//! Users and passwords, on every version.

use quorate_client::{Consistency, Credentials, Endpoint, Outcome, Refusal};
use quorate_testkit::versions;

use crate::member::{Plan, eventually};

fn user(name: &str) -> Credentials {
    Credentials {
        user: name.into(),
        password: format!("{name}'s password"),
    }
}

async fn enable(endpoint: &Endpoint) {
    endpoint.user_add(&user("root")).await.unwrap();
    endpoint.role_add("root").await.unwrap();
    endpoint.user_grant_role(&user("root"), "root").await.unwrap();
    endpoint.user_add(&user("guest")).await.unwrap();
    endpoint.role_add("guest").await.unwrap();
    endpoint.role_grant_key("guest", b"open").await.unwrap();
    endpoint.user_grant_role(&user("guest"), "guest").await.unwrap();
    endpoint.auth_enable().await.unwrap();
}

#[tokio::test]
async fn tokens_are_fetched_and_renewed() {
    for version in versions() {
        let mut member = Plan::new(&version).single().await;
        let nobody = member.endpoint();
        let root = nobody.with_credentials(user("root"));
        let guest = nobody.with_credentials(user("guest"));

        // Credentials do no harm while authentication is off, and begin to work when it goes on.
        root.put(b"a", b"1").await.unwrap();
        enable(&nobody).await;
        root.put(b"a", b"2").await.unwrap();

        let error = nobody.put(b"a", b"3").await.unwrap_err();
        assert_eq!(
            (error.refusal(), error.outcome()),
            (Refusal::UserEmpty, Outcome::NotDone)
        );
        assert_eq!(nobody.linearizable_read().await.unwrap().member_id, None);

        guest.put(b"open", b"1").await.unwrap();
        let error = guest.put(b"a", b"3").await.unwrap_err();
        assert_eq!(
            (error.refusal(), error.outcome()),
            (Refusal::PermissionDenied, Outcome::NotDone)
        );
        assert_eq!(guest.linearizable_read().await.unwrap().member_id, None);
        let list = guest.member_list_linearizable().await.unwrap();
        assert_eq!(list.members.len(), 1);

        let wrong = Credentials {
            password: "wrong".into(),
            ..user("root")
        };
        let error = nobody.with_credentials(wrong).put(b"a", b"3").await.unwrap_err();
        assert_eq!(
            (error.refusal(), error.outcome()),
            (Refusal::AuthFailed, Outcome::NotDone)
        );

        // A change of users makes tokens old; a restart makes the member forget them.
        root.user_add(&user("another")).await.unwrap();
        root.put(b"a", b"3").await.unwrap();
        guest.put(b"open", b"2").await.unwrap();
        member.kill();
        member.start();
        member.await_quorum().await;
        root.put(b"a", b"4").await.unwrap();
        let read = guest
            .get(b"open", Consistency::Linearizable)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(read.value, b"2");

        // Status is readable as a user, also with the first token not yet fetched.
        let fresh = nobody.with_credentials(user("root"));
        let status = eventually(|| fresh.status()).await.unwrap();
        assert_eq!(status.version, version);
    }
}
