//! One pass over the rows of a store, in the order in which they were written, up to a revision.

use std::ops::ControlFlow;

use crate::{Error, KeyValue, Progress, RowKey, Source};

/// How many bytes go by between two looks at whether to go on.
const STRIDE: u64 = 256 * 1024;

/// Shows `each` every row up to the revision `upto`, until it wants no more.
pub(super) fn sweep(
    source: &Source,
    upto: i64,
    progress: &Progress,
    mut each: impl FnMut(RowKey, &KeyValue<'_>) -> ControlFlow<()>,
) -> Result<(), Error> {
    let size = source.bolt().size();
    progress.expect(size);
    let mut rows = source.history()?;
    let (mut passed, mut told) = (0, 0);
    while let Some(row) = rows.next_row()? {
        passed += (row.key.len() + row.value.len()) as u64;
        if passed - told >= STRIDE {
            progress.add(passed - told)?;
            told = passed;
        }
        let damaged = |why| source.bolt().damaged(row.place, why);
        let key = RowKey::read(row.key).map_err(damaged)?;
        if key.revision.main > upto {
            break;
        }
        let written = KeyValue::read(row.value).map_err(damaged)?;
        // What raised the revision of a restored store is a row without a key.
        if !written.key.is_empty() && each(key, &written).is_break() {
            break;
        }
    }
    progress.add(size.saturating_sub(told))
}
