# shellcheck shell=bash
# The wires: a bridge in the control plane's space, one pair of interfaces from it to the machine and one to each node.
# The machine gets one interface and routes through it; all of them go with the interface.

HOST_LINK=${QUORATE_KUBE_LINK:-qkube0}
NODE_NET=${QUORATE_KUBE_NODE_NET:-10.199.0}
POD_NET=${QUORATE_KUBE_POD_NET:-10.200}
SERVICE_NET=${QUORATE_KUBE_SERVICE_NET:-10.201}
HOST_ADDRESS=$NODE_NET.1
CONTROL_ADDRESS=$NODE_NET.2
DNS_ADDRESS=$SERVICE_NET.0.10
KUBERNETES_ADDRESS=$SERVICE_NET.0.1

node_name() { printf 'node%s' "$1"; }
node_address() { printf '%s.%s' "$NODE_NET" "$((10 + $1))"; }
node_pods() { printf '%s.%s.0/24' "$POD_NET" "$1"; }

# ip_in SPACE ARGS...: only in its network, with the machine's own ip.
ip_in() {
  local pid
  pid=$(space_pid "$1") || die "the space $1 does not run"
  shift
  nsenter -t "$pid" --net ip "$@"
}

# Another bed, or a network that happens to use these addresses: neither must be disturbed.
check_net() {
  local net taken
  ! ip link show "$HOST_LINK" >/dev/null 2>&1 ||
    die "interface $HOST_LINK exists: the test bed kept in $(link_owner) has it; choose another name with QUORATE_KUBE_LINK"
  for net in "$NODE_NET.0/24" "$POD_NET.0.0/16" "$SERVICE_NET.0.0/16"; do
    taken=$({ ip -4 route show root "$net"; ip -4 route show match "$net"; } | grep -v '^default' || true)
    [[ -z "$taken" ]] || die "$net is routed elsewhere already ($taken); set QUORATE_KUBE_{NODE,POD,SERVICE}_NET to free ranges"
  done
}

wire_control() {
  local pid
  pid=$(space_pid control)
  ip link add "$HOST_LINK" type veth peer name up0 netns "$pid"
  ip link set "$HOST_LINK" alias "$DIR"
  ip address add "$HOST_ADDRESS/24" dev "$HOST_LINK"
  ip link set "$HOST_LINK" up
  ip_in control link add br0 type bridge
  ip_in control link set up0 master br0
  ip_in control address add "$CONTROL_ADDRESS/24" dev br0
  ip_in control link set up0 up
  ip_in control link set br0 up
  ip_in control route add default via "$HOST_ADDRESS"
  route_pods 0 ip
  route_pods 0 ip_in control
  route_services ip
  route_services ip_in control
}

# After wire_control.
wire_node() {
  local number=$1 name pid
  name=$(node_name "$number")
  pid=$(space_pid "$name")
  # Of a node that was killed, its end of the wire may still be there.
  ip_in control link delete "$name" 2>/dev/null || true
  ip_in control link add "$name" type veth peer name eth0 netns "$pid"
  ip_in control link set "$name" master br0 up
  ip_in "$name" address add "$(node_address "$number")/24" dev eth0
  ip_in "$name" link set eth0 up
  ip_in "$name" route add default via "$HOST_ADDRESS"
  nsenter -t "$pid" --net --mount bash -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
  route_pods "$number" ip_in "$name"
}

# route_pods EXCEPT IP...: the way to every node's pods but those of node EXCEPT.
route_pods() {
  local except=$1 number
  for ((number = 1; number <= NODES; number++)); do
    ((number == except)) || "${@:2}" route add "$(node_pods "$number")" via "$(node_address "$number")"
  done
}

# Services are routed to the first node: kube-proxy runs on nodes only.
route_services() { "$@" route add "$SERVICE_NET.0.0/16" via "$(node_address 1)"; }

# The state directory of the bed the interface belongs to.
link_owner() { { ip link show "$HOST_LINK" 2>/dev/null || true; } | sed -n 's/^ *alias //p'; }

# It goes with the control plane's network anyway, a moment after its last process.
unwire() {
  [[ "$(link_owner)" != "$DIR" ]] || ip link delete "$HOST_LINK" 2>/dev/null || true
}
