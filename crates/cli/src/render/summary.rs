//! What `quorate up` shows once the cluster serves: where it is, how to use it, how to change it.

use std::path::Path;

use quorate_host::{Member, Status};

use super::count::count;
use super::style::{self, paint};
use super::table::{self, Cell};
use crate::roots::quoted;

/// The summary. `etcdctl` is the program to offer, `root` the option that commands need to mean this cluster.
pub fn page(status: &Status, etcdctl: Option<&Path>, root: &str) -> String {
    let members_up = count(status.members.len(), "member", "members");
    let head = format!(
        "{} is up: {members_up}, etcd {}",
        status.cluster, status.spec.version
    );
    let mut text = format!(
        "\n{}\n\n{}\n",
        paint(style::GOOD.bold(), &head),
        members(&status.members)
    );
    let mut row = |title: &str, value: &str| {
        text += &format!("  {}  {value}\n", paint(style::DIM, &format!("{title:<12}")))
    };
    row("endpoints", &status.endpoints.join(","));
    match &status.certs {
        Some(certs) => row(
            "certificates",
            &certs.ca.parent().unwrap_or(&certs.ca).display().to_string(),
        ),
        None => row("certificates", "none: TLS is off in the manifest"),
    }
    row("manifest", &status.manifest.display().to_string());
    text += &format!("\n  Try it:\n{}\n", indented(&to_try(status, etcdctl, root)));
    text += &format!(
        "\n  Edit the manifest or run {} in another terminal; Ctrl-C stops all members.\n\n",
        paint(
            style::NAME,
            &format!("quorate scale {}{root}", next_size(status.spec.replicas))
        )
    );
    text
}

fn members(members: &[Member]) -> String {
    let row = |member: &Member| {
        vec![
            Cell::styled(style::HEAD, &member.name),
            Cell::text(&member.client_url),
            Cell::text(&member.role),
            Cell::text(member.version.as_deref().unwrap_or("-")),
        ]
    };
    let rows: Vec<Vec<Cell>> = members.iter().map(row).collect();
    table::draw(&["MEMBER", "CLIENT URL", "ROLE", "VERSION"], &rows, "  ")
}

/// One command, ready to be copied.
fn to_try(status: &Status, etcdctl: Option<&Path>, root: &str) -> String {
    let Some(etcdctl) = etcdctl else {
        return format!("quorate status{root}");
    };
    let mut command = vec![format!(
        "{} --endpoints {}",
        quoted(etcdctl),
        status.endpoints.join(",")
    )];
    if let Some(certs) = &status.certs {
        let (ca, cert, key) = (quoted(&certs.ca), quoted(&certs.cert), quoted(&certs.key));
        command.push(format!("--cacert {ca}"));
        command.push(format!("--cert {cert} --key {key}"));
    }
    command.push("endpoint status --write-out table".to_owned());
    command.join(" \\\n  ")
}

fn indented(command: &str) -> String {
    let lines = command
        .lines()
        .map(|line| format!("    {}", paint(style::NAME, line)));
    lines.collect::<Vec<_>>().join("\n")
}

/// The next size worth trying.
fn next_size(replicas: u32) -> u32 {
    if replicas < 3 {
        3
    } else {
        replicas.saturating_add(2) | 1
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use quorate_host::{Certs, Wanted};

    use super::*;

    fn status() -> Status {
        let member = |ordinal: u32, role: &str| Member {
            name: format!("etcd-{ordinal}"),
            role: role.to_owned(),
            version: Some("3.6.16".to_owned()),
            client_url: format!("https://127.0.0.1:{}", 2379 + 2 * ordinal),
            ..Member::default()
        };
        Status {
            cluster: "etcd".to_owned(),
            spec: Wanted {
                replicas: 3,
                version: "3.6.16".to_owned(),
                paused: false,
            },
            members: vec![member(0, "leader"), member(1, "voter")],
            endpoints: vec![
                "https://127.0.0.1:2379".to_owned(),
                "https://127.0.0.1:2381".to_owned(),
            ],
            manifest: PathBuf::from("/r/cluster.yaml"),
            certs: Some(Certs {
                ca: "/r/pki/ca.crt".into(),
                cert: "/r/pki/c.crt".into(),
                key: "/r/pki/c.key".into(),
            }),
            ..Status::default()
        }
    }

    fn plain(status: &Status, etcdctl: Option<&str>, root: &str) -> String {
        anstream::adapter::strip_str(&page(status, etcdctl.map(Path::new), root)).to_string()
    }

    #[test]
    fn with_certificates_and_etcdctl() {
        let expected = r"
etcd is up: 2 members, etcd 3.6.16

  MEMBER  CLIENT URL              ROLE    VERSION
  etcd-0  https://127.0.0.1:2379  leader  3.6.16
  etcd-1  https://127.0.0.1:2381  voter   3.6.16

  endpoints     https://127.0.0.1:2379,https://127.0.0.1:2381
  certificates  /r/pki
  manifest      /r/cluster.yaml

  Try it:
    etcdctl --endpoints https://127.0.0.1:2379,https://127.0.0.1:2381 \
      --cacert /r/pki/ca.crt \
      --cert /r/pki/c.crt --key /r/pki/c.key \
      endpoint status --write-out table

  Edit the manifest or run quorate scale 5 in another terminal; Ctrl-C stops all members.

";
        assert_eq!(plain(&status(), Some("etcdctl"), ""), expected);
    }

    #[test]
    fn without_them() {
        let text = plain(
            &Status {
                certs: None,
                ..status()
            },
            None,
            " --root /r",
        );
        assert!(
            text.contains("  certificates  none: TLS is off in the manifest\n"),
            "{text}"
        );
        assert!(
            text.contains("  Try it:\n    quorate status --root /r\n"),
            "{text}"
        );
        assert!(text.contains("run quorate scale 5 --root /r in"), "{text}");
        assert_eq!([1, 2, 3, 4, 5].map(next_size), [3, 3, 5, 7, 7]);
    }
}
