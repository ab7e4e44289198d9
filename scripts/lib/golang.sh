# shellcheck shell=bash
# A Go new enough to build etcd: the one installed, or one fetched into the cache without root.

# Is version $1 at least version $2?
version_at_least() {
  [[ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | sed -n 1p)" == "$2" ]]
}

# The version of a go binary itself, whatever toolchain its settings would switch to; empty if it does not run.
go_version_of() {
  { GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null || true; } | sed -n 's/^go\([0-9.]*\).*/\1/p'
}

# Sets GO and GOTOOLCHAIN to a Go of at least GO_MIN.
choose_go() {
  local have
  GO=$(command -v go || true)
  have=$(go_version_of "${GO:-false}")
  if [[ -n "$have" ]] && version_at_least "$have" "$GO_MIN"; then
    export GOTOOLCHAIN=local
    return
  fi
  if [[ -z "$have" ]] || ! version_at_least "$have" "$GO_BOOTSTRAP_MIN"; then
    bootstrap_go
  fi
  # This Go fetches the newer one from its module registry and checks it against the checksum database.
  export GOTOOLCHAIN=go$GO_TOOLCHAIN
  note "go ${have:-absent}, at least $GO_MIN needed: using toolchain $GO_TOOLCHAIN from the module registry"
}

# Debian's Go, unpacked beside etcd rather than installed: older Debians have none that can fetch a toolchain.
bootstrap_go() {
  local home=$CACHE/go/$GO_BOOTSTRAP stage
  GO=$home/usr/lib/go-$GO_BOOTSTRAP/bin/go
  [[ -x "$GO" ]] && return
  note "no usable go: unpacking Debian's go $GO_BOOTSTRAP into the cache"
  stage=$(new_stage)
  debian_unpack "$stage/apt" "$GO_BOOTSTRAP_SUITE" "$stage/root" "golang-$GO_BOOTSTRAP-go" "golang-$GO_BOOTSTRAP-src"
  publish "$stage/root" "$home"
  rm -rf "$stage"
}

# go_in DIR ARGS...: runs the chosen Go on a pinned module, deaf to the caller's own Go settings that could unpin it.
# GOGC=400 lets the compiler collect garbage less often, for more memory. etcd 3.6.16 with etcdctl and etcdutl, nothing
# cached: 82 and 92 s of processor time instead of 108 s.
go_in() {
  local dir=$1
  shift
  (cd "$dir" && GOWORK=off GOFLAGS=-buildvcs=false CGO_ENABLED=0 GOGC=400 "$GO" "$@")
}
