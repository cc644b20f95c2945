#!/usr/bin/env bash
# holder.sh STATE OWNER: process 1 of the control plane's own pid namespace. When it ends, for whatever reason, the
# kernel ends everything else in the namespace: a control plane is never left half there.
#   STATE   its folder; STATE/lock is held by whoever starts it: set free before STATE/ready is there, the start failed
#   OWNER   "" or a file that its owner keeps locked: set free, the owner is gone and so is the control plane
set -euo pipefail
[ $$ = 1 ] || { echo "holder.sh must be process 1 of its own pid namespace: it ends all others" >&2; exit 2; }
state=$1 owner=$2

finish() {
  local folder
  trap '' TERM
  kill -s KILL -- -1 2>/dev/null || true  # every process of the namespace but this one
  if [ -s "$state/node/cgroups" ]; then
    while read -r folder; do
      for _ in {1..50}; do
        find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || true
        [ -d "$folder" ] || break
        sleep 0.1  # the kernel takes a killed process out of its cgroup only when it is reaped
      done
    done <"$state/node/cgroups"
  fi
  rm -f "$state"/{ready,port,node/cgroups,node/ready} "$state"/pid/*
  rm -f "$state/holder"  # the last one: who waits for the end may remove the folder then
  exit 0
}
trap finish TERM

# Every pod and Service address is an address of this network namespace, so what calls a fake pod's address reaches a
# fake that listens on all of them; nothing listens outside and no port is taken twice.
ip link set lo up
ip addr add 10.255.0.1/32 dev lo
ip route add local 10.244.0.0/16 dev lo
ip route add local 10.96.0.0/16 dev lo
# two controllers have the folders of their certificates built in
mount --bind "$state/pki/webhook" /tmp/k8s-webhook-server/serving-certs
mount --bind "$state/visibility" /visibility
mount -t tmpfs tmpfs /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
touch "$state/namespaces"

until_free() { flock --shared "$1" true & wait $!; }
until_free "$state/lock"
if [ ! -e "$state/ready" ]; then finish; fi
if [ -n "$owner" ]; then
  until_free "$owner"
else
  sleep infinity & wait $!
fi
finish
