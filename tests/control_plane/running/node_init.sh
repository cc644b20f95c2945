#!/usr/bin/env bash
# node_init.sh FOLDER BINARIES NAME: process 1 of the real node, in its own namespaces. If any part ends, the node ends.
set -euo pipefail
n=$1 bin=$2 name=$3
log=$n/../log
export PATH=$bin:/usr/sbin:/usr/bin:/sbin:/bin
unset KUBECONFIG HTTP_PROXY HTTPS_PROXY http_proxy https_proxy
hostname "$name"
mount --make-rshared /
mount -t proc proc /proc
# The kubelet sets these, which are the whole machine's, or does not start: show it files with the values it wants.
mkdir -p "$n/sysctl"
while read -r key value; do
  echo "$value" >"$n/sysctl/${key//\//.}"
  mount --bind "$n/sysctl/${key//\//.}" "/proc/sys/$key"
done <<<'vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000'
mapfile -t hierarchies < <(sed -nE 's/^[0-9]+:(name=)?([^:]+):.*/\1\2/p' /proc/self/cgroup)
mount -t tmpfs tmpfs /sys/fs/cgroup
for hierarchy in "${hierarchies[@]}"; do
  mkdir "/sys/fs/cgroup/${hierarchy#name=}"
  mount -t cgroup -o "$hierarchy" cgroup "/sys/fs/cgroup/${hierarchy#name=}"
done
mount -t tmpfs tmpfs /run
mount -t mqueue mqueue /dev/mqueue 2>/dev/null || true # POSIX queues are missing on some kernels; no test uses them
mkdir -p /var/lib/kubelet /var/lib/cni
mount -t tmpfs tmpfs /var/lib/cni
mount -t tmpfs tmpfs /var/log
mkdir -p /var/log/pods /var/log/containers
mount --bind "$n/kubelet" /var/lib/kubelet
echo 1 >/proc/sys/net/ipv4/ip_forward
containerd --config "$n/containerd.toml" >"$log/containerd.log" 2>&1 &
coredns -conf "$n/Corefile" >"$log/coredns.log" 2>&1 &
kube-proxy --config="$n/kube-proxy.yaml" >"$log/kube-proxy.log" 2>&1 &
until [ -S /run/containerd/containerd.sock ]; do sleep 0.1; done
kubelet --config="$n/kubelet.yaml" --kubeconfig="$n/../pki/node-$name.kubeconfig" --hostname-override="$name" \
  --node-ip=10.255.0.1 --node-labels=type=real --v=2 >"$log/kubelet.log" 2>&1 &
echo up >"$n/ready"
wait -n && code=0 || code=$?
echo "a part of the node ended with code $code, so the node ends"
