//! Goal: no small cluster, however odd, makes the planner unsafe or restless. Method: one and two slots
//! in full, more in samples; `qsim exhaustive` does all of them.

use quorate_sim::exhaustive::{Report, all, coarse, fine};

fn must_be_sound(report: Report, at_least: u64) {
    assert!(report.cases >= at_least, "only {} cases", report.cases);
    assert!(
        report.wrong.is_empty(),
        "{} wrong, the first:\n{}",
        report.wrong.len(),
        report.wrong[0]
    );
}

#[test]
fn one_slot() {
    must_be_sound(all(1, &fine(), 1), 900);
}

#[test]
fn two_slots() {
    must_be_sound(all(2, &fine(), 1), 37_000);
}

#[test]
fn three_slots_sampled() {
    must_be_sound(all(3, &fine(), 29), 40_000);
}

#[test]
fn five_slots_coarse_and_sampled() {
    must_be_sound(all(5, &coarse(), 5), 50_000);
}
