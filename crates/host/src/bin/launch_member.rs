//! The launcher as a program of its own, for this crate's tests; users have `quorate launch-member`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [verb, flag, spec] = arguments.as_slice() else {
        eprintln!("usage: quorate-launch-member launch-member --spec JSON");
        return ExitCode::from(2);
    };
    assert_eq!((verb.as_str(), flag.as_str()), ("launch-member", "--spec"));
    let error = quorate_host::run::launch::main(spec);
    eprintln!("{error}");
    ExitCode::from(error.exit_code())
}
