//! What `cargo xtask suite` is asked to do.

use crate::Result;

pub const HELP: &str = "usage: cargo xtask suite TIER [options] [WORD...]
  TIER         test, e2e-host, e2e-kube, nightly-kube
  WORD         only tests whose full title contains one of these words
  --jobs N     so many at once (default: twice the number of cores)
  --rounds N   each test N times (default 1)
  --minutes N  a test that takes longer hangs, and is ended (default 15)
  --list       print the tests and run none
  --show       print the output of every test, not only of those that fail
  --log NAME   directory below target/suite for their output (default: the tier's name)";

/// Where a test belongs, by the name of its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    Test,
    E2eHost,
    E2eKube,
    NightlyKube,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    pub tier: Tier,
    pub words: Vec<String>,
    pub jobs: usize,
    pub rounds: u32,
    /// How long one test may take.
    pub minutes: u64,
    pub list: bool,
    pub show: bool,
    pub log_name: String,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    Help,
    Run(Options),
}

pub fn parse(arguments: &[String]) -> Result<Asked> {
    let mut arguments = arguments.iter().map(String::as_str);
    let Some(tier) = arguments.next() else {
        return Err(HELP.to_owned());
    };
    if tier == "--help" {
        return Ok(Asked::Help);
    }
    let mut options = Options {
        tier: tier_named(tier).ok_or_else(|| format!("no tier {tier:?}\n{HELP}"))?,
        words: Vec::new(),
        jobs: 2 * std::thread::available_parallelism().map_or(1, |n| n.get()),
        rounds: 1,
        minutes: 15,
        list: false,
        show: false,
        log_name: tier.to_owned(),
    };
    while let Some(argument) = arguments.next() {
        match argument {
            "--jobs" => options.jobs = number(argument, arguments.next())?,
            "--rounds" => options.rounds = number(argument, arguments.next())?,
            "--minutes" => options.minutes = number(argument, arguments.next())?,
            "--log" => {
                let name = arguments.next().filter(|name| !name.contains('/'));
                options.log_name = name.ok_or("--log wants a name without a slash")?.to_owned();
            }
            "--list" => options.list = true,
            "--show" => options.show = true,
            flag if flag.starts_with('-') => return Err(format!("unknown option {flag}\n{HELP}")),
            word => options.words.push(word.to_owned()),
        }
    }
    Ok(Asked::Run(options))
}

fn tier_named(name: &str) -> Option<Tier> {
    Some(match name {
        "test" => Tier::Test,
        "e2e-host" => Tier::E2eHost,
        "e2e-kube" => Tier::E2eKube,
        "nightly-kube" => Tier::NightlyKube,
        _ => return None,
    })
}

fn number<T: std::str::FromStr + PartialOrd + From<u8>>(flag: &str, value: Option<&str>) -> Result<T> {
    let value = value.ok_or_else(|| format!("{flag} wants a number"))?;
    let number = value.parse::<T>().ok().filter(|n| *n >= T::from(1));
    number.ok_or_else(|| format!("{flag} {value}: not a number of at least 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Asked> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn reads_a_tier_its_options_and_words() {
        let Ok(Asked::Run(options)) =
            parsed("e2e-kube resize --jobs 3 --rounds 20 tls --log load --minutes 9")
        else {
            panic!("a good line is refused");
        };
        assert_eq!(options.tier, Tier::E2eKube);
        assert_eq!(options.words, ["resize", "tls"]);
        assert_eq!((options.jobs, options.rounds, options.minutes), (3, 20, 9));
        assert_eq!(options.log_name, "load");
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for line in [
            "",
            "fast",
            "test --job 2",
            "test --jobs",
            "test --jobs 0",
            "test --rounds x",
            "test --log a/b",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
