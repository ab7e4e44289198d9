//! The rules of `spec.auth`.

use std::path::PathBuf;

use super::{Findings, Ground};
use crate::cluster::Auth;
use crate::path::FieldPath;

/// The Secret with root's password, and the file with it: the one that is for this ground.
pub(crate) fn auth(auth: Option<&Auth>, found: &mut Findings) -> (Option<String>, Option<PathBuf>) {
    let Some(auth) = auth else { return (None, None) };
    let path = FieldPath::of("spec.auth");
    let secret = auth.root_secret.clone();
    if secret.as_ref().is_some_and(String::is_empty) {
        let fix = "Write the name of a Secret that holds password.";
        found.fault(path.key("rootSecret"), "nothing", "the name of a Secret", fix);
    }
    let file = auth.password_file.as_ref().map(PathBuf::from);
    if let Some(file) = file.as_ref().filter(|file| !file.is_absolute()) {
        found.fault(
            path.key("passwordFile"),
            format!("the text {:?}", file.display().to_string()),
            "a path from the root directory",
            "Write the whole path, for example /etc/quorate/root-password.",
        );
    }
    match found.ground {
        Ground::Host if secret.is_some() => {
            let text = "ignored: there are no Secrets on this machine; name a file in passwordFile.";
            found.warn(path.key("rootSecret"), text);
        }
        Ground::Kubernetes if file.is_some() => {
            let text = "ignored: it is for members that run on a machine without Kubernetes; name a Secret in rootSecret.";
            found.warn(path.key("passwordFile"), text);
        }
        _ => {}
    }
    (
        secret.filter(|_| found.ground == Ground::Kubernetes),
        file.filter(|_| found.ground == Ground::Host),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ground_has_its_own_place_for_the_password() {
        let both = Auth {
            root_secret: Some("s".to_owned()),
            password_file: Some("/p".to_owned()),
        };
        let mut found = Findings::on(Ground::Kubernetes);
        assert_eq!(auth(Some(&both), &mut found), (Some("s".to_owned()), None));
        let mut found = Findings::on(Ground::Host);
        assert_eq!(auth(Some(&both), &mut found), (None, Some(PathBuf::from("/p"))));
        assert_eq!((found.faults.len(), found.warnings.len()), (0, 1));
        let wrong = Auth {
            root_secret: Some(String::new()),
            password_file: Some("p".to_owned()),
        };
        let mut found = Findings::on(Ground::Host);
        auth(Some(&wrong), &mut found);
        assert_eq!(found.faults.len(), 2);
    }
}
