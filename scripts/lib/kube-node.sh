# shellcheck shell=bash
# One node, in a space of its own: containerd, kubelet, kube-proxy. Paths are under $DIR/NAME.

PAUSE_IMAGE=registry.k8s.io/pause:3.10

# Every pod is wired to the node by a pair of interfaces and routes, not by a bridge: traffic between pods through a
# Service then passes the node's rules both ways, without settings of the machine's kernel.
write_cni() {
  local number=$1 at=$2
  mkdir -p "$at/cni"
  cat >"$at/cni/10-pods.conflist" <<JSON
{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    {
      "type": "ptp",
      "ipam": {
        "type": "host-local",
        "dataDir": "$at/ipam",
        "ranges": [[{"subnet": "$(node_pods "$number")"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    }
  ]
}
JSON
}

# restrict_oom_score_adj: a machine without CAP_SYS_RESOURCE may not lower the score, and containers would not start.
write_containerd() {
  local at=$1
  cat >"$at/containerd.toml" <<TOML
version = 2
root = "$at/containerd"
state = "/run/containerd"
oom_score = 0
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$PAUSE_IMAGE"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$(node_home)/usr/lib/cni"
    conf_dir = "$at/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
TOML
}

start_containerd() {
  local name at
  name=$(node_name "$1") at=$DIR/$(node_name "$1")
  write_cni "$1" "$at"
  write_containerd "$at"
  daemon_in "$name" containerd --config "$at/containerd.toml" --log-level warn
}

containerd_ready() { in_space "$1" ctr version >/dev/null 2>&1; }

# enforceNodeAllocatable off: limits are kept for each container and pod, but none for all pods together. Without a tree for
# pods (cgroupsPerQOS) a kubelet that resizes pods in place dies of its absence.
write_kubelet() {
  local at=$1
  cat >"$at/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: "$PKI/ca.crt"}
authorization: {mode: Webhook}
clusterDomain: cluster.local
clusterDNS: ["$DNS_ADDRESS"]
resolvConf: ""
cgroupDriver: cgroupfs
cgroupsPerQOS: true
enforceNodeAllocatable: []
failSwapOn: false
oomScoreAdj: 0
syncFrequency: 10s
nodeStatusUpdateFrequency: 4s
nodeLeaseDurationSeconds: 20
runtimeRequestTimeout: 2m
imageGCHighThresholdPercent: 100
imageMinimumGCAge: 24h
evictionHard: {memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "0%"}
kubeAPIQPS: 100
kubeAPIBurst: 200
eventRecordQPS: 50
maxPods: 200
volumePluginDir: "$at/volume-plugins"
YAML
}

start_kubelet() {
  local name at
  name=$(node_name "$1") at=$DIR/$(node_name "$1")
  write_kubelet "$at"
  daemon_in "$name" kubelet --config "$at/kubelet.yaml" --kubeconfig "$PKI/$name.kubeconfig" \
    --root-dir "$at/kubelet" --hostname-override "$name" --node-ip "$(node_address "$1")" --v 1
}

# The connection tracking limits are the machine's, not the space's: left as they are.
write_proxy() {
  local name=$1
  cat >"$DIR/$name/proxy.yaml" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: "$PKI/proxy.kubeconfig"}
hostnameOverride: $name
mode: nftables
clusterCIDR: $POD_NET.0.0/16
oomScoreAdj: 0
nftables: {syncPeriod: 10s, minSyncPeriod: 200ms}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
YAML
}

start_proxy() {
  local name
  name=$(node_name "$1")
  write_proxy "$name"
  daemon_in "$name" kube-proxy --config "$DIR/$name/proxy.yaml"
}

# Ends kube-proxy and starts it again: the first sync of the new one is a full sync over the table that the old one left,
# as each running kube-proxy does once an hour.
restart_proxy() {
  local name
  name=$(node_name "$1")
  in_space "$name" "$(node_home)/bin/busybox" killall kube-proxy
  wait_until 10 "the end of kube-proxy" proxy_gone "$name" || die "kube-proxy of $name does not end"
  start_proxy "$1"
}

proxy_gone() { ! in_space "$1" "$(node_home)/bin/busybox" pidof kube-proxy >/dev/null; }

# Full syncs of this kube-proxy that are over.
proxy_synced() {
  in_space "$1" curl -fsS --max-time 2 http://127.0.0.1:10249/metrics 2>/dev/null |
    grep -q '^kubeproxy_sync_full_proxy_rules_duration_seconds_count.*ip_family="IPv4".* [1-9]'
}

# service_map SPACE: the entries of kube-proxy's map of Services, one a line, as kube-proxy reads them back.
service_map() {
  in_space "$1" nft --json list map ip kube-proxy service-ips 2>/dev/null | grep -o '"concat": \[[^]]*\]' || true
}

# Cluster DNS is always there. Its protocol must be listed by the name under which kube-proxy wrote it.
knows_services() { service_map "$1" | grep -qF "[\"$DNS_ADDRESS\", \"udp\", 53]"; }

node_ready() {
  [[ "$(kubectl get node "$1" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null)" == True ]]
}

# import_image NODE TAR
import_image() {
  in_space "$(node_name "$1")" ctr -n k8s.io image import - <"$2" >/dev/null || die "image $2 cannot be imported"
}

# boot_node NUMBER: its space, wires and container runtime; run_node what needs the API server.
boot_node() {
  start_space "$(node_name "$1")"
  wire_node "$1"
  start_containerd "$1"
}

run_node() {
  start_kubelet "$1"
  start_proxy "$1"
}

await_node() { await 90 "kubelet-$(node_name "$1")" "$(node_name "$1") ready" node_ready "$(node_name "$1")"; }

# node ACTION NUMBER: the ways a node is lost and comes back.
node() {
  local action=${1:-} number=${2:-}
  is_running || die "not running; see 'scripts/kube up'"
  [[ "$number" =~ ^[1-9]$ ]] && ((number <= NODES)) || die "which node? there are $NODES, counted from 1"
  lock_bed
  case $action in
    cut) ip_in control link set "$(node_name "$number")" down ;;
    heal) ip_in control link set "$(node_name "$number")" up ;;
    kill) stop_space "$(node_name "$number")" ;;
    start)
      ! space_pid "$(node_name "$number")" >/dev/null || die "$(node_name "$number") runs"
      boot_node "$number"
      wait_until 30 containerd containerd_ready "$(node_name "$number")" || show_log_and_die "containerd-$(node_name "$number")"
      run_node "$number"
      ;;
    *) die "node knows cut, heal, kill and start, not '$action'" ;;
  esac
  note "$(node_name "$number"): $action"
}
