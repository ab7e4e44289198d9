# shellcheck shell=bash
# What the machine itself must have: a C compiler for ring, a C++ compiler for the fuzzer, the small commands these
# scripts use, and Rust.

# command:package, for Debian.
HOST_COMMANDS=(cc:build-essential c++:build-essential git:git flock:util-linux dpkg:dpkg sha256sum:coreutils)

need_host_packages() {
  local missing=()
  missing_packages "${HOST_COMMANDS[@]}"
  # Go speaks TLS to its registry with the system's certificates.
  [[ -e /etc/ssl/certs/ca-certificates.crt || -d /etc/pki/tls/certs || ! -e /etc/debian_version ]] || missing+=(ca-certificates)
  ((${#missing[@]} == 0)) || install_packages "${missing[@]}"
}

# Adds to the caller's `missing` the packages of commands that are not here.
missing_packages() {
  local entry
  for entry in "$@"; do
    command -v "${entry%%:*}" >/dev/null || missing+=("${entry#*:}")
  done
}

# need_commands COMMAND:PACKAGE...
need_commands() {
  local missing=()
  missing_packages "$@"
  ((${#missing[@]} == 0)) || install_packages "${missing[@]}"
}

install_packages() {
  local as_root=()
  command -v apt-get >/dev/null || die "missing: $* (Debian's names); install them with this system's package manager"
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "missing: $*; as root run: apt-get install $*"
    as_root=(sudo)
  fi
  note "installing: $*"
  "${as_root[@]}" apt-get -qq update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends "$@"
}

need_rust() {
  local want have
  want=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' "$ROOT/Cargo.toml")
  have=$(cargo --version 2>/dev/null | awk '{ print $2 }') || true
  [[ -n "$have" ]] && version_at_least "$have" "$want" && return
  die "cargo ${have:-is missing}, Rust $want or newer is needed: install rustup (Debian's package of that name, or Rust's own installer), run 'rustup toolchain install' here, and try again"
}
