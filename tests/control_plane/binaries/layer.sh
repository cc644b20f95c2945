#!/usr/bin/env bash
# layer.sh OUT LOWER COMMAND: run COMMAND by chroot on the folders LOWER (colon-separated, topmost first), with the
# machine's network and certificates; the folder OUT gets what it changes, as overlayfs keeps it.
set -euo pipefail
mkdir -p "$1" "$1.work" "$1.mnt"
# shellcheck disable=SC2016  # expanded by the inner bash, inside its own namespaces
unshare --mount --pid --fork --kill-child --propagation private bash -euc '
  mount -t overlay overlay -o "lowerdir=$2,upperdir=$1,workdir=$1.work" "$1.mnt"
  mount -t proc proc "$1.mnt/proc"
  mount --bind /dev "$1.mnt/dev"
  mount -t tmpfs tmpfs "$1.mnt/tmp"
  for file in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt; do
    [ ! -e "$file" ] || { touch "$1.mnt$file"; mount --bind "$file" "$1.mnt$file"; }
  done
  export DEBIAN_FRONTEND=noninteractive PIP_NO_CACHE_DIR=1 PIP_CERT=/etc/ssl/certs/ca-certificates.crt
  exec chroot "$1.mnt" bash -euc "$3"' - "$1" "$2" "$3"
rm -rf "$1.work" "$1.mnt"
