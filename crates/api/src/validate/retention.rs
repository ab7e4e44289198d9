//! The rules of `spec.backup.retention`: those of `quorate backup run --keep`, which is given the steps.
//!
//! Never: steps accepted that the backup agent refuses, for it would end again and again; steps refused that it takes. A
//! test of the command line holds the two together.

use super::Findings;
use crate::crd::RetentionStep;
use crate::path::FieldPath;

const UNITS: [(&str, u64); 6] = [
    ("y", 365 * 86_400),
    ("w", 7 * 86_400),
    ("d", 86_400),
    ("h", 3600),
    ("m", 60),
    ("s", 1),
];
const LONGEST: u64 = 1000 * 365 * 86_400;
const STEPS_MAX: usize = 32;

/// Judges the steps. Returns them as `--keep` reads them.
pub(super) fn retention(steps: &[RetentionStep], found: &mut Findings) -> Vec<String> {
    let path = || FieldPath::of("spec.backup.retention");
    if steps.len() > STEPS_MAX {
        found.fault(
            path(),
            format!("{} steps", steps.len()),
            &format!("at most {STEPS_MAX} steps"),
            "Two or three are usual: every revision of a week, then a full backup a day for a month.",
        );
    }
    let mut window = None;
    let mut keep = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let texts = [Some(&step.for_), step.every.as_ref()];
        for text in texts.into_iter().flatten().filter(|text| length(text).is_none()) {
            found.fault(
                path().index(number),
                format!("{text:?}"),
                "a length of time of at most 1000y",
                "Write a number and s, m, h, d, w or y, for example 7d.",
            );
        }
        match &step.every {
            None => {
                if let Some(first) = window.replace(number) {
                    found.fault(
                        path().index(number),
                        format!("{:?} without every, after that of step {first}", step.for_),
                        "one step without every",
                        "It keeps every revision: leave the longest of them, and say every of the others, for example 1d.",
                    );
                }
                keep.push(step.for_.clone());
            }
            Some(every) => {
                if length(every)
                    .zip(length(&step.for_))
                    .is_some_and(|(every, all)| every > all)
                {
                    found.fault(
                        path().index(number),
                        format!("every {every:?} for {:?}", step.for_),
                        "every no longer than for",
                        "Swap the two, or keep one full backup in a shorter time.",
                    );
                }
                keep.push(format!("{}:{every}", step.for_));
            }
        }
    }
    keep
}

/// A number and its unit, in seconds.
fn length(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let length = number.parse::<u64>().ok()?.checked_mul(*seconds)?;
    (1..=LONGEST).contains(&length).then_some(length)
}
