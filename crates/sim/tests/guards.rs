//! Goal: every guard of the planner is needed. Method: switch one off and find a world that breaks and that is
//! sound with the guard on. `qsim guards` does the same from the first seed on.

use quorate_core::guard::Guard;
use quorate_sim::guards::find;

/// A seed that broke when it was last tried. When the model or the planner changes it may not any more; then the search
/// goes on from there, and only takes longer.
fn near(guard: Guard) -> u64 {
    match guard {
        Guard::FreshVolume => 14,
        Guard::NewIdForWiped => 8,
        Guard::PresentVolume => 255,
        Guard::QuorumAfterRemoval => 124,
        Guard::QuorumWhileDisturbed => 3,
        Guard::OneDisturbed => 96,
        Guard::FreshView => 5_532,
        Guard::VersionStep => 6,
        Guard::ServedSettings => 73,
        Guard::LeavingVolume => 49,
        Guard::NeededStorage => 3,
        Guard::OwnVolume => 1_454,
    }
}

#[test]
fn without_any_one_guard_some_world_breaks() {
    for guard in Guard::ALL {
        let found = find(guard, near(guard), 3000);
        let Some((_, broke)) = found.broke else {
            panic!("{guard:?} is not shown to be needed in {} seeds", found.tried);
        };
        eprintln!("{guard:?}: {broke} ({} tried)", found.tried);
    }
}
