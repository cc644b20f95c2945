# shellcheck shell=bash disable=SC2034,SC2154  # variables of the other files that scripts/control-plane sources
# Sourced: builds every binary once, one after the other, from modules pinned by go.mod and go.sum. No C compiler.

# build FOLDER PACKAGE OUT [LDFLAGS]: one binary, unless it is there
build() {
  local out=$3 start=$SECONDS
  if [ -x "$out" ]; then return 0; fi
  say "building $(basename "$out")"
  mkdir -p "$(dirname "$out")"
  (cd "$modules/$1" && CGO_ENABLED=0 GOFLAGS='-mod=readonly -buildvcs=false' GOTOOLCHAIN=local \
    nice go build -trimpath -ldflags "-s -w ${4:-}" -o "$out.part" "$2" 2> >(grep -v '^go: downloading' >&2))
  mv "$out.part" "$out"
  printf '    %s s\n' "$((SECONDS - start))"
}

kubernetes() { # COMMAND OUT
  local version=k8s.io/component-base/version
  build kubernetes "k8s.io/kubernetes/cmd/$1" "$2" "-X $version.gitVersion=$K8S_VERSION -X $version.gitMajor=1 \
    -X $version.gitMinor=$(cut -d. -f2 <<<"$K8S_VERSION")"
}

build_control_plane() {
  local name
  build etcd go.etcd.io/etcd/server/v3 "$BIN/etcd-$ETCD_VERSION"
  for name in kube-apiserver kube-controller-manager kube-scheduler; do kubernetes $name "$BIN/$name-$K8S_VERSION"; done
  case $KUBECTL in "$BIN"/*) kubernetes kubectl "$KUBECTL" ;; esac
  build kwok sigs.k8s.io/kwok/cmd/kwok "$BIN/kwok-$KWOK_VERSION"
  build training-operator github.com/kubeflow/training-operator/cmd/training-operator.v1 \
    "$BIN/training-operator-$TRAINING_VERSION"
  build kuberay github.com/ray-project/kuberay/ray-operator "$BIN/kuberay-$KUBERAY_VERSION"
  build kueue sigs.k8s.io/kueue/cmd/kueue "$BIN/kueue-$KUEUE_VERSION"
}

build_node() {
  local name plugins=github.com/containernetworking/plugins/plugins containerd=github.com/containerd/containerd/v2
  for name in kubelet kube-proxy; do kubernetes $name "$NODE_BIN/$name"; done
  for name in main/bridge main/loopback ipam/host-local meta/portmap; do
    build cni $plugins/$name "$NODE_BIN/cni/${name#*/}"
  done
  build coredns . "$NODE_BIN/coredns"
  for name in containerd ctr containerd-shim-runc-v2; do
    build containerd $containerd/cmd/$name "$NODE_BIN/$name" "-X $containerd/version.Version=$CONTAINERD_VERSION"
  done
  for name in pause wait-for-name; do build tools ./$name "$NODE_BIN/$name"; done
}

module_folder() { (cd "$modules/$1" && GOTOOLCHAIN=local go mod download -json "$2" | jq -r .Dir); }

# render OUT MODULES-FOLDER MODULE FOLDERS LEFT-OUT [NAMESPACE]: the module's own manifests, less what only a cluster
# whose controllers are pods needs. LEFT-OUT: words KIND or KIND/NAME-PATTERN. Services lose their selectors:
# config/endpoints.yaml says where the controllers are.
render() {
  local out=$1 folder word name
  if [ -s "$out" ]; then return 0; fi
  say "rendering $(basename "$out")"
  folder=$(mktemp -d)
  ln -s "$(module_folder "$2" "$3")" "$folder/module"
  {
    echo 'resources:'
    for word in $4; do echo "- module/$word"; done
    [ -z "${6:-}" ] || echo "namespace: $6"
    echo 'patches:'
    for word in $5; do
      name='.*'
      case $word in */*) name=${word#*/} ;; esac
      printf -- '- target: {kind: %s, name: "%s"}\n' "${word%%/*}" "$name"
      # shellcheck disable=SC2016  # $patch is kustomize's own word
      printf '  patch: |\n    $patch: delete\n    kind: %s\n    metadata: {name: any}\n' "${word%%/*}"
    done
    printf -- '- target: {kind: Service}\n  patch: |\n    - {op: remove, path: /spec/selector}\n'
  } >"$folder/kustomization.yaml"
  "$KUBECTL" kustomize "$folder" >"$out.part"
  mv "$out.part" "$out"
  rm -r "$folder"
}

