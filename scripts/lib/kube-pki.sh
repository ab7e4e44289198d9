# shellcheck shell=bash
# Certificates and kubeconfigs of the test cluster: made anew by each `up`, valid for a month, never leaving $DIR/pki.

new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

make_ca() {
  new_key "$PKI/ca.key"
  openssl req -x509 -new -key "$PKI/ca.key" -subj '/CN=quorate-test-bed' -days 30 -out "$PKI/ca.crt" \
    -addext 'basicConstraints=critical,CA:TRUE' -addext 'keyUsage=critical,keyCertSign,cRLSign'
}

# make_cert NAME SUBJECT [SUBJECT-ALTERNATIVE-NAMES]
make_cert() {
  local name=$1 subject=$2 names=${3:-}
  new_key "$PKI/$name.key"
  openssl req -new -key "$PKI/$name.key" -subj "$subject" -out "$PKI/$name.csr"
  {
    printf 'basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=clientAuth,serverAuth\n'
    [[ -z "$names" ]] || printf 'subjectAltName=%s\n' "$names"
  } >"$PKI/$name.ext"
  openssl x509 -req -in "$PKI/$name.csr" -CA "$PKI/ca.crt" -CAkey "$PKI/ca.key" -set_serial "0x$(openssl rand -hex 8)" \
    -days 30 -extfile "$PKI/$name.ext" -out "$PKI/$name.crt" 2>/dev/null
  rm "$PKI/$name.csr" "$PKI/$name.ext"
}

# make_kubeconfig NAME SUBJECT: everything inline, so that the file can be copied.
make_kubeconfig() {
  local name=$1
  make_cert "$name" "$2"
  (umask 077 && cat >"$PKI/$name.kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters:
- name: bed
  cluster:
    server: https://$CONTROL_ADDRESS:6443
    certificate-authority-data: $(base64 -w0 "$PKI/ca.crt")
users:
- name: $name
  user:
    client-certificate-data: $(base64 -w0 "$PKI/$name.crt")
    client-key-data: $(base64 -w0 "$PKI/$name.key")
contexts:
- name: bed
  context: {cluster: bed, user: $name}
current-context: bed
YAML
  )
}

make_pki() {
  local number
  mkdir -p -m 700 "$PKI"
  make_ca
  new_key "$PKI/service-accounts.key"
  openssl ec -in "$PKI/service-accounts.key" -pubout -out "$PKI/service-accounts.pub" 2>/dev/null
  make_cert apiserver /CN=kube-apiserver \
    "IP:$CONTROL_ADDRESS,IP:$KUBERNETES_ADDRESS,IP:127.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
  make_cert apiserver-kubelet /O=system:masters/CN=kube-apiserver-kubelet-client
  make_cert front-proxy /CN=front-proxy
  make_kubeconfig admin /O=system:masters/CN=admin
  make_kubeconfig controller-manager /CN=system:kube-controller-manager
  make_kubeconfig scheduler /CN=system:kube-scheduler
  make_kubeconfig proxy /CN=system:kube-proxy
  make_kubeconfig dns /CN=system:coredns
  for ((number = 1; number <= NODES; number++)); do
    make_kubeconfig "$(node_name "$number")" "/O=system:nodes/CN=system:node:$(node_name "$number")"
  done
  cp "$PKI/admin.kubeconfig" "$KUBECONFIG_PATH"
}
