//! Logging in to an etcd with authentication: the password is in a Secret of the user's.
//!
//! In: the Secret that spec.auth names. Out: credentials, or why there are none. Never: a password in a text.

use k8s_openapi::api::core::v1::Secret;
use quorate_client::Credentials;

/// Reads user and password from a Secret.
pub fn credentials(name: &str, secret: Option<&Secret>) -> Result<Credentials, String> {
    let Some(secret) = secret else {
        return Err(format!(
            "spec.auth.rootSecret: there is no Secret {name:?}; make it, with the key password"
        ));
    };
    let text = |key: &str| {
        let bytes = &secret.data.as_ref()?.get(key)?.0;
        let text = std::str::from_utf8(bytes).ok()?.trim_end_matches(['\r', '\n']);
        (!text.is_empty()).then(|| text.to_owned())
    };
    let Some(password) = text("password") else {
        return Err(format!(
            "spec.auth.rootSecret: Secret {name:?} has no key password with a text"
        ));
    };
    Ok(Credentials {
        user: text("username").unwrap_or_else(|| "root".to_owned()),
        password,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_password_is_read_and_never_printed() {
        let secret = |data: serde_json::Value| -> Secret {
            serde_json::from_value(json!({"stringData": {}, "data": data})).unwrap()
        };
        let made = credentials("s", Some(&secret(json!({"password": "aHVudGVyMgo="})))).unwrap();
        assert_eq!((made.user.as_str(), made.password.as_str()), ("root", "hunter2"));
        let named = secret(json!({"password": "eA==", "username": "YWRtaW4="}));
        assert_eq!(credentials("s", Some(&named)).unwrap().user, "admin");
        for bad in [json!({}), json!({"password": ""}), json!({"password": "//8="})] {
            let why = credentials("s", Some(&secret(bad))).unwrap_err();
            assert!(why.contains("has no key password"), "{why}");
        }
        assert!(
            credentials("s", None)
                .unwrap_err()
                .contains("there is no Secret \"s\"")
        );
    }
}
