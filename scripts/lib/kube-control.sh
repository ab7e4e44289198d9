# shellcheck shell=bash
# The control plane, in the space `control`: etcd, API server, controller manager, scheduler, cluster DNS.

# Its contents are thrown away with the cluster, so it need not wait for the disk.
start_etcd() {
  daemon_in control "$(home_of "$KUBE_ETCD")/etcd" --name bed --data-dir "$DIR/control/etcd" --unsafe-no-fsync \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
    --initial-cluster bed=http://127.0.0.1:2380 --log-level warn
}

# OwnerReferencesPermissionEnforcement is off by default, and on where people share a cluster with care.
start_apiserver() {
  daemon_in control kube-apiserver \
    --etcd-servers http://127.0.0.1:2379 \
    --bind-address 0.0.0.0 --secure-port 6443 --advertise-address "$CONTROL_ADDRESS" \
    --service-cluster-ip-range "$SERVICE_NET.0.0/16" \
    --tls-cert-file "$PKI/apiserver.crt" --tls-private-key-file "$PKI/apiserver.key" \
    --client-ca-file "$PKI/ca.crt" \
    --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction,OwnerReferencesPermissionEnforcement --allow-privileged \
    --service-account-issuer https://kubernetes.default.svc.cluster.local \
    --service-account-key-file "$PKI/service-accounts.pub" \
    --service-account-signing-key-file "$PKI/service-accounts.key" \
    --kubelet-client-certificate "$PKI/apiserver-kubelet.crt" --kubelet-client-key "$PKI/apiserver-kubelet.key" \
    --kubelet-preferred-address-types InternalIP \
    --requestheader-client-ca-file "$PKI/ca.crt" --requestheader-allowed-names front-proxy \
    --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
    --requestheader-extra-headers-prefix X-Remote-Extra- \
    --proxy-client-cert-file "$PKI/front-proxy.crt" --proxy-client-key-file "$PKI/front-proxy.key" \
    --enable-aggregator-routing \
    --default-not-ready-toleration-seconds 30 --default-unreachable-toleration-seconds 30
}

# Leaves out controllers that nothing here needs: autoscaling, scheduled jobs, certificate requests, node address ranges.
start_controller_manager() {
  daemon_in control kube-controller-manager \
    --kubeconfig "$PKI/controller-manager.kubeconfig" --leader-elect=false --bind-address 127.0.0.1 \
    --controllers '*,-horizontal-pod-autoscaler-controller,-cronjob-controller,-certificatesigningrequest-signing-controller,-certificatesigningrequest-approving-controller,-certificatesigningrequest-cleaner-controller,-node-ipam-controller,-node-route-controller,-service-lb-controller' \
    --use-service-account-credentials --service-account-private-key-file "$PKI/service-accounts.key" \
    --root-ca-file "$PKI/ca.crt" --client-ca-file "$PKI/ca.crt" \
    --enable-hostpath-provisioner --flex-volume-plugin-dir "$DIR/control/volume-plugins" \
    --node-monitor-period 2s --node-monitor-grace-period 20s \
    --pvclaimbinder-sync-period 5s --attach-detach-reconcile-sync-period 10s --min-resync-period 1h \
    --concurrent-gc-syncs 5 --kube-api-qps 100 --kube-api-burst 200
}

start_scheduler() {
  daemon_in control kube-scheduler --kubeconfig "$PKI/scheduler.kubeconfig" --leader-elect=false --bind-address 127.0.0.1
}

# No answer is kept: a test that moves a pod must not be told its old address.
# Nothing is asked of the world outside: a name that is not the cluster's does not exist.
start_dns() {
  cat >"$DIR/control/Corefile" <<CONF
cluster.local in-addr.arpa {
  bind $CONTROL_ADDRESS
  errors
  ready $CONTROL_ADDRESS:8181
  kubernetes {
    kubeconfig $PKI/dns.kubeconfig
    pods insecure
    ttl 1
  }
}
. {
  bind $CONTROL_ADDRESS
  errors
  template ANY ANY {
    rcode NXDOMAIN
  }
}
CONF
  daemon_in control "$(coredns_home)/coredns" -conf "$DIR/control/Corefile"
}

# For tests that look many times a second: a process of kubectl for each look would take half of the machine.
start_api_socket() {
  rm -f "$DIR/api.sock"
  daemon_in control kubectl --kubeconfig "$KUBECONFIG_PATH" proxy --unix-socket "$DIR/api.sock"
}

api_socket_ready() { curl -fsS -o /dev/null --max-time 2 --unix-socket "$DIR/api.sock" http://localhost/readyz 2>/dev/null; }

api_ready() { kubectl get --raw /readyz >/dev/null 2>&1; }

dns_ready() { curl -fsS -o /dev/null --max-time 2 "http://$CONTROL_ADDRESS:8181/ready" 2>/dev/null; }

# The service account controller makes it in every namespace; pods cannot be made before.
accounts_ready() { kubectl -n default get serviceaccount default >/dev/null 2>&1; }

# What an installer would add: the default class of volumes, and cluster DNS with what it may read.
# The DNS service has no pods: its endpoint is the control plane's space.
apply_addons() {
  kubectl apply -f - >/dev/null <<YAML
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: standard
  annotations: {storageclass.kubernetes.io/is-default-class: "true"}
provisioner: kubernetes.io/host-path
reclaimPolicy: Delete
volumeBindingMode: Immediate
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:coredns"}
rules:
- {apiGroups: [""], resources: [services, pods, namespaces, nodes], verbs: [list, watch, get]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:coredns"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:coredns"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:coredns"}]
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  clusterIP: $DNS_ADDRESS
  ports:
  - {name: dns, port: 53, protocol: UDP}
  - {name: dns-tcp, port: 53, protocol: TCP}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
ports:
- {name: dns, port: 53, protocol: UDP}
- {name: dns-tcp, port: 53, protocol: TCP}
endpoints:
- {addresses: ["$CONTROL_ADDRESS"]}
YAML
}
