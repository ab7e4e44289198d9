//! What this crate decides, without the files it decides on: for whoever has a volume that is no directory, such as the
//! simulator. Each is a function of what is there.
//!
//! ```text
//! look    marks_fired, told     what a volume shows, as a report
//! gate    decide, noted         may this start pass, and what is on record then
//! launch  still_let_through, check   may it still, each time the container starts
//! ```

pub use crate::admit::{Admission, noted};
pub use crate::gate::{Decision, Gate, decide};
pub use crate::handover::Launch;
pub use crate::launch::{Way, check, still_let_through};
pub use crate::look::{marks_fired, told};
pub use crate::volume::aside::{KEPT, MOST};
pub use crate::volume::judge::{Data, Identity};
pub use crate::volume::layout::Layout;
pub use crate::volume::record::{Entry, Record};
