# shellcheck shell=bash
# `scripts/kube smoke`: what tests rely on, shown with real pods in a namespace that is removed again.

SMOKE=quorate-smoke

in_smoke() { kubectl -n "$SMOKE" "$@"; }

# expect SECONDS WHAT COMMAND...: shows how things stand when it does not come true.
expect() {
  local seconds=$1 what=$2
  if wait_until "$seconds" "$what" "${@:3}"; then
    note "ok: $what"
    return
  fi
  in_smoke get pods,persistentvolumeclaims,services,endpointslices -o wide >&2 || true
  in_smoke get events --sort-by .lastTimestamp >&2 || true
  in_smoke logs client --all-containers >&2 || true
  in_smoke logs --selector app=smoke --tail 20 >&2 || true
  die "smoke: not within $seconds s: $what (namespace $SMOKE is left to look at)"
}

smoke() {
  is_running || die "not running; see 'scripts/kube up'"
  SECONDS=0
  remove_smoke
  kubectl create namespace "$SMOKE" >/dev/null
  smoke_member
  smoke_client
  smoke_from_machine
  smoke_access
  smoke_services
  smoke_restart
  remove_smoke
  expect 30 "volumes are deleted with their claims" no_smoke_volume
  note "smoke: all well, in $SECONDS s"
}

# Never ready on purpose: its name must resolve all the same.
smoke_member() {
  expect 20 "a namespace gets its service account" in_smoke_quietly get serviceaccount default
  in_smoke apply -f - >/dev/null <<YAML
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: m-0}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 100Mi}}
---
apiVersion: v1
kind: Service
metadata: {name: m}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {app: smoke}
  ports: [{name: etcd-client, port: 2379}]
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: m-0}
spec:
  selector: {matchLabels: {app: smoke}}
  template:
    metadata: {labels: {app: smoke}}
    spec:
      hostname: m-0
      subdomain: m
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 5
      volumes: [{name: data, persistentVolumeClaim: {claimName: m-0}}]
      containers:
      - name: etcd
        image: quay.io/coreos/etcd:v$KUBE_ETCD
        imagePullPolicy: Never
        command: [/usr/local/bin/etcd, --data-dir=/var/lib/etcd/data,
          "--listen-client-urls=http://0.0.0.0:2379", "--advertise-client-urls=http://m-0.m:2379"]
        readinessProbe: {tcpSocket: {port: 9}}
        resources: {limits: {cpu: 200m, memory: 200Mi}}
        volumeMounts: [{name: data, mountPath: /var/lib/etcd}]
YAML
  expect 30 "the default class gives the claim a volume" smoke_claim_bound
  expect 60 "a ReplicaSet's pod runs etcd" smoke_member_runs
}

# From inside: the short name, the record of the port, the limit of memory, the API server by its Service.
smoke_client() {
  in_smoke apply -f - >/dev/null <<YAML
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: client
    image: $BUSYBOX_IMAGE
    imagePullPolicy: Never
    resources: {limits: {cpu: 500m, memory: 64Mi}}
    command:
    - /bin/sh
    - -c
    - |
      # Not wget -T: with it Debian's busybox crashes.
      until timeout 2 wget -qO /tmp/version http://m-0.m:2379/version; do sleep 1; done
      echo "version: \$(cat /tmp/version)"
      nslookup -type=srv _etcd-client._tcp.m.$SMOKE.svc.cluster.local
      echo "limit: \$(cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null)"
      echo "cpu: \$(cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max 2>/dev/null)"
      nc -w 5 kubernetes.default 443 </dev/null && echo "api: reached"
      nslookup nowhere.invalid || echo "outside: unknown"
      sleep 3600
YAML
  expect 60 "a pod gets /version from m-0.m" client_says "version: .*\"etcdserver\":\"$KUBE_ETCD\""
  expect 10 "the port has an SRV record" client_says "2379 m-0.m.$SMOKE.svc.cluster.local"
  expect 10 "a container's memory limit is set" client_says 'limit: 67108864'
  expect 10 "a container's cpu limit is set" client_says 'cpu: 50000'
  expect 10 "a pod reaches the API server by its Service" client_says 'api: reached'
  expect 20 "a name outside the cluster is refused, not waited for" client_says 'outside: unknown'
  expect 10 "exec works" client_exec_works
  expect 10 "events are visible" smoke_events
}

