//! A first start, watched: the launcher stays, so that somebody knows how it ended.
//!
//! In: etcd's command line, and the volume's lock. Out: its end, and where it ended before it had a log, a note of that
//! on the volume: nothing was promised, so the first start may be made once more, with other options perhaps. From the
//! second start on the launcher becomes etcd, and nobody needs to stay.
//!
//! Never: the note where a log was there at any time, or where the end was not seen.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::Error;
use crate::handover::Launch;
use crate::volume::hold::Hold;
use crate::volume::layout::Layout;
use crate::volume::record::{Known, Record};

/// How often a log is looked for.
const EVERY: Duration = Duration::from_millis(20);

/// etcd at its first start.
#[derive(Debug)]
pub struct Watched {
    child: Child,
    launch: Launch,
    /// Held until the end is on record; etcd has it too.
    _hold: Hold,
}

/// Passes signals on to etcd.
#[derive(Debug)]
pub struct Handle(OwnedFd);

impl Watched {
    /// Starts etcd, which inherits the lock.
    pub(crate) fn start(mut command: Command, launch: Launch, hold: Hold) -> Result<Watched, Error> {
        let program = command.get_program().into();
        let failed = |source: std::io::Error| Error::Exec { program, source };
        match hold.hand_on().and_then(|()| command.spawn()) {
            Ok(child) => Ok(Watched {
                child,
                launch,
                _hold: hold,
            }),
            Err(source) => {
                // Nothing was executed, and that is known.
                came_to_nothing(&launch);
                Err(failed(source))
            }
        }
    }

    /// What signals are passed on with. To be taken before the end is waited for.
    pub fn handle(&self) -> std::io::Result<Handle> {
        let pid = Pid::from_child(&self.child);
        Ok(Handle(rustix::process::pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Waits for its end, and notes it if it came to nothing.
    pub fn until_its_end(mut self) -> std::io::Result<ExitStatus> {
        let data_dir = self.launch.data_dir.clone();
        loop {
            if has_log(&data_dir) {
                return self.child.wait();
            }
            if let Some(status) = self.child.try_wait()? {
                if !has_log(&data_dir) {
                    came_to_nothing(&self.launch);
                }
                return Ok(status);
            }
            std::thread::sleep(EVERY);
        }
    }
}

impl Handle {
    /// Asks etcd to end.
    pub fn terminate(&self) {
        self.pass_on(Signal::TERM);
    }

    /// The same, as a terminal asks.
    pub fn interrupt(&self) {
        self.pass_on(Signal::INT);
    }

    fn pass_on(&self, signal: Signal) {
        // It fails only if etcd has ended, which is what was wanted.
        let _ = rustix::process::pidfd_send_signal(&self.0, signal);
    }
}

/// The exit code of a process that ends as another did.
pub fn exit_code(status: ExitStatus) -> i32 {
    let by_signal = status.signal().map(|signal| 128 + signal);
    status.code().or(by_signal).unwrap_or(1)
}

/// Anything at the place of the log counts, and so does a place that cannot be looked at.
fn has_log(data_dir: &Path) -> bool {
    data_dir.join("member/wal").try_exists().unwrap_or(true)
}

/// Notes it on the volume; if that cannot be, what is there stays: executed, which proves nothing, and that is safe.
fn came_to_nothing(launch: &Launch) {
    let layout = Layout::new(&launch.volume);
    if let Ok(Known::Record(mut record)) = Record::read(&layout)
        && record.id == launch.volume_id
    {
        record.entry_mut(launch.generation).came_to_nothing = true;
        let _ = record.write(&layout);
    }
}
