//! Which tests belong to a tier, by the names of their programs, and in which order they start.
//!
//! Everything outside the package `quorate-tests` is the tier `test`. In it, `kube_*` and `nightly_kube_*` run on
//! Kubernetes, the latter at night, and all others are `e2e-host`.

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
    match program.target.as_str() {
        name if name.starts_with("nightly_kube_") => Tier::NightlyKube,
        name if name.starts_with("kube_") => Tier::E2eKube,
        _ => Tier::E2eHost,
    }
}

pub fn pick(programs: &[Program], options: &Options) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    for program in programs.iter().filter(|program| tier_of(program) == options.tier) {
        tests.extend(tests_of(program)?);
    }
    tests = named(tests, &options.words)?;
    // The long ones first, so that none of them is left running alone at the end: integration tests are longer.
    tests.sort_by_key(|test| (test.program.unit, test.clone()));
    Ok(tests)
}

/// Those whose title has one of the words, if there are any. A word that no title has is a test that was renamed.
fn named(mut tests: Vec<Test>, words: &[String]) -> Result<Vec<Test>> {
    let titles: Vec<String> = tests.iter().map(Test::title).collect();
    let unknown = |word: &&String| !titles.iter().any(|title| title.contains(word.as_str()));
    if let Some(word) = words.iter().find(unknown) {
        return Err(format!("no test of this tier is called {word:?}"));
    }
    tests.retain(|test| {
        let title = test.title();
        words.is_empty() || words.iter().any(|word| title.contains(word.as_str()))
    });
    if tests.is_empty() {
        return Err("this tier has no test".to_owned());
    }
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
    fn a_word_that_no_title_has_is_refused() {
        let test = |name: &str| Test {
            program: Program {
                package: "quorate-core".into(),
                target: "quorate_core".into(),
                unit: true,
                executable: "/x".into(),
                directory: "/".into(),
            },
            name: name.into(),
        };
        let all = || vec![test("plan::a"), test("check::b")];
        let names = |words: &[&str]| -> Result<Vec<String>> {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Ok(named(all(), &words)?.into_iter().map(|test| test.name).collect())
        };
        assert_eq!(names(&[]).unwrap().len(), 2);
        assert_eq!(names(&["plan"]).unwrap(), ["plan::a"]);
        assert!(names(&["plan", "renamed"]).unwrap_err().contains("renamed"));
    }

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
        assert_eq!(tier(END_TO_END, "nightly_kube_guide", false), Tier::NightlyKube);
    }
}
