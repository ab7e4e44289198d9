//! Which tests belong to a tier, by the names of their programs, and in which order they start.
//!
//! Everything outside the package `quorate-tests` is the tier `test`. In it, `kube_*` and `nightly_kube_*` run on
//! Kubernetes, `nightly_*` at night, all others are `e2e-host`.

use std::process::Command;

use super::Test;
use super::arguments::{Options, Tier};
use super::build::Program;
use crate::Result;

const END_TO_END: &str = "quorate-tests";

fn tier_of(program: &Program) -> Tier {
    if program.package != END_TO_END || program.unit {
        return Tier::Test;
    }
    let (nightly, name) = match program.target.strip_prefix("nightly_") {
        Some(name) => (true, name),
        None => (false, program.target.as_str()),
    };
    match (nightly, name.starts_with("kube_")) {
        (false, false) => Tier::E2eHost,
        (false, true) => Tier::E2eKube,
        (true, false) => Tier::NightlyHost,
        (true, true) => Tier::NightlyKube,
    }
}

pub fn pick(programs: &[Program], options: &Options) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    for program in programs.iter().filter(|program| tier_of(program) == options.tier) {
        tests.extend(tests_of(program)?);
    }
    let wanted = |test: &Test| {
        let title = test.title();
        options.words.is_empty() || options.words.iter().any(|word| title.contains(word.as_str()))
    };
    tests.retain(wanted);
    if tests.is_empty() {
        return Err(format!(
            "no test of this tier is called {:?}",
            options.words.join(" or ")
        ));
    }
    // The long ones first, so that none of them is left running alone at the end: integration tests are longer.
    tests.sort_by_key(|test| (test.program.unit, test.clone()));
    Ok(tests)
}

fn tests_of(program: &Program) -> Result<Vec<Test>> {
    let output = Command::new(&program.executable)
        .args(["--list", "--format", "terse"])
        .current_dir(&program.directory)
        .output()
        .map_err(|e| format!("list the tests of {}: {e}", program.title()))?;
    if !output.status.success() {
        return Err(format!(
            "list the tests of {}: {}",
            program.title(),
            output.status
        ));
    }
    let listing = String::from_utf8_lossy(&output.stdout);
    let names = listing.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names
        .map(|name| Test {
            program: program.clone(),
            name: name.to_owned(),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_name_says_its_tier() {
        let tier = |package: &str, target: &str, unit| {
            tier_of(&Program {
                package: package.into(),
                target: target.into(),
                unit,
                executable: "/x".into(),
                directory: "/".into(),
            })
        };
        assert_eq!(tier("quorate-core", "quorate_core", true), Tier::Test);
        assert_eq!(tier("quorate-sim", "kube", false), Tier::Test);
        assert_eq!(tier(END_TO_END, "quorate_tests", true), Tier::Test);
        assert_eq!(tier(END_TO_END, "resize", false), Tier::E2eHost);
        assert_eq!(tier(END_TO_END, "kube_resize", false), Tier::E2eKube);
        assert_eq!(tier(END_TO_END, "nightly_upgrade", false), Tier::NightlyHost);
        assert_eq!(tier(END_TO_END, "nightly_kube_guide", false), Tier::NightlyKube);
    }
}
