//! Goal: every guard of the planner is needed. Method: switch one off and find a world that breaks and that is
//! sound with the guard on. `qsim guards` does the same from the first seed on.

use quorate_core::guard::Guard;
use quorate_sim::checkers::BreakKind;
use quorate_sim::guards::{find, keeps_writes_going};

#[test]
fn without_any_one_guard_some_world_breaks() {
    for guard in Guard::ALL {
        // Few worlds need a fresh view; the gate begins near one of them.
        let from = if guard == Guard::FreshView { 5_500 } else { 1 };
        let found = find(guard, from, 3000);
        let Some((seed, broke)) = found.broke else {
            panic!("{guard:?} is not shown to be needed in {} seeds", found.tried);
        };
        let outage = keeps_writes_going(guard) && broke.kind == BreakKind::PlannedOutage;
        assert!(broke.kind.of_the_world() || outage, "{guard:?}: seed {seed}");
        eprintln!("{guard:?}: {:?} at seed {seed}: {}", broke.kind, broke.detail);
    }
}
