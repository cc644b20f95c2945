# shellcheck shell=bash disable=SC2034,SC2154  # variables of the other files that scripts/control-plane sources
# Sourced: the images of real pods, made once without docker and without a registry.
#   pause:test  what holds a pod's namespaces
#   init:test   waits for a name (training-operator's init container)
#   base:test   Debian 12 with bash, Python 3.11, OpenSSH, curl, procps, py-spy
#   torch:test  base:test and Debian's torch (gloo, CPU)
#   ray:test    base:test and ray[default]
IMAGE_NAMES="pause init base torch ray"
here=$ROOT/tests/control_plane/binaries
plain='{"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], "Cmd": ["bash"]}'

# step WHAT COMMAND...: a command whose output is shown only when it fails
step() {
  local start=$SECONDS what=$1
  shift
  "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; die "making the $what failed"; }
  printf '    %s: %s s\n' "$what" "$((SECONDS - start))"
}

# image NAME CONFIG LAYER...
image() {
  local name=$1 config=$2
  shift 2
  step "image $name" "$(find_python)" "$here/image.py" "$name:test" "$IMAGES/$name.tar.part" "$config" "$@"
  mv "$IMAGES/$name.tar.part" "$IMAGES/$name.tar"
}

# slim FOLDER: remove what no test reads
slim() {
  rm -rf "$1"/{var/cache/apt,var/lib/apt/lists,root/.cache} "$1"/var/log/* \
    "$1"/usr/share/{doc,man,locale,proj,mime,X11,fonts,icons,info}
}

# pip COMMAND for a layer: pip itself is not in the images
pip_install() {
  echo "python3 -m venv /tmp/v; /tmp/v/bin/pip --python /usr/bin/python3 install -q --break-system-packages '$1'"
}

# shellcheck disable=SC2016  # runs inside the layer
torch_layer='apt-get update -q; apt-get install -y -q --no-install-recommends python3-torch python3-numpy
  # of the libraries that came along, keep those that torch or numpy link to
  cd /usr/lib/x86_64-linux-gnu
  { find /usr/lib/python3/dist-packages/{torch,numpy} -name "*.so" -o -name "*.so.*"
    ls -d /usr/lib/x86_64-linux-gnu/lib{torch,c10,shm}*.so*; } | xargs ldd 2>/dev/null |
    sed -nE "s/.*=> (\S+) .*/\1/p" | sort -u | xargs readlink -f | sort -u >/keep
  rm -rf /usr/lib/libtorch-test dri mfx /usr/lib/python3/dist-packages/{sympy,mpmath} \
    /usr/lib/python3/dist-packages/torch/bin/test_*
  find /usr/lib/x86_64-linux-gnu -type f -name "*.so*" -size +300k | sort -u | grep -v -x -F -f /keep |
    grep -v -E "/lib(torch|c10|shm)" >/drop || true'

base_image() {
  local packages=python3,python3-venv,bind9-dnsutils,iproute2,curl,wget,ca-certificates,procps
  packages+=,openssh-server,openssh-client
  step "Debian 12" debootstrap --variant=minbase --include=$packages bookworm "$work/base"
  ln -s python3 "$work/base/usr/bin/python"
  rm -f "$work"/base/etc/ssh/ssh_host_*  # whoever starts sshd makes its own
  step "py-spy" chroot_pip "$work/base"
  slim "$work/base"
  tar -C "$work/base" --numeric-owner -cf "$work/base.tar" .
  image base "$plain" "$work/base.tar"
}

# the commands of a step are joined: bash goes on after a failure inside of what is tested
chroot_pip() {
  bash "$here/layer.sh" "$work/py-spy" "$1" "$(pip_install "py-spy==$PY_SPY_VERSION")" && cp -a "$work/py-spy/." "$1/"
}

drop_files() {
  cd "$work/torch" && while read -r file; do rm -f "./$file"; done <drop && rm -f keep drop && slim .
}

torch_image() {
  bash "$here/layer.sh" "$work/torch" "$work/base" "$torch_layer" && (drop_files) &&
    bash "$here/layer.sh" "$work/check" "$work/torch:$work/base" \
      'python3 -c "import numpy, torch.distributed as d; assert d.is_gloo_available()"'
}

ray_image() {
  bash "$here/layer.sh" "$work/ray" "$work/base" "$(pip_install "ray[default]==$RAY_VERSION")" && slim "$work/ray"
}

build_images() {
  local name missing=""
  for name in $IMAGE_NAMES; do [ -s "$IMAGES/$name.tar" ] || missing+=" $name"; done
  [ -n "$missing" ] || return 0
  say "making the images$missing into $IMAGES (about two minutes)"
  need_packages debootstrap
  mkdir -p "$IMAGES"
  work=$(mktemp -d "$NODE_CACHE/images.XXXX")
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$work'" EXIT
  mkdir "$work/pause-layer" "$work/init-layer"
  cp "$NODE_BIN/pause" "$work/pause-layer/"
  cp "$NODE_BIN/wait-for-name" "$work/init-layer/"
  image pause '{"Entrypoint": ["/pause"]}' "$work/pause-layer"
  image init "$plain" "$work/init-layer"
  base_image
  step "layer torch" torch_image
  image torch "$plain" "$work/base.tar" "$work/torch"
  step "layer ray" ray_image
  image ray "$plain" "$work/base.tar" "$work/ray"
  rm -rf "$work"
  trap - EXIT
}
