//! What the user asked to change, one member after the other: version and settings, CPU and memory, storage.

mod resize;
mod rolling;
mod setup;
mod storage;
