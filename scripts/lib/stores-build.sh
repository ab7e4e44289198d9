# shellcheck shell=bash
# The servers that stores are tested against, into the cache: an S3 gateway and a Google one from Go modules, Azure's own
# from npm. None is needed to build or run quorate.

versitygw_home() { printf '%s/stores/versitygw-%s' "$CACHE" "$VERSITYGW"; }
# The front of it is ours and may change under the same version.
fake_gcs_home() {
  printf '%s/stores/fake-gcs-server-%s-%s' "$CACHE" "$FAKE_GCS" "$(cksum <"$ROOT/tools/fake-gcs-server/$FAKE_GCS/main.go" | cut -d' ' -f1)"
}
azurite_home() { printf '%s/stores/azurite-%s' "$CACHE" "$AZURITE"; }

stores_cached() { part_cached "$(versitygw_home)" && part_cached "$(fake_gcs_home)" && part_cached "$(azurite_home)"; }

build_versitygw() {
  local stage=$1 modules=$ROOT/tools/versitygw/$VERSITYGW began=$SECONDS
  [[ -f "$modules/go.sum" ]] || die "no tools/versitygw/$VERSITYGW; see 'scripts/tools pin-versitygw'"
  go_in "$modules" build -mod=readonly -trimpath -ldflags "-s -w -X main.Version=$VERSITYGW" -o "$stage/out/" \
    github.com/versity/versitygw/cmd/versitygw
  verify_says "$stage/out/versitygw" "$VERSITYGW" --version >"$stage/VERIFIED"
  note "versitygw $VERSITYGW built in $((SECONDS - began)) s"
}

build_fake_gcs() {
  local stage=$1 modules=$ROOT/tools/fake-gcs-server/$FAKE_GCS began=$SECONDS
  [[ -f "$modules/go.sum" ]] || die "no tools/fake-gcs-server/$FAKE_GCS; see 'scripts/tools pin-fake-gcs'"
  go_in "$modules" build -mod=readonly -trimpath -ldflags '-s -w' -o "$stage/out/fake-gcs-server" .
  # It does not know its version.
  verify_says "$stage/out/fake-gcs-server" 'Usage of' -help >"$stage/VERIFIED"
  note "fake-gcs-server $FAKE_GCS built in $((SECONDS - began)) s"
}

# As the lock file has it, each package checked against its hash; no package's own scripts are run.
install_azurite() {
  local stage=$1 modules=$ROOT/tools/azurite/$AZURITE began=$SECONDS
  [[ -f "$modules/package-lock.json" ]] || die "no tools/azurite/$AZURITE; see 'scripts/tools pin-azurite'"
  cp "$modules"/package*.json "$stage/out/"
  (cd "$stage/out" && npm ci --silent --ignore-scripts --omit=dev --no-audit --no-fund --cache "$stage/npm")
  printf '# azurite: %s\n' "$AZURITE" >"$stage/VERIFIED"
  [[ "$(node "$stage/out/node_modules/azurite/dist/src/blob/main.js" --version)" == "$AZURITE" ]] ||
    die "azurite $AZURITE does not run here"
  (cd "$stage/out" && find node_modules/azurite/dist -name '*.js' -print0 | sort -z | xargs -0 sha256sum) >>"$stage/VERIFIED"
  note "azurite $AZURITE installed in $((SECONDS - began)) s"
}

ensure_stores() {
  ! stores_cached || return 0
  need_host_packages
  need_commands node:nodejs npm:npm
  lock_cache
  choose_go
  make_part "$(azurite_home)" install_azurite
  make_part "$(versitygw_home)" build_versitygw
  make_part "$(fake_gcs_home)" build_fake_gcs
}

list_stores() { list_parts "$(versitygw_home)" "$(fake_gcs_home)" "$(azurite_home)"; }

check_stores() { check_parts "$(versitygw_home)" "$(fake_gcs_home)" "$(azurite_home)"; }

pin_versitygw() {
  local version=$1 modules=$ROOT/tools/versitygw/$1
  lock_cache
  choose_go
  mkdir -p "$modules"
  printf 'module quorate.local/tools/versitygw\n\ngo %s\n' "$GO_MIN" >"$modules/go.mod"
  : >"$modules/go.sum"
  go_in "$modules" get -tool "github.com/versity/versitygw/cmd/versitygw@v$version"
}


# The program itself is ours: the emulator alone does not speak the API that the client writes with.
pin_fake_gcs() {
  local version=$1 modules=$ROOT/tools/fake-gcs-server/$1
  lock_cache
  choose_go
  [[ -f "$modules/main.go" ]] || die "write $modules/main.go first"
  printf 'module quorate.local/tools/fake-gcs-server\n\ngo %s\n' "$GO_MIN" >"$modules/go.mod"
  : >"$modules/go.sum"
  go_in "$modules" get "github.com/fsouza/fake-gcs-server@v$version"
  go_in "$modules" mod tidy
}

# Without the address of the registry it was pinned from: each machine has its own.
pin_azurite() {
  local modules=$ROOT/tools/azurite/$1
  need_commands node:nodejs npm:npm
  mkdir -p "$modules"
  printf '{\n  "name": "quorate-azurite",\n  "private": true,\n  "dependencies": {\n    "azurite": "%s"\n  }\n}\n' "$1" >"$modules/package.json"
  (cd "$modules" && rm -f package-lock.json && npm install --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts --no-audit --no-fund)
}
