# The long runs, sourced by scripts/soak and scripts/evidence: name | paths | command.
# Paths: the code that a run shows something about. A run is stale once a file below them has changed since. Cargo.lock is
# not among them: it changes with tools that no run uses.
# Command: run from the repository's root.
# shellcheck shell=bash

HOST_CODE='crates/api/src crates/backup/src crates/cli/src crates/client/src crates/core/src crates/datadir/src crates/host/src crates/pki/src crates/wire/src'
# One endpoint is asked, never all members at once.
BACKUP_CODE='crates/backup/src crates/cli/src/arguments/backup crates/cli/src/arguments/backup.rs crates/cli/src/commands/backup crates/cli/src/commands/backup.rs crates/client/src :!crates/client/src/members :!crates/client/src/members.rs crates/datadir/src crates/wire/src'
DATA_CODE='crates/datadir/src crates/wire/src'
KUBE_CODE='crates/api/src crates/client/src crates/core/src crates/datadir/src crates/operator/src crates/pki/src crates/pod/src crates/wire/src'
# What the simulator replaces is not among it: connections, watches, the webhook, what is installed.
SIM_KUBE_CODE='crates/api/src crates/core/src crates/operator/src crates/pki/src crates/pod/src :!crates/operator/src/cluster/live.rs :!crates/operator/src/install :!crates/operator/src/webhook :!crates/operator/src/runtime'
TESTKIT='crates/testkit/src'
CLIENTS='crates/testkit/src tests/src/clients.rs tests/src/cluster.rs tests/src/history.rs tests/src/torture.rs tests/src/verdict.rs'

soak_table() {
  cat <<END
sim         | crates/core/src crates/pod/src crates/sim/src | cargo run -q --profile sim -p quorate-sim --bin qsim -- run --seeds 100000
sim-kube    | $SIM_KUBE_CODE crates/sim/src | cargo run -q --profile sim -p quorate-sim --bin qsim -- kube --seeds 20000
guards      | $SIM_KUBE_CODE crates/sim/src | cargo run -q --profile sim -p quorate-sim --bin qsim -- guards
exhaustive  | crates/core/src crates/sim/src | cargo run -q --profile sim -p quorate-sim --bin qsim -- exhaustive
conformance | $TESTKIT crates/client/src :!crates/client/src/members :!crates/client/src/members.rs crates/sim/src/etcd.rs crates/sim/src/etcd tests/src/conformance.rs tests/src/conformance tests/tests/host/conformance.rs | QUORATE_SCRIPTS=200 QUORATE_CLUSTERS=16 QUORATE_TEST_CLUSTERS=16 cargo xtask suite e2e-host --log soak --show --minutes 60 host::conformance
kill-rounds | $HOST_CODE $CLIENTS tests/tests/host/kill_rounds.rs | QUORATE_ROUNDS=50 cargo xtask suite e2e-host --log soak --show --minutes 60 host::kill_rounds
resize      | $HOST_CODE $CLIENTS tests/tests/host/resize.rs | QUORATE_FULL=1 cargo xtask suite e2e-host --log soak --show --minutes 60 host::resize
upgrade     | $HOST_CODE $CLIENTS tests/tests/host/upgrade.rs | QUORATE_FULL=1 cargo xtask suite e2e-host --log soak --show --minutes 60 --jobs 1 host::upgrade
lost-data   | $HOST_CODE $CLIENTS tests/tests/host/lost_data.rs | QUORATE_FULL=1 cargo xtask suite e2e-host --log soak --show --minutes 60 --jobs 1 host::lost_data
corruption  | $DATA_CODE $TESTKIT crates/datadir/tests/corruption | QUORATE_FLIPS=100000 cargo test -q --profile sim -p quorate-datadir --test corruption -- --nocapture
dead-members | $DATA_CODE $TESTKIT crates/host/src crates/host/tests/dead_members | QUORATE_DEAD_MEMBERS=200 cargo test -q -p quorate-host --test dead_members -- --nocapture etcd_makes_of_it && QUORATE_DEAD_MEMBERS=20 cargo test -q -p quorate-host --test dead_members -- --nocapture of_three
backup      | $HOST_CODE $TESTKIT tests/src/backup.rs tests/src/backup tests/tests/host/backup.rs | QUORATE_BACKUP_SECONDS=300 QUORATE_BACKUP_RESTORES=1000 cargo xtask suite e2e-host --log soak --show --minutes 60 --jobs 1 host::backup::
backup-damage | $BACKUP_CODE $TESTKIT tests/src/backup.rs tests/src/backup tests/tests/host/backup_damage.rs | QUORATE_DAMAGES=1000 cargo xtask suite e2e-host --log soak --show --minutes 60 host::backup_damage
bench-backup | $BACKUP_CODE $TESTKIT tests/src/measure.rs tests/benches/backup Cargo.toml | make -s bench-backup
bench-kube  | $KUBE_CODE $TESTKIT crates/cli/src tests/src/kube tests/benches/kube.rs Cargo.toml | make -s bench-kube
bench       | $HOST_CODE crates/operator/src crates/pod/src $CLIENTS tests/benches/host.rs Cargo.toml | make -s bench-host
bench-data  | $DATA_CODE $TESTKIT crates/cli/src tests/src/measure.rs tests/benches/data.rs Cargo.toml | make -s bench-data
matrix      | $DATA_CODE $TESTKIT crates/datadir/tests/matrix | QUORATE_MATRIX=full cargo test -q --profile sim -p quorate-datadir --test matrix -- --nocapture
fuzz        | $DATA_CODE fuzz | make -s fuzz SECONDS=200
END
}

soak_names() { soak_table | awk -F ' *[|] *' '{ print $1 }'; }

soak_paths() { soak_table | awk -F ' *[|] *' -v name="$1" '$1 == name { print $2 }'; }

soak_command() { soak_table | awk -F ' *[|] *' -v name="$1" '$1 == name { print $3 }'; }
