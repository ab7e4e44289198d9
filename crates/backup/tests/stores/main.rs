//! Stores, as real servers implement them: one table of what every store does, and what each does alone.

mod conformance;
mod file;
