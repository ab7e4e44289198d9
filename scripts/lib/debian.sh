# shellcheck shell=bash
# Debian packages unpacked without installing them, of any suite, by an apt that shares no state with the system's.

# Prints "URI<TAB>KEYRING" of the Debian main archive this machine already trusts.
# The mirror is taken from the machine because only its owner knows which one it can reach.
debian_source() {
  local uri='' signed=''
  if [[ -n "${QUORATE_DEBIAN_MIRROR:-}" ]]; then
    uri=$QUORATE_DEBIAN_MIRROR
  else
    IFS=$'\t' read -r uri signed < <(
      { debian_sources_deb822 "$@"; debian_sources_oneline "$@"; } | grep -m1 .
    ) || true
  fi
  [[ -n "$uri" ]] || die "no Debian archive among this machine's apt sources; set QUORATE_DEBIAN_MIRROR to a mirror's URI"
  # An inline key, or none named: Debian's own keyring is the same trust.
  [[ -r "$signed" ]] || signed=/usr/share/keyrings/debian-archive-keyring.gpg
  [[ -r "$signed" ]] || die "no $signed to check Debian's signatures with; install debian-archive-keyring"
  printf '%s\t%s\n' "$uri" "$signed"
}

# The archive itself, not -security or a third party's: its path ends in /debian, a snapshot of it, or a mirror list of it.
DEBIAN_URI_RE='/debian(\.list|/[0-9TZ]+)?/?$'

debian_sources_deb822() {
  local dir=${1:-/etc/apt} files
  files=("$dir"/sources.list.d/*.sources)
  [[ -e "${files[0]}" ]] || return 0
  # A blank line between files, else the last stanza of one runs into the first of the next.
  awk 'FNR == 1 && NR > 1 { print "" } !/^#/' "${files[@]}" | awk -v RS='' -v FS='\n' -v re="$DEBIAN_URI_RE" '
    {
      split("", field); key = ""
      for (i = 1; i <= NF; i++) {
        if (match($i, /^[A-Za-z-]+:/)) {
          key = tolower(substr($i, 1, RLENGTH - 1)); field[key] = substr($i, RLENGTH + 1)
        } else if (key != "") field[key] = field[key] " " $i
      }
      if (field["enabled"] ~ /no|false/ || (" " field["types"] " ") !~ / deb /) next
      if ((" " field["components"] " ") !~ / main / || field["suites"] ~ /-security/) next
      n = split(field["uris"], uri, " "); split(field["signed-by"], key_path, " ")
      for (i = 1; i <= n; i++) if (uri[i] ~ re) { print uri[i] "\t" key_path[1]; next }
    }'
}

debian_sources_oneline() {
  local dir=${1:-/etc/apt} file
  for file in "$dir"/sources.list "$dir"/sources.list.d/*.list; do
    [[ -r "$file" ]] || continue
    awk -v re="$DEBIAN_URI_RE" '
      $1 == "deb" {
        signed = ""
        if (match($0, /\[[^]]*\]/)) {
          opts = substr($0, RSTART + 1, RLENGTH - 2); $0 = substr($0, 1, RSTART - 1) substr($0, RSTART + RLENGTH)
          if (match(opts, /signed-by=[^ ]+/)) signed = substr(opts, RSTART + 10, RLENGTH - 10)
        }
        if ($2 ~ re && $3 !~ /-security/ && (" " $0 " ") ~ / main /) print $2 "\t" signed
      }' "$file"
  done
}

# Writes an apt configuration that keeps how this machine reaches its mirrors (proxies, certificates)
# and drops everything else: hooks and preferences are the system's, not ours.
debian_apt_config() {
  local dir=$1
  mkdir -p "$dir"/state/lists/partial "$dir"/cache/archives/partial
  apt-config dump | grep -E '^(Acquire::|APT::Architectures?)' | grep -v '^Acquire::\(IndexTargets\|Languages\)' >"$dir/apt.conf"
  cat >>"$dir/apt.conf" <<CONF
Acquire::Languages "none";
Acquire::Retries "3";
APT::Sandbox::User "root";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "$dir/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$dir/state";
Dir::State::status "/dev/null";
Dir::Cache "$dir/cache";
CONF
}

# debian_unpack WORKDIR SUITE DEST PACKAGE...: apt checks signatures and hashes, so what is unpacked is Debian's.
debian_unpack() {
  local work=$1 suite=$2 dest=$3 uri keyring source deb
  shift 3
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || die "apt-get and dpkg are needed to fetch Debian packages"
  source=$(debian_source) || exit
  IFS=$'\t' read -r uri keyring <<<"$source"
  mkdir -p "$work" "$dest"
  debian_apt_config "$work"
  printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$uri" "$suite" >"$work/sources.list"
  (
    cd "$work"
    export APT_CONFIG=$work/apt.conf
    # Without Error-Mode a failed index only warns, and the download below fails with less to say.
    apt-get -qq -o APT::Update::Error-Mode=any update
    apt-get -qq download "$@"
  )
  for deb in "$work"/*.deb; do
    dpkg -x "$deb" "$dest"
  done
}
