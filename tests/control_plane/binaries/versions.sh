# shellcheck shell=bash disable=SC2034,SC2154  # variables of the other files that scripts/control-plane sources
# Sourced: where the binaries are, and their versions (read from the pinned modules, so that they are written once).
modules=$ROOT/tests/control_plane/binaries/modules
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/airflow-provider-siflow/control-plane

# version_in FOLDER MODULE: print the version that modules/FOLDER/go.mod pins
version_in() {
  awk -v module="$2" '$1 == module && $2 ~ /^v/ {print $2; exit} $1 == "require" && $2 == module {print $3; exit}' \
    "$modules/$1/go.mod"
}

K8S_VERSION=$(version_in kubernetes k8s.io/kubernetes)
ETCD_VERSION=$(version_in etcd go.etcd.io/etcd/server/v3)
KWOK_VERSION=$(version_in kwok sigs.k8s.io/kwok)
TRAINING_VERSION=$(version_in training-operator github.com/kubeflow/training-operator)
KUBERAY_VERSION=$(version_in kuberay github.com/ray-project/kuberay/ray-operator)
KUEUE_VERSION=$(version_in kueue sigs.k8s.io/kueue)
TRAINER_VERSION=$(version_in trainer github.com/kubeflow/trainer/v2)
JOBSET_VERSION=$(version_in jobset sigs.k8s.io/jobset)
CONTAINERD_VERSION=$(version_in containerd github.com/containerd/containerd/v2)
CNI_VERSION=$(version_in cni github.com/containernetworking/plugins)
COREDNS_VERSION=$(version_in coredns github.com/coredns/coredns)
# in the images, the same as in the tests' own environment
RAY_VERSION=$(sed -n 's/^ray==//p' "$ROOT/requirements/lock.txt")
PY_SPY_VERSION=$(sed -n 's/^py-spy==//p' "$ROOT/requirements/lock.txt")

BIN=${CONTROL_PLANE_BIN:-$CACHE/bin}
NODE_CACHE=${REAL_NODE_CACHE:-$CACHE/real-node}
NODE_BIN=$NODE_CACHE/bin-$K8S_VERSION-$CONTAINERD_VERSION-$CNI_VERSION-$COREDNS_VERSION

# what goes into the images decides their folder: a changed recipe makes new ones, and leaves a running node its own
recipe=$(cd "$ROOT/tests/control_plane/binaries" && sha256sum images.sh layer.sh image.py)
recipe=$(sha256sum <<<"$recipe $RAY_VERSION $PY_SPY_VERSION")
IMAGES=$NODE_CACHE/images-${recipe:0:12}
