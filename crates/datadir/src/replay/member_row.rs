//! A member as JSON: in a row of the `members` bucket, and in the entry that adds or changes it.
//!
//! In: bytes that etcd wrote. Out: the member, and the bytes that etcd would write for it. Never: a guess how Go writes
//! an unusual character.

use serde::Deserialize;

/// A member of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Member {
    pub(crate) id: u64,
    #[serde(default, rename = "peerURLs")]
    pub(crate) peer_urls: Option<Vec<String>>,
    #[serde(default, rename = "isLearner")]
    pub(crate) is_learner: bool,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default, rename = "clientURLs")]
    pub(crate) client_urls: Option<Vec<String>>,
    /// Only in an entry: an existing learner becomes a voter.
    #[serde(default, rename = "isPromote")]
    pub(crate) is_promote: bool,
}

impl Member {
    pub(crate) fn parse(json: &[u8]) -> Option<Member> {
        serde_json::from_slice(json).ok()
    }

    /// The key of its row.
    pub(crate) fn key(id: u64) -> Vec<u8> {
        format!("{id:x}").into_bytes()
    }

    /// The value of its row.
    pub(crate) fn row(&self) -> Option<Vec<u8>> {
        let mut json = format!("{{\"id\":{},\"peerURLs\":", self.id);
        match &self.peer_urls {
            Some(urls) => list(&mut json, urls)?,
            None => json.push_str("null"),
        }
        if self.is_learner {
            json.push_str(",\"isLearner\":true");
        }
        if !self.name.is_empty() {
            json.push_str(",\"name\":");
            string(&mut json, &self.name)?;
        }
        if let Some(urls) = self.client_urls.as_ref().filter(|urls| !urls.is_empty()) {
            json.push_str(",\"clientURLs\":");
            list(&mut json, urls)?;
        }
        json.push('}');
        Some(json.into_bytes())
    }
}

fn list(json: &mut String, items: &[String]) -> Option<()> {
    json.push('[');
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            json.push(',');
        }
        string(json, item)?;
    }
    json.push(']');
    Some(())
}

/// Writes a string as Go does, which escapes what HTML would take for markup.
fn string(json: &mut String, text: &str) -> Option<()> {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '<' => json.push_str("\\u003c"),
            '>' => json.push_str("\\u003e"),
            '&' => json.push_str("\\u0026"),
            // How these are written changed between versions of Go, or may.
            character if character.is_control() => return None,
            '\u{2028}' | '\u{2029}' | '\u{fffd}' => return None,
            character => json.push(character),
        }
    }
    json.push('"');
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_written_alike() {
        for row in [
            r#"{"id":12428976124636271536,"peerURLs":["http://127.0.0.1:23801"],"name":"m1","clientURLs":["http://127.0.0.1:23800","unix://x:1"]}"#,
            r#"{"id":5,"peerURLs":["http://a:1","http://b:2"],"isLearner":true}"#,
            r#"{"id":5,"peerURLs":null,"name":"a\u003cb\u003e\u0026\"\\é"}"#,
            r#"{"id":5,"peerURLs":[]}"#,
        ] {
            let member = Member::parse(row.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(member.row().unwrap()).unwrap(), row);
        }
        assert_eq!(Member::key(0xab), b"ab");
    }

    #[test]
    fn what_is_not_plain_is_not_written() {
        assert!(Member::parse(br#"{"id":5,"more":1}"#).is_none());
        assert!(Member::parse(b"{").is_none());
        for name in [r"a\nb", r"\u0001", r"\u2028"] {
            let member = Member::parse(format!(r#"{{"id":5,"name":"{name}"}}"#).as_bytes()).unwrap();
            assert_eq!(member.row(), None, "{name}");
        }
    }
}
