#!/usr/bin/env bash
# The first process of a space; see kube-space.sh. Arguments: the space's name, the state directory, the tool cache.
# Started in new namespaces, with the machine's file system still in view.
set -euo pipefail

NAME=$1 DIR=$2 CACHE=$3
NEW=$DIR/$NAME/root

# /proc is still the machine's, so these are the numbers the machine knows this process by.
record() {
  local stat pid
  stat=$(</proc/self/stat)
  pid=${stat%% *}
  read -r -a stat <<<"${stat##*) }"
  printf '%s %s %s\n' "$pid" "${stat[19]}" "$(</proc/sys/kernel/random/boot_id)" >"$DIR/spaces/$NAME.new"
  mv "$DIR/spaces/$NAME.new" "$DIR/spaces/$NAME"
}

# share [--read-only] PATH: the machine's PATH at the same place in the new root.
share() {
  local path=${*: -1}
  mkdir -p "$NEW$path"
  mount --rbind "$path" "$NEW$path"
  [[ "$1" != --read-only ]] || mount -o remount,bind,ro "$NEW$path"
}

# Programs and libraries are the machine's, unwritable; what a node writes, it writes into its own tree.
make_root() {
  local dir file
  mount --make-rprivate /
  mount -t tmpfs -o mode=755 tmpfs "$NEW"
  for dir in /usr /bin /sbin /lib /lib32 /lib64; do
    if [[ -L "$dir" ]]; then cp -P "$dir" "$NEW$dir"; elif [[ -d "$dir" ]]; then share --read-only "$dir"; fi
  done
  mkdir -p "$NEW"/{proc,sys,run,tmp,root,etc,var/lib,var/log,old,tmp/hostpath_pv}
  chmod 1777 "$NEW/tmp"
  ln -s /run "$NEW/var/run"
  for file in passwd group nsswitch.conf os-release ld.so.cache alternatives; do
    [[ ! -e "/etc/$file" ]] || cp -rL "/etc/$file" "$NEW/etc/" 2>/dev/null || cp -r "/etc/$file" "$NEW/etc/"
  done
  printf '%s\n' "$NAME" >"$NEW/etc/hostname"
  printf '127.0.0.1 localhost %s\n' "$NAME" >"$NEW/etc/hosts"
  tr -d - </proc/sys/kernel/random/uuid >"$NEW/etc/machine-id"
  # Without this file nft lists protocols as numbers. kube-proxy then takes the entries it wrote for others' and deletes
  # them in its hourly full sync: every Service is dead until the next one.
  printf '%s\n' 'icmp 1 ICMP' 'tcp 6 TCP' 'udp 17 UDP' 'ipv6-icmp 58 IPv6-ICMP' 'sctp 132 SCTP' >"$NEW/etc/protocols"
  share /dev
  share --read-only "$CACHE"
  # Not with what is mounted below it: that is this very root.
  mkdir -p "$NEW$DIR"
  mount --bind "$DIR" "$NEW$DIR"
  mount --bind "$DIR/volumes" "$NEW/tmp/hostpath_pv"
}

enter_root() {
  cd "$NEW"
  pivot_root . old
  cd /
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
  mount_cgroups
  umount -l /old
  rmdir /old
  mount --make-rshared /
}

mount_cgroups() {
  local controllers
  if [[ "$(stat -fc %T /old/sys/fs/cgroup)" == cgroup2fs ]]; then
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    return
  fi
  mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
  while IFS=: read -r _ controllers _; do
    [[ -n "$controllers" ]] || continue
    mkdir -p "/sys/fs/cgroup/${controllers#name=}"
    mount -t cgroup -o "${controllers/#name=/none,name=}" cgroup "/sys/fs/cgroup/${controllers#name=}"
  done </proc/self/cgroup
}

# The kubelet sets these for the whole machine unless they are as it wants them: it gets to see files that are.
shield_sysctls() {
  local path value
  mkdir -p /run/sysctl
  while read -r path value; do
    [[ -e "/proc/sys/$path" && "$(<"/proc/sys/$path")" != "$value" ]] || continue
    printf '%s\n' "$value" >"/run/sysctl/${path//\//.}"
    mount --bind "/run/sysctl/${path//\//.}" "/proc/sys/$path"
  done <<<'vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000'
}

record
make_root
enter_root
shield_sysctls
hostname "$NAME"
ip link set lo up
: >"$DIR/$NAME/root.ready"

# From here on only to collect what its processes leave.
while :; do
  sleep 86400 &
  wait $!
done
