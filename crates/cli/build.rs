//! Has the linker pack what is relocated when the program starts: a megabyte and a half of the release binary.
//!
//! In: what is built, and the machine's C library. Out: an option for the linker. Never: a program that the machine which built
//! it cannot load, for only a C library from 2.36 on can unpack that (docs/decisions/0013).

use std::env;
use std::process::Command;

const UNPACKS_SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let here = env::var("HOST") == env::var("TARGET");
    let released = is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") && here;
    if released && is("CARGO_CFG_TARGET_ENV", "gnu") && libc().is_some_and(|libc| libc >= UNPACKS_SINCE) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of glibc on this machine.
fn libc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
