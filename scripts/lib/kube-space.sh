# shellcheck shell=bash
# Spaces: the control plane and each node live in namespaces of their own (network, mounts, processes, cgroups), with a
# file system of their own. Ending a space's first process ends all of it; the machine around it is not changed.
# A space NAME is recorded in $DIR/spaces/NAME as: pid, start time, boot id.

# One cgroup for each state directory: what is in it was started from here, whatever became of the records.
SPACE_CGROUP=quorate-kube-$(cksum <<<"$DIR" | cut -d' ' -f1)
SPACE_NAMESPACES=(--mount --uts --ipc --net --pid --cgroup)

boot_id() { cat /proc/sys/kernel/random/boot_id; }

# The start time of a process in clock ticks; with the boot id it tells a process from a later one with its number.
start_time_of() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  # The name in parentheses may hold anything; what follows it are plain fields.
  read -r -a stat <<<"${stat##*) }"
  printf '%s' "${stat[19]}"
}

# Prints the pid of a space that lives.
space_pid() {
  local pid start boot
  read -r pid start boot 2>/dev/null <"$DIR/spaces/$1" || return 1
  [[ "$boot" == "$(boot_id)" && "$(start_time_of "$pid")" == "$start" ]] || return 1
  printf '%s' "$pid"
}

space_names() { (cd "$DIR/spaces" 2>/dev/null && ls) || true; }

# Every hierarchy that limits anything, as "TYPE MOUNTPOINT": those of v1, or v2 where it is the only one.
cgroup_mounts() { awk '$3 == "cgroup" || ($3 == "cgroup2" && $2 == "/sys/fs/cgroup") { print $3, $2 }' /proc/self/mounts; }

# A cgroup of each hierarchy for a space; cgroup v1's cpuset refuses processes until it has cpus and memory.
make_cgroups() {
  local type mount at file
  while read -r type mount; do
    for at in "$mount/$SPACE_CGROUP" "$mount/$SPACE_CGROUP/$1"; do
      mkdir -p "$at"
      for file in cpuset.cpus cpuset.mems; do
        [[ "$type" == cgroup2 || ! -e "$at/$file" || -n "$(cat "$at/$file")" ]] || cat "$at/../$file" >"$at/$file"
      done
    done
    [[ "$type" == cgroup ]] || share_controllers "$mount" "$mount/$SPACE_CGROUP"
  done < <(cgroup_mounts)
}

# cgroup v2 only: controllers are handed down level by level, those that are not already.
share_controllers() {
  local at controller
  for at in "$@"; do
    for controller in cpuset cpu io memory pids; do
      grep -qw "$controller" "$at/cgroup.subtree_control" || echo "+$controller" >"$at/cgroup.subtree_control"
    done
  done
}

# Moves this very process; its children follow. LEAF is where a v2 space keeps processes, since there its root may hold none.
join_cgroups() {
  local space=$1 leaf=${2:-} type mount at
  while read -r type mount; do
    at=$mount/$SPACE_CGROUP/$space
    [[ "$type" == cgroup ]] || at+=$leaf
    echo "$BASHPID" >"$at/cgroup.procs"
  done < <(cgroup_mounts)
}

# v2: once the space's cgroup namespace is made, its processes move out of its root.
settle_cgroups() {
  local type mount at pid
  while read -r type mount; do
    [[ "$type" == cgroup2 ]] || continue
    at=$mount/$SPACE_CGROUP/$1
    mkdir -p "$at/system"
    for pid in $(cat "$at/cgroup.procs"); do
      echo "$pid" >"$at/system/cgroup.procs" 2>/dev/null || true
    done
    share_controllers "$at"
  done < <(cgroup_mounts)
}

# remove_cgroups [SPACE]: of one space, or all. Ends what still runs in them, too: a run killed between starting a
# process and recording it leaves such.
remove_cgroups() {
  local mount at pids
  while read -r _ mount; do
    at=$mount/$SPACE_CGROUP${1:+/$1}
    # A cgroup stays busy for a moment after its last process has gone.
    for _ in {1..50}; do
      [[ -d "$at" ]] || break
      pids=$(find "$at" -name cgroup.procs -exec cat {} + 2>/dev/null) || true
      # shellcheck disable=SC2086
      [[ -z "$pids" ]] || kill -KILL $pids 2>/dev/null || true
      find "$at" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
    done
    [[ ! -d "$at" ]] || die "cgroup $at does not go away"
  done < <(cgroup_mounts)
}

# start_space NAME: returns when its first process has set it up.
start_space() {
  local name=$1 root=$DIR/$1/root
  mkdir -p "$DIR/spaces" "$root" "$DIR/logs" "$DIR/volumes"
  rm -f "$root.ready"
  make_cgroups "$name"
  (
    join_cgroups "$name"
    exec setsid unshare "${SPACE_NAMESPACES[@]}" --fork \
      bash "$ROOT/scripts/lib/kube-space-init.sh" "$name" "$DIR" "$CACHE"
  ) </dev/null >"$DIR/logs/$name.log" 2>&1 8>&- &
  disown
  wait_until 60 "space $name" test -e "$root.ready" || show_log_and_die "$name"
  settle_cgroups "$name"
}

# in_space NAME COMMAND...: in all its namespaces, with an environment of its own.
in_space() {
  local name=$1 pid
  shift
  pid=$(space_pid "$name") || die "the space $name does not run"
  (
    join_cgroups "$name" /system
    exec nsenter -t "$pid" --mount --uts --ipc --net --pid --cgroup -- env -i HOME=/root "PATH=$SPACE_PATH" "$@"
  )
}

# daemon_in SPACE PROGRAM ARGS...: started and left behind; its output is in logs/PROGRAM-SPACE.log.
daemon_in() {
  local space=$1 program=$2
  shift 2
  in_space "$space" setsid -f "$program" "$@" </dev/null >>"$DIR/logs/${program##*/}-$space.log" 2>&1 8>&-
}

# Ends every process of a space at once: with the first process of its process namespace all others go.
stop_space() {
  local name=$1 pid
  if pid=$(space_pid "$name"); then
    kill -KILL "$pid"
    wait_until 20 "the end of space $name" space_gone "$name" || die "space $name (pid $pid) does not end"
  fi
  remove_cgroups "$name"
  rm -f "$DIR/spaces/$name"
}

space_gone() { ! space_pid "$1" >/dev/null; }
