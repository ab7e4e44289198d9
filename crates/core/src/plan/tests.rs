//! What the planner decides, case by case, on small hand-made worlds. Every plan made here also passes the check.

mod changing;
mod clocks;
pub(crate) mod fixture;
mod forming;
mod growing;
mod identity;
mod joining;
mod removing;
mod repairing;
mod resizing;
mod rolling;
mod starting;
mod storage;
