//! Every crate that any build is made of has a licence that `deny.toml` allows.

use std::collections::BTreeSet;
use std::process::Command;

use super::deny_lists::{lines, quoted, text};
use super::sources::Source;

pub fn check(files: &[Source]) -> Vec<String> {
    let allowed = text(files);
    let allowed: Vec<&str> = lines(&allowed, "licenses", "allow")
        .into_iter()
        .filter_map(|line| quoted(line, ""))
        .collect();
    match listing() {
        Ok(listing) => breaches(&listing, &allowed),
        Err(why) => vec![format!("the licences are not known: {why}")],
    }
}

/// Each crate on a line of its own: its licence, a tab, its name and version.
fn listing() -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "tree",
            "--workspace",
            "--all-features",
            "--target",
            "all",
            "--prefix",
            "none",
        ])
        .args(["--edges", "normal,build,dev", "--format", "{l}\t{p}"])
        .output()
        .map_err(|error| format!("cargo tree: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

fn breaches(listing: &str, allowed: &[&str]) -> Vec<String> {
    let crates: BTreeSet<(&str, &str)> = listing.lines().filter_map(|line| line.split_once('\t')).collect();
    if crates.is_empty() {
        return vec!["cargo tree lists no crate".to_owned()];
    }
    crates
        .into_iter()
        .filter(|(licence, _)| !satisfied(licence, allowed))
        .map(|(licence, package)| match licence {
            "" => format!("{package} names no licence"),
            licence => format!("{package} has the licence {licence}, which deny.toml does not allow"),
        })
        .collect()
}

/// Whether an SPDX expression can be met with the allowed licences. `/` is an old way to write OR.
fn satisfied(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    either(&mut rest, allowed) && rest.is_empty()
}

fn either(words: &mut &[&str], allowed: &[&str]) -> bool {
    let mut met = both(words, allowed);
    while let [first, rest @ ..] = *words
        && *first == "OR"
    {
        *words = rest;
        met |= both(words, allowed);
    }
    met
}

fn both(words: &mut &[&str], allowed: &[&str]) -> bool {
    let mut met = one(words, allowed);
    while let [first, rest @ ..] = *words
        && *first == "AND"
    {
        *words = rest;
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut &[&str], allowed: &[&str]) -> bool {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let met = either(words, allowed);
            let closed = words.first() == Some(&")");
            *words = words.get(1..).unwrap_or_default();
            met && closed
        }
        [licence, "WITH", exception, rest @ ..] => {
            *words = rest;
            allowed.contains(&format!("{licence} WITH {exception}").as_str())
        }
        [licence, rest @ ..] => {
            *words = rest;
            allowed.contains(licence)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges_expressions() {
        let allowed = ["MIT", "ISC", "Apache-2.0"];
        for (expression, met) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("Unlicense/MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("(GPL-3.0 OR MIT) AND ISC", true),
            ("MIT OR GPL-3.0 AND BSD-3-Clause", true),
            ("(MIT OR ISC) AND GPL-3.0", false),
            ("Apache-2.0 WITH LLVM-exception", false),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0", true),
            ("(MIT", false),
            ("MIT ISC", false),
            ("", false),
        ] {
            assert_eq!(satisfied(expression, &allowed), met, "{expression:?}");
        }
    }

    #[test]
    fn names_each_crate_once() {
        let found = breaches("GPL-3.0\ta v1\nGPL-3.0\ta v1\nMIT\tb v1\n\tc v2\n", &["MIT"]);
        assert_eq!(
            found,
            [
                "c v2 names no licence",
                "a v1 has the licence GPL-3.0, which deny.toml does not allow"
            ]
        );
        assert_eq!(breaches("", &["MIT"]).len(), 1);
    }
}
