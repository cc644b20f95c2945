# shellcheck shell=bash disable=SC2034,SC2154  # variables of the other files that scripts/control-plane sources
# Sourced: certificates and kubeconfigs of one control plane, in $pki.

# certificate NAME SUBJECT [EXTENSION [USAGE]]
certificate() {
  if [ -e "$pki/$1.crt" ]; then return 0; fi
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$pki/$1.key" -out "$pki/$1.csr" \
    -subj "$2" 2>>"$state/log/openssl.log"
  printf '%s\n' keyUsage=digitalSignature "extendedKeyUsage=${4:-clientAuth}" ${3:+"$3"} >"$pki/$1.ext"
  openssl x509 -req -in "$pki/$1.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -days 3650 \
    -out "$pki/$1.crt.part" -extfile "$pki/$1.ext" 2>>"$state/log/openssl.log"
  mv "$pki/$1.crt.part" "$pki/$1.crt"
}

# kubeconfig FILE CERTIFICATE SERVER
kubeconfig() {
  jq -n --arg server "$3" --arg ca "$(base64 -w0 "$pki/ca.crt")" --arg cert "$(base64 -w0 "$pki/$2.crt")" \
    --arg key "$(base64 -w0 "$pki/$2.key")" '{
      apiVersion: "v1", kind: "Config", "current-context": "test",
      clusters: [{name: "test", cluster: {server: $server, "certificate-authority-data": $ca}}],
      users: [{name: "test", user: {"client-certificate-data": $cert, "client-key-data": $key}}],
      contexts: [{name: "test", context: {cluster: "test", user: "test", namespace: "default"}}]}' >"$1.part"
  mv "$1.part" "$1"
}

make_certificates() {
  local names user
  # the controllers' certificate rotators want a PKCS#1 RSA key, and their own name in the CA
  if [ ! -e "$pki/ca.crt" ]; then
    {
      openssl genrsa -traditional -out "$pki/ca.key" 2048
      openssl genrsa -out "$pki/sa.key" 2048
    } 2>>"$state/log/openssl.log"
    openssl req -x509 -key "$pki/ca.key" -out "$pki/ca.crt.part" -days 3650 -subj /CN=test-control-plane \
      -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature \
      -addext subjectAltName=DNS:kueue-ca,DNS:training-operator-ca,DNS:kubeflow-trainer-ca,DNS:jobset-ca \
      2>>"$state/log/openssl.log"
    mv "$pki/ca.crt.part" "$pki/ca.crt"
  fi
  names=IP:127.0.0.1,IP:10.255.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default
  names+=,DNS:kubernetes.default.svc,DNS:kueue-webhook-service.kueue-system.svc,DNS:training-operator.kubeflow.svc
  names+=,DNS:kuberay-webhook-service.ray-system.svc,DNS:jobset-webhook-service.jobset-system.svc
  names+=,DNS:kubeflow-trainer-controller-manager.kubeflow-system.svc
  certificate server /CN=control-plane "subjectAltName=$names" serverAuth
  certificate admin /O=system:masters/CN=admin
  certificate kubelet-client /O=system:masters/CN=kubelet-client
  certificate front-proxy /CN=front-proxy-client
  certificate kcm /CN=system:kube-controller-manager
  certificate scheduler /CN=system:kube-scheduler
  # these are who their service accounts are, so their real RBAC rules hold; kueue gets a token, as in a pod
  certificate training-operator /O=system:serviceaccounts/CN=system:serviceaccount:kubeflow:training-operator
  certificate kuberay /O=system:serviceaccounts/CN=system:serviceaccount:ray-system:kuberay-operator
  for user in admin kcm scheduler training-operator kuberay; do
    kubeconfig "$pki/$user.kubeconfig" "$user" https://127.0.0.1:6443
  done
  mkdir -p "$pki/webhook"
  cp "$pki/ca.crt" "$pki/webhook/ca.crt"
  cp "$pki/server.crt" "$pki/webhook/tls.crt"
  cp "$pki/server.key" "$pki/webhook/tls.key"
}
