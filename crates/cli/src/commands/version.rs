use crate::failure::Failure;
use crate::say;

pub fn run() -> Result<(), Failure> {
    let minors = quorate_api::SUPPORTED_MINORS;
    say::line(&format!(
        "quorate {}, runs etcd 3.{} to 3.{}",
        env!("CARGO_PKG_VERSION"),
        minors.start(),
        minors.end()
    ));
    Ok(())
}
