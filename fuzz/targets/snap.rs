//! A raft snapshot file of any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    quorate_fuzz::snap(bytes);
});
