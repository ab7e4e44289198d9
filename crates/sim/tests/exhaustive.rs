//! Goal: no small cluster, however odd, makes the planner unsafe or restless. Method: one slot
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
    must_be_sound(all(1, &fine(), 1), 3_600);
}

#[test]
fn two_slots_sampled() {
    must_be_sound(all(2, &fine(), 3), 49_000);
}

#[test]
fn three_slots_sampled() {
    must_be_sound(all(3, &fine(), 117), 40_000);
}

#[test]
fn five_slots_coarse_and_sampled() {
    must_be_sound(all(5, &coarse(), 21), 48_000);
}
