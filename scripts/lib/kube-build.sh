# shellcheck shell=bash
# The parts of a real Kubernetes, into the cache: its programs and CoreDNS from Go modules, the container runtime from Debian.

KUBE_PROGRAMS=(kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl)
NODE_PACKAGES=(containerd runc containernetworking-plugins busybox-static)

kube_home() { printf '%s/kube/%s' "$CACHE" "$KUBE"; }
coredns_home() { printf '%s/coredns/%s' "$CACHE" "$COREDNS"; }
# Debian's point releases change these; the suite is what is pinned.
node_home() { printf '%s/node/%s-%s' "$CACHE" "$NODE_SUITE" "$(cksum <<<"${NODE_PACKAGES[*]}" | cut -d' ' -f1)"; }

# A part is cached when its mark is there: the mark is written last, before the directory gets its name.
part_cached() { [[ -s "$1/VERIFIED" ]]; }

list_parts() {
  local home
  for home in "$@"; do
    part_cached "$home" && printf '%s\n' "$home" || printf '%s not cached\n' "${home#"$CACHE"/}"
  done
}

check_parts() {
  local home
  for home in "$@"; do
    part_cached "$home" || continue
    (cd "$home" && sha256sum --quiet -c <(grep -v '^#' VERIFIED)) || die "$home is damaged; remove it and run again"
    note "${home#"$CACHE"/} intact"
  done
}

kube_cached() { part_cached "$(kube_home)" && part_cached "$(coredns_home)" && part_cached "$(node_home)"; }

# What a program says its version is must hold the version it was built from.
verify_says() {
  local program=$1 want=$2 said
  shift 2
  said=$(env -i "$program" "$@" 2>&1 | sed -n 1p) || die "${program##*/} does not run here: $said"
  [[ "$said" == *"$want"* ]] || die "${program##*/} says '$said', not $want"
  printf '# %s: %s\n' "${program##*/}" "$said"
}

build_kube() {
  local stage=$1 modules=$ROOT/tools/kube/$KUBE program began package
  [[ -f "$modules/go.sum" ]] || die "no tools/kube/$KUBE; see 'scripts/tools pin-kube'"
  package=k8s.io/component-base/version
  for program in "${KUBE_PROGRAMS[@]}"; do
    began=$SECONDS
    go_in "$modules" build -mod=readonly -trimpath -o "$stage/out/" \
      -ldflags "-s -w -X $package.gitVersion=v$KUBE -X $package.gitMajor=1 -X $package.gitMinor=$(cut -d. -f2 <<<"$KUBE")" \
      "k8s.io/kubernetes/cmd/$program"
    note "$program $KUBE built in $((SECONDS - began)) s"
  done
  for program in "${KUBE_PROGRAMS[@]}"; do
    case $program in
      kubectl) verify_says "$stage/out/kubectl" "v$KUBE" version --client ;;
      *) verify_says "$stage/out/$program" "v$KUBE" --version ;;
    esac
  done >"$stage/VERIFIED"
}

build_coredns() {
  local stage=$1 modules=$ROOT/tools/coredns/$COREDNS began=$SECONDS
  [[ -f "$modules/go.sum" ]] || die "no tools/coredns/$COREDNS; see 'scripts/tools pin-coredns'"
  go_in "$modules" build -mod=readonly -trimpath -ldflags '-s -w' -o "$stage/out/coredns" .
  verify_says "$stage/out/coredns" "$COREDNS" --version >"$stage/VERIFIED"
  note "CoreDNS $COREDNS built in $((SECONDS - began)) s"
}

# Unpacked, not installed: a machine may have a container runtime of its own, which this must neither use nor replace.
unpack_node() {
  local stage=$1
  debian_unpack "$stage/apt" "$NODE_SUITE" "$stage/out" "${NODE_PACKAGES[@]}"
  {
    verify_says "$stage/out/usr/bin/containerd" containerd --version
    verify_says "$stage/out/usr/sbin/runc" 'runc version' --version
    verify_says "$stage/out/bin/busybox" BusyBox
    verify_says "$stage/out/usr/lib/cni/bridge" 'CNI bridge plugin' --version
  } >"$stage/VERIFIED"
}

# make_part HOME FUNCTION: the function fills a stage's out/ and writes VERIFIED beside it.
make_part() {
  local home=$1 function=$2 stage
  ! part_cached "$home" || return 0
  stage=$(new_stage)
  mkdir "$stage/out"
  "$function" "$stage"
  (cd "$stage/out" && find . -type f -perm -100 -printf '%P\0' | sort -z | xargs -0 sha256sum) >>"$stage/VERIFIED"
  mv "$stage/VERIFIED" "$stage/out/VERIFIED"
  publish "$stage/out" "$home"
  rm -rf "$stage"
}

ensure_kube() {
  ! kube_cached || return 0
  need_host_packages
  lock_cache
  choose_go
  make_part "$(node_home)" unpack_node
  make_part "$(kube_home)" build_kube
  make_part "$(coredns_home)" build_coredns
}

list_kube() { list_parts "$(kube_home)" "$(coredns_home)" "$(node_home)"; }

check_kube() { check_parts "$(kube_home)" "$(coredns_home)" "$(node_home)"; }

# Kubernetes names its own libraries by paths inside its source tree; required from elsewhere, each needs its published version.
pin_kube() {
  local version=$1 modules=$ROOT/tools/kube/$1 mod programs=("${KUBE_PROGRAMS[@]/#/k8s.io/kubernetes/cmd/}")
  lock_cache
  choose_go
  mkdir -p "$modules"
  printf 'module quorate.local/tools/kube\n\ngo %s\n' "$GO_MIN" >"$modules/go.mod"
  : >"$modules/go.sum"
  mod=$(go_in "$modules" mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
  [[ -n "$mod" ]] || die "the module registry has no Kubernetes $version"
  {
    # The language defaults it was released with.
    sed -n 's/^godebug .*/\n&/p' "$mod"
    sed -n "s#^\t\(k8s.io/[a-z-]*\) => ./staging/.*#replace \1 => \1 v0.${version#1.}#p" "$mod"
  } >>"$modules/go.mod"
  # The version in every name: without it go takes the newest there is.
  go_in "$modules" get -tool "${programs[@]/%/@v$version}"
}

# The program itself is ours: CoreDNS has no smaller build of its own.
pin_coredns() {
  local version=$1 modules=$ROOT/tools/coredns/$1
  lock_cache
  choose_go
  [[ -f "$modules/main.go" ]] || die "write $modules/main.go first"
  printf 'module quorate.local/tools/coredns\n\ngo %s\n' "$GO_MIN" >"$modules/go.mod"
  : >"$modules/go.sum"
  go_in "$modules" get "github.com/coredns/coredns@v$version"
  go_in "$modules" mod tidy
}
