# shellcheck shell=bash
# The images pods run, as tars in the cache: nothing is pulled. A tar's name holds a hash of all it is made from.

IMAGE_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# For tests that need a shell in a pod; the etcd images have none, as the official ones.
BUSYBOX_IMAGE=docker.io/library/busybox:dev

# build_image FILE-PREFIX KEY-FILE NAME CONFIG ENTRY...: prints the tar's path. KEY-FILE stands for the content's version;
# entries count as they are named.
build_image() {
  local prefix=$CACHE/images/$1 key_file=$2 name=$3 key tar
  key=$({ cat "$ROOT/scripts/lib/image.py" "$ROOT/scripts/lib/kube-images.sh" "$key_file" && printf '%s\n' "$@"; } |
    sha256sum | cut -c1-12)
  tar=$prefix-$key.tar
  if [[ ! -e "$tar" ]]; then
    mkdir -p "$CACHE/images"
    rm -f "$prefix"-*
    python3 "$ROOT/scripts/lib/image.py" "$tar" "$name" "${@:4}" || die "image $name cannot be built"
  fi
  printf '%s\n' "$tar"
}

# The libraries a program needs, as image entries at the paths it looks for them.
library_entries() {
  { ldd "$1" 2>/dev/null || true; } | sed -nE 's#.* => (/[^ ]+) .*#\1#p; s#^\s+(/[^ ]+) .*#\1#p' | sed 's#.*#&=&#'
}

# What a program built by Rust needs unless it is static. Members' pods run quorate from its own image in that of etcd: a
# release is static, as etcd's official images have no libraries; the binary that tests run is not.
rust_libraries() {
  local name path
  for name in libgcc_s.so.1 libm.so.6 libc.so.6; do
    path=$(ldconfig -p | awk -v name="$name" '$1 == name && /x86-64/ { print $NF; exit }')
    [[ -e "$path" ]] || die "no $name on this machine"
    printf '%s=%s\n' "$path" "$path"
  done
  printf '%s=%s\n' /lib64/ld-linux-x86-64.so.2 /lib64/ld-linux-x86-64.so.2
}

etcd_image() {
  local version=$1 home entries=(/var/lib/etcd/ /tmp/) program
  home=$(home_of "$version")
  for program in etcd etcdctl etcdutl; do
    [[ ! -e "$home/$program" ]] || entries+=("/usr/local/bin/$program=$home/$program")
  done
  mapfile -t -O "${#entries[@]}" entries < <({ library_entries "$home/etcd" && rust_libraries; } | sort -u)
  build_image "etcd-$version" "$home/VERIFIED" "quay.io/coreos/etcd:v$version" \
    "{\"Cmd\": [\"/usr/local/bin/etcd\"], \"Env\": [\"PATH=$IMAGE_PATH\"]}" "${entries[@]}"
}

busybox_image() {
  local home applet entries=()
  home=$(node_home)
  for applet in $("$home/bin/busybox" --list); do
    [[ "$applet" == busybox ]] || entries+=("/bin/$applet@busybox")
  done
  build_image busybox "$home/VERIFIED" "$BUSYBOX_IMAGE" "{\"Cmd\": [\"/bin/sh\"], \"Env\": [\"PATH=$IMAGE_PATH\"]}" \
    "/bin/busybox=$home/bin/busybox" /tmp/ "${entries[@]}"
}

# What holds a pod's namespaces only has to sleep.
pause_image() {
  build_image pause "$(node_home)/VERIFIED" "$PAUSE_IMAGE" '{"Entrypoint": ["/busybox", "sleep", "2147483647"]}' \
    "/busybox=$(node_home)/bin/busybox"
}

# Every image there is to import, the one no pod can do without first.
all_images() {
  local version own
  pause_image
  busybox_image
  for version in "${ALL_VERSIONS[@]}"; do
    ! is_cached "$version" || etcd_image "$version"
  done
  own=$(own_image)
  [[ ! -e "$own" ]] || printf '%s\n' "$own"
}

# Where `make image` leaves quorate's own.
own_image() { printf '%s/image/quorate.tar' "${CARGO_TARGET_DIR:-$ROOT/target}"; }
