# shellcheck shell=bash
# etcdbrctl (gardener's etcd-backup-restore), whose archives quorate reads: built from Go modules into the cache.

ETCDBR_MODULE=github.com/gardener/etcd-backup-restore

etcdbr_home() { printf '%s/etcdbr/%s' "$CACHE" "$ETCDBR"; }

build_etcdbr() {
  local stage=$1 modules=$ROOT/tools/etcdbr/$ETCDBR began=$SECONDS
  [[ -f "$modules/go.sum" ]] || die "no tools/etcdbr/$ETCDBR; see 'scripts/tools pin-etcdbr'"
  go_in "$modules" build -mod=readonly -trimpath -o "$stage/out/etcdbrctl" \
    -ldflags "-s -w -X $ETCDBR_MODULE/pkg/version.Version=v$ETCDBR" "$ETCDBR_MODULE"
  verify_says "$stage/out/etcdbrctl" "$ETCDBR" --version >"$stage/VERIFIED"
  note "etcdbrctl $ETCDBR built in $((SECONDS - began)) s"
}

ensure_etcdbr() {
  ! part_cached "$(etcdbr_home)" || return 0
  need_host_packages
  lock_cache
  choose_go
  make_part "$(etcdbr_home)" build_etcdbr
}

list_etcdbr() { list_parts "$(etcdbr_home)"; }

check_etcdbr() { check_parts "$(etcdbr_home)"; }

# Replacements count only in the main module, which is ours here: they are taken over, or it would not build. So are the
# hashes it was released with, themselves under the checked hash of the release: `go get` keeps those that are used.
pin_etcdbr() {
  local version=$1 modules=$ROOT/tools/etcdbr/$1 source
  lock_cache
  choose_go
  mkdir -p "$modules"
  printf 'module quorate.local/tools/etcdbr\n\ngo %s\n' "$GO_MIN" >"$modules/go.mod"
  : >"$modules/go.sum"
  source=$(go_in "$modules" mod download -json "$ETCDBR_MODULE@v$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  [[ -n "$source" ]] || die "the module registry has no etcd-backup-restore $version"
  sed -n 's/^replace .*/\n&/p' "$source/go.mod" >>"$modules/go.mod"
  cat "$source/go.sum" >"$modules/go.sum"
  go_in "$modules" get -tool "$ETCDBR_MODULE@v$version"
  go_in "$modules" mod tidy
}
