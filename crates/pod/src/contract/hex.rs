//! Ids as etcd prints them: hexadecimal text, here always sixteen digits. JSON numbers lose the low bits of such ids
//! in many readers.

use quorate_core::model::{ClusterId, MemberId};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// An id of 64 bits.
pub(crate) trait Id: Copy {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

impl Id for MemberId {
    fn of(bits: u64) -> Self {
        MemberId(bits)
    }
    fn bits(self) -> u64 {
        self.0
    }
}

impl Id for ClusterId {
    fn of(bits: u64) -> Self {
        ClusterId(bits)
    }
    fn bits(self) -> u64 {
        self.0
    }
}

fn parse<T: Id>(text: &str) -> Result<T, String> {
    let plain = (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bits = u64::from_str_radix(text, 16).ok().filter(|_| plain);
    bits.map(T::of)
        .ok_or_else(|| format!("{text:?} is not an id of up to sixteen hexadecimal digits"))
}

pub(crate) fn serialize<T: Id, S: Serializer>(id: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:016x}", id.bits()))
}

pub(crate) fn deserialize<'de, T: Id, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// The same where there may be none.
pub(crate) mod option {
    use super::*;

    pub(crate) fn serialize<T: Id, S: Serializer>(id: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match id {
            Some(id) => super::serialize(id, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T: Id, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| parse(&text).map_err(D::Error::custom))
            .transpose()
    }
}
