//! Whether a store lets only the first of two writers create a name.
//!
//! In: a store. Out: [`CreateOnly`]. An archive in a store that ignores it has room for one writer only, and nothing but
//! its users keeps a second one away.

use bytes::Bytes;

use super::{Created, Store};
use crate::{Error, Trouble};

/// Whether the second creation of one name fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateOnly {
    /// It does: two writers cannot take each other's place.
    Kept,
    /// It does not: the second overwrites the first.
    Ignored,
}

pub(super) async fn probe(store: &Store) -> Result<CreateOnly, Error> {
    let unique = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
    let name = format!("probe/{unique}");
    let text = |n: u32| {
        Bytes::from(format!(
            "{n} {unique}: written to see what this store does; may be deleted\n"
        ))
    };
    store.create(&name, text(1)).await?;
    let second = store.create(&name, text(2)).await;
    let read = store.get(&name, 4096).await;
    // What is left of a probe disturbs nobody, and a store may forbid deleting.
    let _ = store.delete(&name).await;
    let (second, read) = (second?, read?);
    if store.has_plain_puts() {
        return Ok(CreateOnly::Ignored);
    }
    match second {
        Created::Exists if read == text(1) => Ok(CreateOnly::Kept),
        Created::New if read == text(2) => Ok(CreateOnly::Ignored),
        _ => Err(Error::Store {
            doing: "probe",
            object: name,
            store: store.describe().to_owned(),
            trouble: Trouble::Other,
            why: "what is read is not what was written last".into(),
        }),
    }
}