smoke_from_machine() {
  local ip
  ip=$(in_smoke get pods -l app=smoke -o 'jsonpath={.items[0].status.podIP}')
  expect 10 "the machine reaches a pod's address" curl -fsS -o /dev/null --max-time 2 "http://$ip:2379/version"
  expect 10 "the machine reaches a Service's address" answers_tls "$KUBERNETES_ADDRESS"
}

smoke_access() {
  local token
  token=$(in_smoke create token default)
  expect 10 "a service account may not list secrets" access_refused "$token"
}

# Services outlive kube-proxy's full sync, which is otherwise seen only after an hour.
smoke_services() {
  local number name
  for ((number = 1; number <= NODES; number++)); do
    name=$(node_name "$number")
    expect 10 "$name has the Services, by the names kube-proxy gave them" knows_services "$name"
    restart_proxy "$number"
    expect 30 "kube-proxy of $name did a full sync" proxy_synced "$name"
    knows_services "$name" || die "smoke: a full sync of kube-proxy on $name left these Services: $(service_map "$name")"
    note "ok: $name has the Services after a full sync"
  done
  expect 10 "cluster DNS answers through its Service" dns_answers
}

smoke_restart() {
  local pod
  member_ctl put smoke "$SMOKE" >/dev/null || die "smoke: a key cannot be written"
  pod=$(in_smoke get pods -l app=smoke -o name)
  in_smoke delete "$pod" --wait=true >/dev/null
  expect 60 "a new pod finds the data of the one before" member_has_key
}

in_smoke_quietly() { in_smoke "$@" >/dev/null 2>&1; }

smoke_claim_bound() { [[ "$(in_smoke get persistentvolumeclaim m-0 -o 'jsonpath={.status.phase}')" == Bound ]]; }

smoke_member_runs() { [[ "$(in_smoke get pods -l app=smoke -o 'jsonpath={.items[0].status.phase}' 2>/dev/null)" == Running ]]; }

client_says() { in_smoke logs client 2>/dev/null | grep -q "$1"; }

client_exec_works() { [[ "$(in_smoke exec client -- hostname 2>/dev/null)" == client ]]; }

smoke_events() { in_smoke get events --field-selector involvedObject.kind=Pod,reason=Started -o name 2>/dev/null | grep -q .; }

# Without a client certificate the API server answers, or refuses, all the same.
answers_tls() { [[ "$(curl -s --cacert "$PKI/ca.crt" -o /dev/null -w '%{http_code}' --max-time 2 "https://$1/version")" =~ ^[2-4] ]]; }

# Refused as who it is, so that a token that is not understood at all does not count.
access_refused() {
  curl -s --cacert "$PKI/ca.crt" -H "Authorization: Bearer $1" --max-time 5 \
    "https://$CONTROL_ADDRESS:6443/api/v1/namespaces/$SMOKE/secrets" |
    grep -q "forbidden: User .*system:serviceaccount:$SMOKE:default.* cannot list"
}

member_ctl() { in_smoke exec "$(in_smoke get pods -l app=smoke -o name)" -- etcdctl --command-timeout=3s "$@" 2>/dev/null; }

member_has_key() { [[ "$(member_ctl get smoke --print-value-only)" == "$SMOKE" ]]; }

no_smoke_volume() { ! kubectl get persistentvolumes -o 'jsonpath={.items[*].spec.claimRef.namespace}' | grep -qw "$SMOKE"; }

no_smoke() { ! kubectl get namespace "$SMOKE" >/dev/null 2>&1; }

remove_smoke() {
  kubectl delete namespace "$SMOKE" --ignore-not-found --wait=false >/dev/null
  expect 60 "the namespace is gone" no_smoke
}
