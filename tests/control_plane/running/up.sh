# shellcheck shell=bash disable=SC2034,SC2154  # variables of the other files that scripts/control-plane sources
# Sourced: starts a control plane. Set by scripts/control-plane: $state and the options.
config=$ROOT/tests/control_plane/config

# open_namespaces: a private network, mount and pid namespace, held by one process
open_namespaces() {
  mkdir -p /tmp/k8s-webhook-server/serving-certs /visibility # empty mount points
  setsid unshare --net --mount --pid --fork --kill-child --propagation private -- \
    bash "$ROOT/tests/control_plane/running/holder.sh" "$state" "$owner" \
    >"$state/log/holder.log" 2>&1 </dev/null {locked}>&- &
  local outer=$! pid
  disown
  wait_for 10 "the namespaces" test -e "$state/namespaces"
  pid=$(only_child "$outer")
  echo "$pid $(started_at "$pid")" >"$state/holder"
}

start_etcd() {
  start etcd "$BIN/etcd-$ETCD_VERSION" --data-dir "$state/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380
  wait_for 60 etcd url_ok http://127.0.0.1:2379/health
  mark etcd
}

# A lost node is noticed, and its pods are evicted, after seconds instead of minutes; else as on any cluster.
start_api_server() {
  start kube-apiserver "$BIN/kube-apiserver-$K8S_VERSION" --etcd-servers=http://127.0.0.1:2379 --secure-port=6443 \
    --bind-address=0.0.0.0 --advertise-address=10.255.0.1 --tls-cert-file="$pki/server.crt" \
    --tls-private-key-file="$pki/server.key" --client-ca-file="$pki/ca.crt" \
    --service-account-key-file="$pki/sa.key" --service-account-signing-key-file="$pki/sa.key" \
    --service-account-issuer=https://kubernetes.default.svc --service-cluster-ip-range=10.96.0.0/16 \
    --authorization-mode=Node,RBAC --kubelet-preferred-address-types=InternalIP --allow-privileged=true \
    --kubelet-client-certificate="$pki/kubelet-client.crt" --kubelet-client-key="$pki/kubelet-client.key" \
    --requestheader-client-ca-file="$pki/ca.crt" --requestheader-allowed-names=front-proxy-client \
    --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
    --requestheader-extra-headers-prefix=X-Remote-Extra- --proxy-client-cert-file="$pki/front-proxy.crt" \
    --proxy-client-key-file="$pki/front-proxy.key" --enable-aggregator-routing=true --profiling=false \
    --audit-policy-file="$config/audit.yaml" --audit-log-path="$state/audit.log" --audit-log-maxsize=2000 \
    --default-not-ready-toleration-seconds=15 --default-unreachable-toleration-seconds=15
  wait_for 120 kube-apiserver url_ok https://127.0.0.1:6443/readyz
  mark kube-apiserver
}

start_forward() {
  start forward "$(find_python)" -u "$ROOT/tests/control_plane/fakes/forward.py" "/proc/$(holder_pid)/ns/net" \
    "$port" 6443 "$state/port"
  wait_for 20 "the port for clients" test -s "$state/port"
  kubeconfig "$state/kubeconfig" admin "https://127.0.0.1:$(cat "$state/port")"
}

apply() { "$KUBECTL" apply --server-side --force-conflicts --validate=false -f "$1" >>"$state/log/apply.log"; }

webhook_secret() { # NAMESPACE NAME
  "$KUBECTL" create secret generic "$2" -n "$1" --dry-run=client -o yaml --from-file=ca.crt="$pki/ca.crt" \
    --from-file=ca.key="$pki/ca.key" --from-file=tls.crt="$pki/server.crt" --from-file=tls.key="$pki/server.key" |
    apply -
}

endpoints() { # NAMESPACE
  "$KUBECTL" create --dry-run=client -o json -f "$config/endpoints.yaml" |
    jq -c --arg ns "$1" 'select(.metadata.namespace == $ns)' | apply -
}

apply_training() { if [ "$trainer" = yes ]; then apply_trainer; else apply_training_operator; fi; }

apply_training_operator() {
  apply "$BIN/training-operator-$TRAINING_VERSION.yaml"
  webhook_secret kubeflow training-operator-webhook-cert
  endpoints kubeflow
}

