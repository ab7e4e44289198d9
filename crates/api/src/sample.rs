//! A manifest to start from.
//!
//! In: a name, a number, a version. Out: YAML with comments, which [`crate::parse`] and every rule accept.

use semver::Version;

/// The manifest of a new cluster, written for someone who has not seen one.
pub fn default_manifest(name: &str, replicas: u32, version: &Version) -> String {
    format!(
        r#"# An etcd cluster on this machine. `quorate up -f THIS-FILE` runs it; Ctrl-C stops it and keeps its data.
# A running cluster follows each change of this file within seconds. `quorate scale` and `quorate upgrade` edit it for you.
apiVersion: etcd.improbable.io/v1alpha1
kind: EtcdCluster
metadata:
  # Members are called {name}-0, {name}-1, and so on.
  name: {name}
spec:
  # How many members: 3 survive the loss of 1, 5 the loss of 2. 1 is enough to try things out.
  replicas: {replicas}

  # Which etcd, as three numbers. Upgrade one minor at a time: 3.5.x to 3.6.x, then to 3.7.x.
  version: {version}

  # How much room each member may use. On Kubernetes this is the volume claim.
  storage:
    volumeClaimTemplate:
      resources:
        requests:
          storage: 8Gi

  # The largest database; above it etcd accepts no more writes until space is made.
  # quota: 2Gi

  # Members and clients talk TLS, with certificates that quorate makes and renews. To turn that off:
  # tls:
  #   enabled: false

  # etcd's own settings; what is left out is etcd's default.
  # options:
  #   autoCompactionMode: periodic
  #   autoCompactionRetention: 1h

  # Every change goes into an archive within seconds, so that any point of time can be had back.
  backup:
    # Full copies, as cron says it. What changes between them is written down as it happens.
    schedule: "0 */6 * * *"
    deltas:
      period: 20s
    retention:
    - for: 7d
    # Where the archive is. Left out, a directory under the root; better is a place that does not go with this machine.
    # destination:
    #   archive:
    #     url: s3://bucket/prefix

  # The first member's ports; the others' follow. Left out, free ones are chosen.
  # host:
  #   clientPort: 2379
  #   peerPort: 2380
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ground, parse, resolve};

    #[test]
    fn it_is_accepted_without_a_warning() {
        let text = default_manifest("my-cluster", 3, &Version::new(3, 6, 1));
        let manifest = parse(&text, "cluster.yaml").unwrap();
        let (cluster, warnings) = resolve(&manifest, Ground::Host, &text, "cluster.yaml").unwrap();
        assert_eq!(warnings, []);
        assert_eq!(
            (cluster.name.as_str(), cluster.replicas, cluster.version),
            ("my-cluster", 3, Version::new(3, 6, 1))
        );
        assert!(cluster.tls);
    }

    #[test]
    fn what_is_commented_out_is_accepted_too() {
        let text = default_manifest("my-cluster", 3, &Version::new(3, 6, 1));
        let uncommented: String = text
            .lines()
            .map(|line| match line.strip_prefix("  # ") {
                Some(code)
                    if code
                        .trim_start()
                        .split(' ')
                        .next()
                        .is_some_and(|word| word.ends_with(':')) =>
                {
                    format!("  {code}\n")
                }
                _ => format!("{line}\n"),
            })
            .collect();
        let manifest = parse(&uncommented, "cluster.yaml").unwrap();
        let (cluster, warnings) = resolve(&manifest, Ground::Host, &uncommented, "cluster.yaml").unwrap();
        assert_eq!(warnings, []);
        assert!(!cluster.tls);
        assert_eq!(cluster.quota_bytes, Some(2 << 30));
        assert_eq!(cluster.host.client_port, Some(2379));
        assert_eq!(cluster.options.auto_compaction_retention.as_deref(), Some("1h"));
    }
}
