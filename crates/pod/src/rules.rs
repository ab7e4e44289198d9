//! What this crate decides, without the files it decides on: for one whose volume is no directory, such as the
//! simulator. Each is a function of what is there.
//!
//! ```text
//! look    marks_fired, to_report    what a volume shows, as a report
//! gate    decide, record_after      may this start pass, and what is on record then
//! launch  still_admitted, check     may it still, each time the container starts
//! ```

pub use crate::admit::{Admission, record_after};
pub use crate::gate::{Decision, Gate, decide};
pub use crate::handover::Launch;
pub use crate::launch::{LaunchMode, check, still_admitted};
pub use crate::look::{marks_fired, to_report};
pub use crate::volume::aside::{KEPT, MOST};
pub use crate::volume::judge::{Data, Identity};
pub use crate::volume::layout::Layout;
pub use crate::volume::record::{Entry, Record};
