//! One look at objects through the bed's socket to the API server, at a hundredth of what a process of kubectl costs; and
//! one write, for benches that make thousands.
//!
//! In: what `kubectl get` would be asked for. Out: the object or list, or nothing if it is not there. Never: a question that
//! kubectl would understand otherwise; what is not in the table is left to kubectl.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);
const LONGEST: u64 = 64 << 20;

/// What a kind is called in the singular and in a path, and where its group is served. All are in namespaces.
const KINDS: [(&str, &str, &str); 11] = [
    ("pod", "pods", "/api/v1"),
    ("service", "services", "/api/v1"),
    ("secret", "secrets", "/api/v1"),
    ("event", "events", "/api/v1"),
    ("persistentvolumeclaim", "persistentvolumeclaims", "/api/v1"),
    ("replicaset", "replicasets", "/apis/apps/v1"),
    ("deployment", "deployments", "/apis/apps/v1"),
    ("poddisruptionbudget", "poddisruptionbudgets", "/apis/policy/v1"),
    ("lease", "leases", "/apis/coordination.k8s.io/v1"),
    ("etcdcluster", "etcdclusters", "/apis/etcd.improbable.io/v1alpha1"),
    ("etcdpeer", "etcdpeers", "/apis/etcd.improbable.io/v1alpha1"),
];

/// Where the API server has what `kubectl get` would be asked for with these arguments.
fn path_of(args: &[&str]) -> Option<String> {
    let ["-n", namespace, kind, rest @ ..] = args else {
        return None;
    };
    let (_, plural, group) = KINDS.iter().find(|(one, many, _)| kind == one || kind == many)?;
    let list = format!("{group}/namespaces/{namespace}/{plural}");
    match rest {
        [] => Some(list),
        [name] if is_plain(name) && !name.starts_with('-') => Some(format!("{list}/{name}")),
        ["-l", selector] if is_plain(selector) => Some(format!("{list}?labelSelector={selector}")),
        ["--field-selector", selector] if is_plain(selector) => {
            Some(format!("{list}?fieldSelector={selector}"))
        }
        _ => None,
    }
}

/// Nothing in it has to be escaped in a path or query.
fn is_plain(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-._=,/".contains(&b))
}

/// `None` if this is for kubectl: no such path, or no such socket.
pub(super) fn look(socket: &Path, args: &[&str]) -> Option<Result<Option<Value>, String>> {
    let path = path_of(args)?;
    let stream = UnixStream::connect(socket).ok()?;
    let answer = get(stream, &path).map_err(|e| format!("GET {path}: {e}"));
    Some(answer.and_then(|(status, body)| object(&path, status, &body)))
}

/// A write, which must succeed. `how` is a method and the type of what is written.
pub(super) fn write(socket: &Path, how: (&str, &str), path: &str, body: &Value) -> Result<(), String> {
    let failed = |why: String| format!("{} {path}: {why}", how.0);
    let stream = UnixStream::connect(socket).map_err(|e| failed(format!("{}: {e}", socket.display())))?;
    let (status, answer) = send(stream, how, path, &body.to_string()).map_err(|e| failed(e.to_string()))?;
    match status {
        200..=299 => Ok(()),
        _ => Err(failed(format!(
            "status {status}: {}",
            String::from_utf8_lossy(&answer)
        ))),
    }
}

fn get(stream: UnixStream, path: &str) -> std::io::Result<(u16, Vec<u8>)> {
    send(stream, ("GET", "application/json"), path, "")
}

fn send(
    mut stream: UnixStream,
    (method, kind): (&str, &str),
    path: &str,
    body: &str,
) -> std::io::Result<(u16, Vec<u8>)> {
    stream.set_read_timeout(Some(LIMIT))?;
    let length = match body.len() {
        0 => String::new(),
        length => format!("Content-Type: {kind}\r\nContent-Length: {length}\r\n"),
    };
    // Of this version an answer ends with its connection, and has no parts.
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n{length}\r\n{body}"
    )?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let head = head.ok_or_else(|| std::io::Error::other("no HTTP answer"))?;
    let line = String::from_utf8_lossy(&answer[..head]).into_owned();
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other(format!("no HTTP status in {line:?}")))?;
    Ok((status, answer.split_off(head + 4)))
}

fn object(path: &str, status: u16, body: &[u8]) -> Result<Option<Value>, String> {
    let value: Result<Value, String> = serde_json::from_slice(body).map_err(|e| e.to_string());
    match (status, value) {
        (200, Ok(value)) => Ok(Some(value)),
        // An object that is not there has a name; a kind that nobody serves has none.
        (404, Ok(why)) if why["details"]["name"].is_string() => Ok(None),
        (_, Err(why)) => Err(format!("GET {path}: status {status}: {why}")),
        (_, Ok(why)) => Err(format!("GET {path}: status {status}: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_kubectl_is_asked_for_has_a_path_or_is_left_to_it() {
        let path = |args: &[&str]| path_of(args).unwrap_or_default();
        assert_eq!(
            path(&["-n", "n", "etcdcluster", "c"]),
            "/apis/etcd.improbable.io/v1alpha1/namespaces/n/etcdclusters/c"
        );
        assert_eq!(
            path(&["-n", "n", "pods", "-l", "app.kubernetes.io/name=c"]),
            "/api/v1/namespaces/n/pods?labelSelector=app.kubernetes.io/name=c"
        );
        assert_eq!(
            path(&["-n", "n", "events", "--field-selector", "reason=Blocked"]),
            "/api/v1/namespaces/n/events?fieldSelector=reason=Blocked"
        );
        for others in [
            &["pods"][..],
            &["-n", "n", "pods,services"],
            &["-n", "n", "pods", "-A"],
            &["-n", "n", "pods", "-l", "a in (b)"],
            &["-n", "n", "deployment/a", "pod/b"],
        ] {
            assert_eq!(path(others), "", "{others:?}");
        }
    }

    #[test]
    fn only_an_object_that_is_not_there_is_nothing() {
        let answer = |status, body: Value| object("/x", status, body.to_string().as_bytes());
        assert_eq!(answer(200, json!({"a": 1})), Ok(Some(json!({"a": 1}))));
        assert_eq!(answer(404, json!({"details": {"name": "c"}})), Ok(None));
        assert!(answer(404, json!({"details": {}})).is_err(), "no such kind");
        assert!(answer(503, json!({})).is_err());
        assert!(object("/x", 502, b"Bad Gateway").is_err());
    }
}
