//! Who is a member: repaired, added, promoted, removed, retired; one change at a time.

mod learner;
mod membership;
mod repair;
mod retire;
mod scale;
