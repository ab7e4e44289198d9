# shellcheck shell=bash
# The cache of tools: where each etcd version lies, and how something gets in whole or not at all.

# Cheapest first, so that a run cut short leaves as many as it can.
ALL_VERSIONS=("$ETCD_35D" "$ETCD_34" "$ETCD_36" "$ETCD_37" "$ETCD_35" "$ETCD_36_STRICT")

home_of() { printf '%s/etcd/%s' "$CACHE" "$1"; }

# The mark is written last, before the directory gets its name; a directory without one is not counted.
is_cached() {
  local home binary
  home=$(home_of "$1")
  [[ -s "$home/VERIFIED" ]] || return 1
  while read -r _ binary; do
    [[ -x "$home/$binary" ]] || return 1
  done < <(grep -v '^#' "$home/VERIFIED")
}

# Work is done in the cache's own file system, so that the last step is a rename.
new_stage() { mktemp -d "$CACHE/tmp.XXXXXX"; }

publish() {
  local from=$1 to=$2
  mkdir -p "$(dirname "$to")"
  rm -rf "$to"
  mv -T "$from" "$to"
}

# The lock stays with children, so after a kill the next run waits for them instead of working under them.
lock_cache() {
  mkdir -p "$CACHE"
  exec 9>"$CACHE/lock"
  flock -n 9 || { note "waiting for another run"; flock 9; }
  # Under the lock no one else is working: what is here was left by a run that was killed.
  remove_stages
  trap remove_stages EXIT
}

# Go marks what it downloads read-only; none of it is in a stage today, but a stage must always be removable.
remove_stages() {
  local stage
  for stage in "$CACHE"/tmp.*; do
    [[ -d "$stage" ]] || continue
    chmod -R u+w "$stage"
    rm -rf "$stage"
  done
}
