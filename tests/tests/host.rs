//! The binary on this machine, end to end. One program, so that everything below it is linked once.
#![cfg(feature = "e2e")]

#[path = "host/backup.rs"]
mod backup;
#[path = "host/backup_damage.rs"]
mod backup_damage;
#[path = "host/backup_guide.rs"]
mod backup_guide;
#[path = "host/certificates.rs"]
mod certificates;
#[path = "host/conformance.rs"]
mod conformance;
#[path = "host/kill_rounds.rs"]
mod kill_rounds;
#[path = "host/lost_data.rs"]
mod lost_data;
#[path = "host/readme.rs"]
mod readme;
#[path = "host/resize.rs"]
mod resize;
#[path = "host/snapshots_guide.rs"]
mod snapshots_guide;
#[path = "host/upgrade.rs"]
mod upgrade;
