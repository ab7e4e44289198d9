//! Goal: every guard of the planner is needed. Method: switch one off and find a world that breaks and that is
//! sound with the guard on. `qsim guards` does the same from the first seed on.

use quorate_core::guard::Guard;
use quorate_sim::guards::find;

#[test]
fn without_any_one_guard_some_world_breaks() {
    for guard in Guard::ALL {
        // Few worlds need a fresh view; the gate begins near one of them.
        let from = if guard == Guard::FreshView { 5_500 } else { 1 };
        let found = find(guard, from, 3000);
        let Some((_, broke)) = found.broke else {
            panic!("{guard:?} is not shown to be needed in {} seeds", found.tried);
        };
        eprintln!("{guard:?}: {broke}");
    }
}