render_manifests() {
  local folder out="$BIN/kwok-nodes-$KWOK_VERSION.yaml"
  # of training-operator's kinds only PyTorchJob: the other five CRDs (40,000 lines) would make each start slower
  render "$BIN/training-operator-$TRAINING_VERSION.yaml" training-operator github.com/kubeflow/training-operator \
    manifests/overlays/standalone "Deployment Secret CustomResourceDefinition/(jax|mpi|paddle|tf|xgboost)jobs.*"
  render "$BIN/kuberay-$KUBERAY_VERSION.yaml" kuberay github.com/ray-project/kuberay/ray-operator \
    config/default-with-webhooks "Deployment Certificate Issuer"
  render "$BIN/kueue-$KUEUE_VERSION.yaml" kueue sigs.k8s.io/kueue config/default "Deployment Secret"
  if [ -s "$out" ]; then return 0; fi
  folder=$(module_folder kwok sigs.k8s.io/kwok)/kustomize/stage/node
  { "$KUBECTL" kustomize "$folder/fast"; echo ---; "$KUBECTL" kustomize "$folder/heartbeat-with-lease"; } >"$out.part"
  mv "$out.part" "$out"
}

build_trainer() {
  local base=manifests/base
  build trainer github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager "$BIN/trainer-$TRAINER_VERSION"
  build jobset sigs.k8s.io/jobset "$BIN/jobset-$JOBSET_VERSION"
  # its own overlay would fetch JobSet's manifests from elsewhere
  render "$BIN/trainer-$TRAINER_VERSION.yaml" trainer github.com/kubeflow/trainer/v2 \
    "$base/crds $base/manager $base/rbac $base/webhook" "Deployment ConfigMap" kubeflow-system
  render "$BIN/jobset-$JOBSET_VERSION.yaml" jobset sigs.k8s.io/jobset config/default "Deployment Secret ConfigMap"
}

all_there() { # FOLDER FILE...
  local folder=$1 file
  shift
  for file in "$@"; do [ -s "$folder/$file" ] || return 1; done
}

control_plane_is_built() {
  all_there "$BIN" etcd-"$ETCD_VERSION" kube-{apiserver,controller-manager,scheduler}-"$K8S_VERSION" \
    kwok-"$KWOK_VERSION" kwok-nodes-"$KWOK_VERSION.yaml" training-operator-"$TRAINING_VERSION"{,.yaml} \
    kuberay-"$KUBERAY_VERSION"{,.yaml} kueue-"$KUEUE_VERSION"{,.yaml} && [ -x "$KUBECTL" ]
}

node_is_built() {
  all_there "$NODE_BIN" kubelet kube-proxy cni/{bridge,loopback,host-local,portmap} coredns containerd ctr \
    containerd-shim-runc-v2 pause wait-for-name
}

trainer_is_built() {
  all_there "$BIN" trainer-"$TRAINER_VERSION"{,.yaml} jobset-"$JOBSET_VERSION"{,.yaml}
}

# build_missing REAL_NODE TRAINER: build what is missing ("yes": of these too), one build at a time on the whole machine
build_missing() {
  mkdir -p "$BIN" "$NODE_BIN"
  find_kubectl
  exec {building}>"$BIN/.lock"
  flock "$building"
  if ! control_plane_is_built; then
    say "building the control plane into $BIN (the first time: about 15 minutes on 2 cores)"
    find_go
    build_control_plane
    render_manifests
  fi
  if [ "$2" = yes ] && ! trainer_is_built; then
    say "building Kubeflow Trainer and JobSet into $BIN"
    find_go
    build_trainer
  fi
  if [ "$1" = yes ]; then
    if ! node_is_built; then
      say "building the real node into $NODE_BIN (the first time: about 4 minutes on 2 cores)"
      find_go
      build_node
    fi
    build_images
  fi
  exec {building}>&-
}