apply_kuberay() {
  apply "$BIN/kuberay-$KUBERAY_VERSION.yaml"
  endpoints ray-system
  # its manifests name three webhooks, its binary serves RayCluster's only: with all three every RayJob is refused
  "$KUBECTL" get validatingwebhookconfiguration kuberay-validating-webhook-configuration -o json |
    jq --arg ca "$(base64 -w0 "$pki/ca.crt")" \
      '.webhooks |= [.[] | select(.name == "vraycluster.kb.io") | .clientConfig.caBundle = $ca]' |
    "$KUBECTL" replace -f - >>"$state/log/apply.log"
}

apply_kueue() {
  apply "$BIN/kueue-$KUEUE_VERSION.yaml"
  webhook_secret kueue-system kueue-webhook-server-cert
  endpoints kueue-system
}

# Before the controller manager starts: its garbage collector looks for new kinds only every 30 s.
apply_manifests() {
  local part pids=()
  for part in apply_training apply_kuberay apply_kueue; do
    $part {locked}>&- &
    pids+=($!)
  done
  for part in "${pids[@]}"; do wait "$part"; done
  # what a copy of the data has not established yet, an API server that starts with it never serves
  "$KUBECTL" wait --for=condition=Established crd --all --timeout=120s >>"$state/log/apply.log"
  mark "manifests of the operators"
}

start_controllers() {
  start kube-controller-manager "$BIN/kube-controller-manager-$K8S_VERSION" --kubeconfig="$pki/kcm.kubeconfig" \
    --leader-elect=false --bind-address=127.0.0.1 --use-service-account-credentials=true \
    --service-account-private-key-file="$pki/sa.key" --root-ca-file="$pki/ca.crt" --allocate-node-cidrs=true \
    --cluster-cidr=10.244.0.0/16 --service-cluster-ip-range=10.96.0.0/16 --profiling=false \
    --node-monitor-grace-period=24s --node-monitor-period=2s
  start kube-scheduler "$BIN/kube-scheduler-$K8S_VERSION" --kubeconfig="$pki/scheduler.kubeconfig" \
    --leader-elect=false --bind-address=127.0.0.1 --profiling=false
}

start_fakes() {
  local number
  start kwok "$BIN/kwok-$KWOK_VERSION" --kubeconfig="$pki/admin.kubeconfig" --manage-all-nodes=false \
    --manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake --node-ip=10.255.0.1 --node-port=10250 \
    --server-address=127.0.0.1:10247 --cidr=10.244.0.0/16 --node-lease-duration-seconds=24 \
    --config="$BIN/kwok-nodes-$KWOK_VERSION.yaml" --config="$config/stages.yaml"
  for name in kubelet ray; do
    start "fake-$name" PKI="$pki" PYTHONPATH="$ROOT" PYTHONDONTWRITEBYTECODE=1 "$(find_python)" -u \
      -m "tests.control_plane.fakes.$name"
  done
  for ((number = 0; number < nodes; number++)); do
    sed "s/NUMBER/$number/g" "$config/node.yaml"
  done >"$state/nodes.yaml"
  if [ -s "$state/nodes.yaml" ]; then apply "$state/nodes.yaml"; fi
}

# Each operator acts as its own service account, so its own RBAC rules hold.
start_training_operator() {
  start training-operator KUBECONFIG="$pki/training-operator.kubeconfig" MY_POD_NAMESPACE=kubeflow \
    "$BIN/training-operator-$TRAINING_VERSION" --webhook-server-port=9444 --metrics-bind-address=127.0.0.1:8090 \
    --health-probe-bind-address=127.0.0.1:8091 --enable-scheme=pytorchjob --pytorch-init-container-image=init:test \
    --pytorch-init-container-template-file="$config/init-container.yaml"
}

