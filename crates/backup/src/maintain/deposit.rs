//! A snapshot file on its way into an archive, frame by frame.
//!
//! In: a file. Out: an object in the store; it counts once a record names it. Some frames are packed while others are
//! uploaded. Memory: a few frames.
//! Never: an object left half written on purpose: what fails is taken back.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use quorate_datadir::Progress;

use crate::format::object::{Assembler, Facts, Frame, Kind, pack};
use crate::{Archive, Error, Upload};

/// A frame of a full copy, unpacked.
pub(crate) const FRAME_BYTES: u64 = 1 << 20;
/// Frames that are packed at once, or wait until those before them are written.
const PACKED_AT_ONCE: usize = 4;

/// Uploads the file `path` as the object `name`.
pub(crate) async fn deposit(
    archive: &Archive,
    name: &str,
    path: &Path,
    progress: &Arc<Progress>,
) -> Result<Facts, Error> {
    let failed = |source| Error::File {
        doing: "read",
        path: path.to_owned(),
        source,
    };
    let file = Arc::new(File::open(path).map_err(failed)?);
    let length = file.metadata().map_err(failed)?.len();
    progress.expect(length);
    let mut upload = archive.store().upload(name).await?;
    let sent = send(archive, name, &file, length, &mut upload, progress).await;
    let facts = match sent {
        Ok(facts) => facts,
        Err(error) => {
            // The reason is what counts; what is left without a record counts for nothing.
            let _ = upload.abort().await;
            return Err(match error {
                Error::File { doing, source, .. } => Error::File {
                    doing,
                    path: path.to_owned(),
                    source,
                },
                other => other,
            });
        }
    };
    upload.finish().await?;
    Ok(facts)
}

async fn send(
    archive: &Archive,
    name: &str,
    file: &Arc<File>,
    length: u64,
    upload: &mut Upload,
    progress: &Arc<Progress>,
) -> Result<Facts, Error> {
    let (mut assembler, head) = Assembler::new(name, Kind::Full, archive.key())?;
    upload.write(head).await?;
    let frames = length.div_ceil(FRAME_BYTES);
    let mut under_way = VecDeque::new();
    for number in 0..frames {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let (file, packer) = (Arc::clone(file), assembler.packer());
        let offset = u64::from(number) * FRAME_BYTES;
        let bytes = usize::try_from((length - offset).min(FRAME_BYTES)).unwrap_or(0);
        under_way.push_back(tokio::task::spawn_blocking(move || -> Result<Frame, Error> {
            let mut plain = vec![0; bytes];
            file.read_exact_at(&mut plain, offset)
                .map_err(|source| Error::File {
                    doing: "read",
                    path: std::path::PathBuf::new(),
                    source,
                })?;
            pack(&packer, number, offset, &plain)
                .ok_or_else(|| Error::refused("a frame is longer than it may be", "this cannot be stored"))
        }));
        if under_way.len() >= PACKED_AT_ONCE {
            add(&mut assembler, &mut under_way, upload, progress).await?;
        }
    }
    while !under_way.is_empty() {
        add(&mut assembler, &mut under_way, upload, progress).await?;
    }
    let (last, facts) = assembler.finish();
    upload.write(last).await?;
    Ok(facts)
}

async fn add(
    assembler: &mut Assembler,
    under_way: &mut VecDeque<tokio::task::JoinHandle<Result<Frame, Error>>>,
    upload: &mut Upload,
    progress: &Progress,
) -> Result<(), Error> {
    let Some(frame) = under_way.pop_front() else {
        return Ok(());
    };
    let frame = frame.await.map_err(|_| Error::Cancelled)??;
    upload.write(assembler.add(frame)?).await?;
    progress.add(FRAME_BYTES).map_err(crate::restore::fetch::told)
}
