//! The memory as it is kept in `status.memory`: gzip in base64, one line that does not fill a page of `kubectl describe`.
//!
//! In: a memory, or a text. Out: the other. To read it: `kubectl get etcdcluster NAME -o jsonpath='{.status.memory}' |
//! base64 -d | gunzip`. It stays in the status: what is planned is stored under the resourceVersion that it was read with.
//! Never: a text that is there and cannot be read, taken for none; more unpacked than a memory can be.

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use quorate_core::Memory;

/// No memory is longer: an API server stores one and a half million bytes.
const UNPACKED_MAX: u64 = 4 << 20;

/// The text that was last read or made, with its memory: most passes change nothing, and packing is a good part of one.
#[derive(Debug, Default)]
pub struct MemoryText {
    last: Option<(String, Memory)>,
}

impl MemoryText {
    pub fn pack(&mut self, memory: &Memory) -> Option<String> {
        if let Some((text, last)) = &self.last
            && last == memory
        {
            return Some(text.clone());
        }
        let text = pack(memory)?;
        self.last = Some((text.clone(), memory.clone()));
        Some(text)
    }

    pub fn unpack(&mut self, text: &str) -> Result<Memory, String> {
        if let Some((last, memory)) = &self.last
            && last == text
        {
            return Ok(memory.clone());
        }
        let memory = unpack(text)?;
        // What is plain JSON is packed when it is next written.
        self.last = (!is_plain(text)).then(|| (text.to_owned(), memory.clone()));
        Ok(memory)
    }
}

fn is_plain(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// The text of a memory; the same for the same memory.
pub fn pack(memory: &Memory) -> Option<String> {
    let plain = serde_json::to_vec(memory).ok()?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&plain).ok()?;
    Some(STANDARD.encode(packed.finish().ok()?))
}

/// The memory in a text, also one of the time when it was plain JSON. An error is for people.
pub fn unpack(text: &str) -> Result<Memory, String> {
    let plain = match is_plain(text) {
        true => text.as_bytes().to_vec(),
        false => unpacked(text)?,
    };
    serde_json::from_slice(&plain).map_err(|error| error.to_string())
}

fn unpacked(text: &str) -> Result<Vec<u8>, String> {
    let packed = STANDARD.decode(text.trim());
    let packed = packed.map_err(|error| format!("it is neither JSON nor base64 ({error})"))?;
    let mut plain = Vec::new();
    let mut reader = GzDecoder::new(packed.as_slice()).take(UNPACKED_MAX + 1);
    let read = reader.read_to_end(&mut plain);
    read.map_err(|error| format!("it is no gzip ({error})"))?;
    match plain.len() as u64 > UNPACKED_MAX {
        true => Err(format!("it is longer than {UNPACKED_MAX} bytes")),
        false => Ok(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::memory::Slot;
    use quorate_core::model::Ordinal;

    fn memory() -> Memory {
        let slots = (0..5).map(|ordinal| (Ordinal(ordinal), Slot::default()));
        Memory {
            manifest: Some(r#"{"replicas":5,"version":"3.6.1"}"#.to_owned()),
            slots: slots.collect(),
            ..Memory::default()
        }
    }

    #[test]
    fn a_memory_is_one_short_line_and_comes_back_whole() {
        let text = pack(&memory()).unwrap();
        assert_eq!(unpack(&text), Ok(memory()));
        assert_eq!(pack(&memory()), Some(text.clone()), "the same for the same");
        let plain = serde_json::to_string(&memory()).unwrap();
        assert!(text.len() * 3 < plain.len(), "{} of {}", text.len(), plain.len());
        assert!(text.bytes().all(|b| b.is_ascii_graphic()) && !text.contains('{'));
    }

    #[test]
    fn a_memory_in_plain_json_is_still_read() {
        let plain = serde_json::to_string(&memory()).unwrap();
        assert_eq!(unpack(&plain), Ok(memory()));
        let mut texts = MemoryText::default();
        assert_eq!(texts.unpack(&plain), Ok(memory()));
        assert_eq!(
            texts.pack(&memory()),
            pack(&memory()),
            "it is packed when it is written"
        );
    }

    #[test]
    fn what_is_kept_is_the_text_of_that_very_memory() {
        let other = Memory {
            manifest: None,
            ..memory()
        };
        let (text, others) = (pack(&memory()).unwrap(), pack(&other).unwrap());
        let mut texts = MemoryText::default();
        for _ in 0..2 {
            assert_eq!(texts.unpack(&text), Ok(memory()));
            assert_eq!(texts.pack(&memory()), Some(text.clone()));
            assert_eq!(texts.pack(&other), Some(others.clone()));
            assert_eq!(texts.unpack(&others), Ok(other.clone()));
            assert!(texts.unpack("H4").is_err());
        }
    }

    #[test]
    fn what_is_not_a_whole_memory_of_a_known_format_is_refused() {
        let zip = |bytes: &[u8]| {
            let mut packed = GzEncoder::new(Vec::new(), Compression::best());
            packed.write_all(bytes).unwrap();
            STANDARD.encode(packed.finish().unwrap())
        };
        let tomorrow = serde_json::to_string(&memory()).unwrap();
        let tomorrow = tomorrow.replacen("\"format\":1", "\"format\":2", 1);
        assert!(unpack(&tomorrow).unwrap_err().contains("format 2"));
        assert!(
            unpack(&zip(tomorrow.as_bytes()))
                .unwrap_err()
                .contains("format 2")
        );
        let text = pack(&memory()).unwrap();
        for cut in 0..text.len() {
            assert!(unpack(&text[..cut]).is_err(), "{cut}");
        }
        let bomb = zip(&vec![b' '; (UNPACKED_MAX + 1) as usize]);
        assert!(unpack(&bomb).unwrap_err().contains("longer"));
    }
}
