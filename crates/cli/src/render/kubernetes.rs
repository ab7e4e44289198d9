//! What Kubernetes object a value is: its kind, its namespace, its name.
//!
//! ```text
//! "k8s\0", then Unknown {1 TypeMeta {1 apiVersion, 2 kind}, 2 raw}; raw begins with {1 ObjectMeta {1 name, 3 namespace}}
//! or JSON: {"apiVersion": …, "kind": …, "metadata": {"name": …, "namespace": …}}
//! or encrypted by the API server: "k8s:enc:PROVIDER:…", of which nothing is known
//! ```
//!
//! In: a value. Out: what it is, where it is one. Never: more read than that; a length believed that is not there.

use serde::{Deserialize, Serialize};

const PROTOBUF: &[u8] = b"k8s\0";
const ENCRYPTED: &[u8] = b"k8s:enc:";
/// No name is longer; text that is would only be garbage that looks like it.
const TEXT_MAX: usize = 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Object {
    /// The version of its kind, such as `apps/v1`.
    pub api_version: String,
    pub kind: String,
    /// Its namespace; empty where it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

/// The object that `value` is, if it is one.
pub fn object(value: &[u8]) -> Option<Object> {
    if let Some(rest) = value.strip_prefix(PROTOBUF) {
        return from_protobuf(rest);
    }
    if let Some(rest) = value.strip_prefix(ENCRYPTED) {
        let provider = rest.split(|byte| *byte == b':').next().and_then(text)?;
        return Some(Object {
            kind: format!("(encrypted: {provider})"),
            ..Object::default()
        });
    }
    value.starts_with(b"{").then(|| from_json(value)).flatten()
}

fn from_json(value: &[u8]) -> Option<Object> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Json {
        api_version: String,
        kind: String,
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        namespace: String,
        name: String,
    }
    let json: Json = serde_json::from_slice(value).ok()?;
    Some(Object {
        api_version: json.api_version,
        kind: json.kind,
        namespace: json.metadata.namespace,
        name: json.metadata.name,
    })
}

fn from_protobuf(unknown: &[u8]) -> Option<Object> {
    let type_meta = field(unknown, 1)?;
    let meta = field(field(unknown, 2)?, 1)?;
    let of = |message, number| field(message, number).map_or(Some(String::new()), text);
    let object = Object {
        api_version: of(type_meta, 1)?,
        kind: of(type_meta, 2)?,
        namespace: of(meta, 3)?,
        name: of(meta, 1)?,
    };
    (!object.kind.is_empty()).then_some(object)
}

fn text(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    (text.len() <= TEXT_MAX && !text.contains(char::is_control)).then(|| text.to_owned())
}

/// The first field of this number in a message, if it is bytes. What is behind it is not looked at.
fn field(mut message: &[u8], wanted: u64) -> Option<&[u8]> {
    while !message.is_empty() {
        let (tag, rest) = varint(message)?;
        message = match tag & 7 {
            0 => varint(rest)?.1,
            1 => rest.get(8..)?,
            5 => rest.get(4..)?,
            2 => {
                let (length, rest) = varint(rest)?;
                let (content, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                if tag >> 3 == wanted {
                    return Some(content);
                }
                rest
            }
            _ => return None,
        };
    }
    None
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (position, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(7 * u32::try_from(position).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(position + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        [&[number << 3 | 2, length], content].concat()
    }

    fn pod() -> Vec<u8> {
        let type_meta = message(1, &[message(1, b"v1"), message(2, b"Pod")].concat());
        let meta = [
            message(1, b"web-0"),
            message(2, b""),
            message(3, b"shop"),
            vec![0x38, 7],
        ]
        .concat();
        let raw = message(2, &[message(1, &meta), message(2, b"spec")].concat());
        [PROTOBUF, &type_meta, &raw, &message(3, b""), &message(4, b"")].concat()
    }

    #[test]
    fn objects_are_told() {
        let web = Object {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: "shop".to_owned(),
            name: "web-0".to_owned(),
        };
        assert_eq!(object(&pod()), Some(web.clone()));
        let json = br#"{"kind":"Pod","spec":[1],"apiVersion":"v1","metadata":{"uid":"x","name":"web-0","namespace":"shop"}}"#;
        assert_eq!(object(json), Some(web));
        let node = br#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#;
        assert_eq!(object(node).unwrap().namespace, "");
        let secret = object(b"k8s:enc:aescbc:v1:key1:\xff\xff").unwrap();
        assert_eq!(
            (secret.kind.as_str(), secret.name.as_str()),
            ("(encrypted: aescbc)", "")
        );
    }

    #[test]
    fn other_values_are_none_and_cuts_do_no_harm() {
        for other in [
            &b""[..],
            b"1",
            b"{}",
            b"{\"kind\":\"Pod\"}",
            b"k8s",
            b"k8s\0",
            b"k8s:enc:",
        ] {
            let kind = object(other).map(|object| object.kind);
            assert!(kind.is_none_or(|kind| kind == "(encrypted: )"), "{other:?}");
        }
        let whole = pod();
        for length in 0..whole.len() {
            let cut = object(&whole[..length]);
            assert!(cut.is_none_or(|object| object.kind == "Pod"), "{length}");
        }
        for at in 0..whole.len() {
            let mut bent = whole.clone();
            bent[at] ^= 0x80;
            let _ = object(&bent);
        }
    }
}
