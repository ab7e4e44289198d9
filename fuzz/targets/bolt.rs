//! A database or a snapshot of any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    quorate_fuzz::bolt(bytes);
});