start_operators() {
  if [ "$trainer" = yes ]; then start_trainer; else start_training_operator; fi
  start kuberay KUBECONFIG="$pki/kuberay.kubeconfig" ENABLE_WEBHOOKS=true "$BIN/kuberay-$KUBERAY_VERSION" \
    --use-kubernetes-proxy=true --enable-leader-election=false --metrics-addr=127.0.0.1:8092 \
    --health-probe-bind-address=127.0.0.1:8093 --feature-gates=RayClusterStatusConditions=true
  # kueue's visibility server takes its configuration as in a pod only
  "$KUBECTL" create token kueue-controller-manager -n kueue-system --duration=720h >"$pki/kueue.token"
  inside cp "$pki/ca.crt" /run/secrets/kubernetes.io/serviceaccount/ca.crt
  inside cp "$pki/kueue.token" /run/secrets/kubernetes.io/serviceaccount/token
  start kueue KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=6443 "$BIN/kueue-$KUEUE_VERSION" \
    --config="$config/kueue.yaml" --zap-log-level=2 ${elastic:+--feature-gates=ElasticJobsViaWorkloadSlices=true}
}

ready_nodes() { # COUNT
  [ "$("$KUBECTL" get nodes -o json |
    jq '[.items[] | select(.status.conditions[]? | .type == "Ready" and .status == "True")] | length')" -ge "$1" ]
}

wait_until_ready() {
  wait_for 60 kube-controller-manager url_ok https://127.0.0.1:10257/healthz
  wait_for 60 kube-scheduler url_ok https://127.0.0.1:10259/readyz
  wait_for 60 "the default service account" "$KUBECTL" get serviceaccount default
  wait_for 20 "the fake kubelet" url_ok https://127.0.0.1:10250/healthz
  wait_for 60 "the fake nodes" ready_nodes "$nodes"
  mark "fake nodes"
  if [ "$trainer" = yes ]; then
    wait_for_trainer
  else
    wait_for 90 training-operator url_ok http://127.0.0.1:8091/readyz
  fi
  wait_for 90 kuberay url_ok http://127.0.0.1:8093/readyz
  wait_for 60 "kuberay's webhook" inside curl -sk --noproxy '*' https://127.0.0.1:9443/
  wait_for 120 kueue url_ok http://127.0.0.1:8081/readyz
  wait_for 60 "kueue's visibility API" "$KUBECTL" get --raw /apis/visibility.kueue.x-k8s.io/v1beta2
  mark operators
}

# What takes longest is the same each time: a new control plane begins as a copy of the first one's data, kept at the
# moment when the operators' manifests were in it. A changed manifest, version or script makes a new first one.
find_template() {
  local parts
  parts=$(cd "$ROOT/tests/control_plane" && sha256sum running/*.sh config/*.yaml binaries/*.sh binaries/modules/*/go.mod)
  parts=$(sha256sum <<<"$parts $trainer")
  template=$CACHE/begun-${parts:0:12}
}

keep_template() {
  local part=$template-$$
  [ ! -d "$template" ] || return 0
  find "$CACHE" -maxdepth 1 -name 'begun-*' -mtime +7 -exec rm -rf {} +
  kill -STOP "$(part_pid etcd)"  # its files hold still
  cp -a "$state/etcd" "$state/pki" --target-directory="$(mkdir -p "$part" && echo "$part")"
  resume etcd
  mv --no-target-directory "$part" "$template" 2>/dev/null || rm -rf "$part"  # another start was first
}

# begin_data: what a new control plane starts with; one that was begun by another version is begun anew. Sets $empty.
begin_data() {
  empty=no
  find_template
  if [ "$(cat "$state/begun" 2>/dev/null)" = "$template" ]; then return 0; fi
  rm -rf "$state"/{begun,etcd,node,audit.log} "$pki"
  if [ -d "$template" ]; then cp -a "$template"/{etcd,pki} "$state/"; else empty=yes; fi
}

bring_up() {
  mkdir -p "$state"/{pid,run,log,visibility}
  chmod 700 "$state"
  rm -f "$state"/{pid,run}/* "$state"/{ready,namespaces,holder,nodes.yaml}
  pki=$state/pki
  begin_data
  mkdir -p "$pki" "$state/etcd"
  make_certificates
  open_namespaces
  start_etcd
  start_api_server
  start_forward
  export KUBECONFIG=$state/kubeconfig
  if [ "$empty" = yes ]; then
    apply_manifests
    keep_template
  fi
  echo "$template" >"$state/begun"
  start_controllers
  start_fakes
  start_operators
  if [ "$real_node" = yes ]; then start_node; fi
  wait_until_ready
  if [ "$real_node" = yes ]; then
    import_images
    admit_node
    mark "real node"
  fi
  touch "$state/ready"
}
