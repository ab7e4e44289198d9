//! Requests in the form of etcd's version 2 API, which up to 3.5 carry a member's attributes and the cluster's version.
//!
//! In: an entry's data. Out: the command, or `None` if it is a request of today's form. etcd tries today's form first;
//! a version 2 request never passes for one, because its method stands where a message would, and no method's letters
//! are a message. Never: a write to a version 2 key taken for nothing, although the database does not hold such keys.

use prost::Message;
use serde::Deserialize;

use super::command::{Attributes, Command, V2};

/// etcdserverpb.Request. Every field is written, zero or not; the two that are optional are pointers in etcd.
#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(uint64, optional, tag = "1")]
    id: Option<u64>,
    #[prost(string, optional, tag = "2")]
    method: Option<String>,
    #[prost(string, optional, tag = "3")]
    path: Option<String>,
    #[prost(string, optional, tag = "4")]
    value: Option<String>,
    #[prost(bool, optional, tag = "5")]
    dir: Option<bool>,
    #[prost(string, optional, tag = "6")]
    previous_value: Option<String>,
    #[prost(uint64, optional, tag = "7")]
    previous_index: Option<u64>,
    #[prost(bool, optional, tag = "8")]
    previous_exists: Option<bool>,
    #[prost(int64, optional, tag = "9")]
    expiration: Option<i64>,
    #[prost(bool, optional, tag = "10")]
    wait: Option<bool>,
    #[prost(uint64, optional, tag = "11")]
    since: Option<u64>,
    #[prost(bool, optional, tag = "12")]
    recursive: Option<bool>,
    #[prost(bool, optional, tag = "13")]
    sorted: Option<bool>,
    #[prost(bool, optional, tag = "14")]
    quorum: Option<bool>,
    #[prost(int64, optional, tag = "15")]
    time: Option<i64>,
    #[prost(bool, optional, tag = "16")]
    stream: Option<bool>,
    #[prost(bool, optional, tag = "17")]
    refresh: Option<bool>,
}

/// A member's attributes, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Value {
    #[serde(default)]
    name: String,
    #[serde(default, rename = "clientURLs")]
    client_urls: Vec<String>,
}

/// The command, if `data` is a request of the version 2 API.
pub(super) fn read(data: &[u8]) -> Option<Command> {
    if !has_a_method(data) {
        return None;
    }
    let request = Request::decode(data).ok()?;
    let method = request.method.as_deref()?;
    let known = ["GET", "HEAD", "QGET", "PUT", "POST", "DELETE", "SYNC"].contains(&method);
    if !known {
        return None;
    }
    let command = match method {
        // 3.4 logs one for each look at /health.
        "QGET" => Some(Command::Nothing("version 2 read")),
        "PUT" if request.encoded_len() == data.len() => put(&request),
        _ => None,
    };
    Some(command.unwrap_or(Command::Other(V2)))
}

/// Whether the second field follows the first: in today's form it is never written.
fn has_a_method(data: &[u8]) -> bool {
    let [0x08, rest @ ..] = data else { return false };
    let id = rest.iter().take(10).position(|byte| byte & 0x80 == 0);
    id.and_then(|last| rest.get(last + 1)) == Some(&0x12)
}

fn put(request: &Request) -> Option<Command> {
    let conditional = request.previous_exists.is_some()
        || request.previous_index.unwrap_or(0) != 0
        || !request.previous_value.as_deref().unwrap_or("").is_empty();
    if conditional {
        return None;
    }
    let value = request.value.as_deref()?;
    let path = request.path.as_deref()?;
    if path == "/0/version" {
        return Some(Command::ClusterVersion(value.to_owned()));
    }
    let id = path.strip_prefix("/0/members/")?.strip_suffix("/attributes")?;
    if id.is_empty() || id.len() > 16 || !id.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let value: Value = serde_json::from_str(value).ok()?;
    Some(Command::Attributes(Attributes {
        member: u64::from_str_radix(id, 16).ok()?,
        name: value.name,
        client_urls: value.client_urls,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, path: &str, value: &str) -> Request {
        Request {
            id: Some(7),
            method: Some(method.into()),
            path: Some(path.into()),
            value: Some(value.into()),
            dir: Some(false),
            ..Default::default()
        }
    }

    fn command(request: &Request) -> Option<Command> {
        read(&request.encode_to_vec())
    }

    #[test]
    fn attributes_and_versions_are_read() {
        let attributes = request(
            "PUT",
            "/0/members/ac7c97ef0ec193b0/attributes",
            r#"{"name":"m1","clientURLs":["http://127.0.0.1:2379"]}"#,
        );
        let expected = Attributes {
            member: 0xac7c_97ef_0ec1_93b0,
            name: "m1".into(),
            client_urls: vec!["http://127.0.0.1:2379".into()],
        };
        assert_eq!(command(&attributes), Some(Command::Attributes(expected)));
        assert_eq!(
            command(&request("PUT", "/0/version", "3.4.0")),
            Some(Command::ClusterVersion("3.4.0".into()))
        );
        assert_eq!(
            command(&request("QGET", "/", "")),
            Some(Command::Nothing("version 2 read"))
        );
    }

    #[test]
    fn anything_else_is_other() {
        let other = Some(Command::Other("version 2 request"));
        assert_eq!(command(&request("PUT", "/1/a", "x")), other);
        assert_eq!(command(&request("POST", "/1/a", "x")), other);
        assert_eq!(command(&request("DELETE", "/0/version", "")), other);
        assert_eq!(command(&request("PUT", "/0/members/xyz/attributes", "{}")), other);
        assert_eq!(command(&request("PUT", "/0/members//attributes", "{}")), other);
        assert_eq!(command(&request("PUT", "/0/members/a/attributes", "{")), other);
        let mut conditional = request("PUT", "/0/version", "3.4.0");
        conditional.previous_exists = Some(true);
        assert_eq!(command(&conditional), other);
        assert_eq!(command(&request("PATCH", "/0/version", "")), None);
    }
}
