# shellcheck shell=bash disable=SC2034,SC2154  # variables of the other files that scripts/control-plane sources
# Sourced: one real node (kubelet, containerd, kube-proxy, CoreDNS) in the control plane's namespaces, so that pods are
# real processes. It has namespaces of its own inside them, and its own cgroups, so all of it goes at once.
NODE=real-0
NODE_GPUS=8  # claimed, so that quotas have something to count: pods get no device
n=$state/node

node_user() { # NAME SUBJECT
  certificate "$1" "$2"
  kubeconfig "$pki/$1.kubeconfig" "$1" https://10.255.0.1:6443
}

write_node_files() {
  local file
  mkdir -p "$n"/{cni.d,containerd,kubelet,cgroup}
  rm -f "$n/ready"
  node_user "node-$NODE" "/O=system:nodes/CN=system:node:$NODE"
  node_user kube-proxy /CN=system:kube-proxy
  node_user coredns /CN=coredns
  for file in containerd.toml kubelet.yaml kube-proxy.yaml Corefile; do
    sed -e "s|@NODE@|$n|g" -e "s|@BIN@|$NODE_BIN|g" -e "s|@PKI@|$pki|g" -e "s|@RUNC@|$(command -v runc)|g" \
      -e "s|@NAME@|$NODE|g" "$config/node/$file" >"$n/$file"
  done
  cp "$config/node/10-pods.conflist" "$n/cni.d/"
  apply "$config/node/dns-rbac.yaml"
}

# A cgroup of the node's own in each hierarchy, below the one this script runs in: counted and removed together.
make_cgroups() {
  local controllers path parent folder file
  : >"$n/cgroups.part"
  while IFS=: read -r _ controllers path; do
    parent=/sys/fs/cgroup/${controllers#name=}${path%/}
    if [ -z "$controllers" ] || [ ! -d "$parent" ]; then continue; fi
    folder=$parent/airflow-provider-siflow-$(holder_pid)
    mkdir -p "$folder"
    echo "$folder" >>"$n/cgroups.part"
    [ "$controllers" != cpuset ] || for file in cpus mems; do
      cat "$parent/cpuset.$file" >"$folder/cpuset.$file"
    done
  done </proc/self/cgroup
  grep -q /memory "$n/cgroups.part" || die "the real node needs the cgroup hierarchies of version 1 in /sys/fs/cgroup \
(memory, cpu, ...), and this machine has none; start without --real-node"
  mv "$n/cgroups.part" "$n/cgroups"
}

start_node() {
  write_node_files
  make_cgroups
  # enters the cgroups first, then everything else
  # shellcheck disable=SC2016  # expanded when it runs
  printf 'while read -r folder; do echo $$ >"$folder/cgroup.procs"; done <%q\nexec unshare %s -- bash %q %q %q %q' \
    "$n/cgroups" "--mount --pid --cgroup --uts --ipc --fork --kill-child --propagation private" \
    "$ROOT/tests/control_plane/running/node_init.sh" "$n" "$NODE_BIN" "$NODE" >"$state/run/node"
  start_again node
}

in_node() { # COMMAND...
  local outer
  outer=$(part_pid node) && nsenter --target "$(only_child "$outer")" --net --mount --pid --uts --ipc --cgroup -- "$@"
}

ctr() { in_node "$NODE_BIN/ctr" -a /run/containerd/containerd.sock "$@"; }
node_is_there() { "$KUBECTL" get node "$NODE"; }
node_is_ready() {
  "$KUBECTL" get node "$NODE" -o json |
    jq -e '.status.conditions[] | select(.type == "Ready") | .status == "True"'
}

import_images() {
  local name
  wait_for 60 "the real node's containerd" ctr version
  for name in $IMAGE_NAMES; do
    ctr -n k8s.io images import --local "$IMAGES/$name.tar" >>"$state/log/node.log" 2>&1
    mark "image $name"
  done
}

# admit_node: wait until the node takes pods. A kubelet that starts takes away amounts that it does not know.
admit_node() {
  local gpus
  wait_for 60 "the real node's containerd" ctr version
  wait_for 60 "the real node in the cluster" node_is_there
  gpus="{\"nvidia.com/gpu\": \"$NODE_GPUS\"}"
  "$KUBECTL" patch node "$NODE" --subresource=status --type=merge \
    -p "{\"status\": {\"capacity\": $gpus, \"allocatable\": $gpus}}" >/dev/null
  wait_for 60 "the real node" node_is_ready
  wait_for 30 "the cluster's DNS" in_node curl -sf --noproxy '*' --max-time 2 http://127.0.0.1:8181/ready
  wait_for 30 kube-proxy in_node curl -sf --noproxy '*' --max-time 2 http://127.0.0.1:10256/healthz
}
