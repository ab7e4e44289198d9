//! A file copied, its hash checked on the way.
//!
//! In: a file and how much of it. Out: the same bytes in another file. Where the filesystem can share blocks, nothing is
//! copied; else the kernel copies, piece by piece, without the bytes passing through here.
//! Never: a copy that is said to be whole and is shorter.

use std::fs::File;
use std::io;
use std::path::Path;

use super::push::Push;
use crate::Error;
use crate::progress::Progress;

/// Copied at once; then it is asked whether it is still wanted.
const PIECE: u64 = 8 << 20;

/// Copies the first `length` bytes of `from` into `to`, which is empty.
pub(crate) fn copy(
    from: (&File, &Path),
    to: (&File, &Path),
    length: u64,
    progress: &Progress,
) -> Result<(), Error> {
    if rustix::fs::ioctl_ficlone(to.0, from.0).is_ok() {
        to.0.set_len(length).map_err(Error::write(to.1))?;
        return progress.add(length);
    }
    let mut done = 0;
    let mut push = Push::from(0);
    while done < length {
        let (mut at_from, mut at_to) = (done, done);
        let want = usize::try_from((length - done).min(PIECE)).unwrap_or(usize::MAX);
        let copied = rustix::fs::copy_file_range(from.0, Some(&mut at_from), to.0, Some(&mut at_to), want);
        let copied = match copied {
            Ok(0) => {
                let short = io::Error::from(io::ErrorKind::UnexpectedEof);
                return Err(Error::read(from.1)(short));
            }
            Ok(copied) => copied as u64,
            Err(rustix::io::Errno::INTR) => continue,
            // Not between these two filesystems, or not on this one.
            Err(
                rustix::io::Errno::XDEV
                | rustix::io::Errno::NOSYS
                | rustix::io::Errno::INVAL
                | rustix::io::Errno::OPNOTSUPP,
            ) => by_hand(from, to, done, want)?,
            Err(errno) => return Err(Error::write(to.1)(errno.into())),
        };
        done += copied;
        progress.add(copied)?;
        push.written(to.0, done);
    }
    push.end().map_err(Error::write(to.1))
}

fn by_hand(from: (&File, &Path), to: (&File, &Path), offset: u64, want: usize) -> Result<u64, Error> {
    use std::os::unix::fs::FileExt;
    let mut buffer = vec![0; want.min(1 << 20)];
    from.0
        .read_exact_at(&mut buffer, offset)
        .map_err(Error::read(from.1))?;
    to.0.write_all_at(&buffer, offset).map_err(Error::write(to.1))?;
    Ok(buffer.len() as u64)
}
