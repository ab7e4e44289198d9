# Everything a checkout is asked to do. `make` alone lists it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

QUORATE_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/quorate
export QUORATE_CACHE
# rustup puts cargo here, and a shell opened before rustup ran does not know it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

SEEDS ?= 1000
SHELL_SCRIPTS := scripts/tools scripts/soak scripts/evidence scripts/nightly scripts/fuzz scripts/kube scripts/image scripts/lib/rustc-tests $(wildcard scripts/lib/*.sh) .ci/run

ifeq (soak,$(firstword $(MAKECMDGOALS)))

# The word after `soak` is a name, not a goal. The other targets are left out because a soak may share a name with one.
SOAK := $(word 2,$(MAKECMDGOALS))
.PHONY: soak $(SOAK)
soak:
	@scripts/soak $(SOAK)
ifneq (,$(SOAK))
$(SOAK): soak
	@:
endif

else

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  make soak NAME    one long run, its output kept in docs/evidence/; names: $$(scripts/soak --names)"

.PHONY: up
up: host tools-quick ## start a three-member cluster on this machine, from this checkout
	cargo build -p quorate
	$(or $(CARGO_TARGET_DIR),target)/debug/quorate up

.PHONY: build
build: host ## the release binary, target/release/quorate
	cargo build --release -p quorate

.PHONY: host
host: ## check what the machine needs, and install missing Debian packages
	@scripts/tools host

.PHONY: tools
tools: ## every pinned etcd version, into the cache
	@scripts/tools all

.PHONY: tools-quick
tools-quick: ## only the etcd version that is quickest to get
	@scripts/tools quick

.PHONY: tools-kube
tools-kube: ## the parts of a real Kubernetes, into the cache; about ten minutes once
	@scripts/tools kube

.PHONY: tools-etcdbr
tools-etcdbr: ## etcdbrctl, whose archives are read, into the cache; a few minutes once
	@scripts/tools etcdbr

.PHONY: tools-stores
tools-stores: ## the object storage servers that tests run against, into the cache
	@scripts/tools stores

.PHONY: kube-up
kube-up: ## start a real Kubernetes on this machine, of NODES nodes (default 1); needs root
	@scripts/kube up --nodes $(or $(NODES),1)

.PHONY: kube-down
kube-down: ## stop it and remove all of it
	@scripts/kube down

.PHONY: image
image: build-tests ## the image quorate:dev with the binary of the tests, as a tar; RELEASE=1 for the static release build
	@scripts/image

.PHONY: lint
lint: host ## format, clippy, the repository's own rules, shell syntax
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	cargo xtask tidy
	for script in $(SHELL_SCRIPTS); do bash -n "$$script"; done

# The one build of a gate: features are the same whatever is run of it, so that each dependency is compiled once.
.PHONY: build-tests
build-tests: host ## every program and every test, in the one build that all tests share
	cargo build --workspace --bins --tests --features quorate-tests/e2e

.PHONY: test
test: host tools tools-stores tools-etcdbr ## unit and property tests, and the tier that runs real etcd and object storage
	cargo xtask suite test

.PHONY: fuzz
fuzz: host ## the readers of etcd's files under a fuzzer: TARGET=bolt, wal, snap or all (default), for SECONDS (default 600) each
	scripts/fuzz $(or $(TARGET),all) $(or $(SECONDS),600)

.PHONY: e2e
e2e: e2e-host e2e-kube ## the binary against real clusters, end to end: on this machine, then on a real Kubernetes

.PHONY: e2e-host
e2e-host: host tools tools-stores tools-etcdbr ## the binary against real clusters on this machine
	cargo xtask suite e2e-host

# A Kubernetes that was up before stays up; one that was started for this goes, however it ends.
ON_KUBE = scripts/kube status >/dev/null 2>&1 || trap 'scripts/kube down' EXIT; scripts/kube up

.PHONY: e2e-kube
e2e-kube: host tools tools-kube build-tests ## the operator on a real Kubernetes, end to end; needs root
	scripts/image
	$(ON_KUBE); cargo xtask suite e2e-kube --jobs 4

.PHONY: nightly
nightly: host tools tools-stores tools-etcdbr tools-kube ## everything in full; hours; PARTS="host seeds sim data fuzz kube nodes release"
	@scripts/nightly $(PARTS)

.PHONY: sim
sim: host ## the simulator over SEEDS seeds (default 1000)
	cargo run --profile sim -p quorate-sim --bin qsim -- run --seeds $(SEEDS)
	cargo run --profile sim -p quorate-sim --bin qsim -- kube --seeds $(SEEDS)

.PHONY: bench
bench: bench-host bench-data bench-backup bench-kube ## all figures; a verdict on nothing

RELEASED = QUORATE_BINARY=$(abspath $(or $(CARGO_TARGET_DIR),target)/release/quorate)

.PHONY: bench-host
bench-host: host tools build ## sizes, ratios and write gaps of this machine
	$(RELEASED) cargo bench --profile dev -p quorate-tests --bench host

.PHONY: bench-data
bench-data: host tools build ## snapshots of 100 MB, 400 MB and 2 GB verified, restored and defragmented, beside etcdutl
	$(RELEASED) cargo bench --profile dev -p quorate-tests --bench data

.PHONY: bench-backup
bench-backup: host tools tools-etcdbr build ## full copies, restores and compactions beside etcdbrctl, 100 MB, 400 MB and 2 GB
	$(RELEASED) cargo bench --profile dev -p quorate-tests --bench backup

.PHONY: bench-kube
bench-kube: export RELEASE = 1
bench-kube: host tools tools-kube image ## the operator in figures, on a real Kubernetes; needs root
	cargo build -p quorate
	cargo bench --profile dev -p quorate-tests --bench kube --no-run
	$(ON_KUBE); cargo bench --profile dev -p quorate-tests --bench kube

.PHONY: evidence
evidence: ## each long run that is kept: its commit, and whether code it speaks of has changed since
	@scripts/evidence

.PHONY: codegen
codegen: host ## regenerate checked-in generated code
	cargo run -q -p quorate-codegen --bin codegen

.PHONY: clean
clean: ## remove build output; the etcd cache stays
	cargo clean

endif
