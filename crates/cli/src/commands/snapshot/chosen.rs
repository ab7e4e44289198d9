//! Which keys are meant, from words of the command line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use quorate_datadir::view::Selection;

use crate::arguments::snapshot::Which;
use crate::failure::Failure;
use crate::render::bytes::unhex;

/// The keys that `key`, `end` and the flags name; without a key, all.
pub fn chosen(key: Option<&OsStr>, end: Option<&OsStr>, which: &Which) -> Result<Selection, Failure> {
    let bytes = |word: &OsStr| match which.hex {
        false => Ok(word.as_bytes().to_vec()),
        true => word
            .to_str()
            .and_then(unhex)
            .ok_or_else(|| Failure::usage(format!("{word:?} is not pairs of hexadecimal digits"))),
    };
    let Some(key) = key.map(bytes).transpose()? else {
        return Ok(Selection::All);
    };
    match (end, which.prefix, which.from_key) {
        (Some(end), _, _) => Ok(Selection::Range(key, bytes(end)?)),
        (None, true, _) => Ok(Selection::Prefix(key)),
        (None, false, true) => Ok(Selection::From(key)),
        (None, false, false) if key.is_empty() => {
            Err(Failure::usage("the key is empty").and("All keys are `--prefix ''`."))
        }
        (None, false, false) => Ok(Selection::Exact(key)),
    }
}
