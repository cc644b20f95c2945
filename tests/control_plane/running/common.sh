# shellcheck shell=bash disable=SC2034,SC2154  # variables of the other files that scripts/control-plane sources
# Sourced: one control plane's folder ($state), its namespaces, and the parts that run inside them.
#   state/kubeconfig   admin of the whole cluster
#   state/log/NAME.log  each part's output; state/audit.log: every request to the API server
#   state/run/NAME     the command of a part; state/pid/NAME: the process that entered the namespaces for it
#   state/holder       process 1 of the namespaces: its pid, and when it started (a pid may be given away again)

started_at() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# holder_pid: print process 1 of the state's namespaces; fails when it is gone
holder_pid() {
  local pid since
  read -r pid since 2>/dev/null <"$state/holder" || return 1
  [ -n "$since" ] && [ "$(started_at "$pid")" = "$since" ] && echo "$pid"
}

only_child() { # PID: print its child
  local children
  children=$(cat "/proc/$1/task/$1/children" 2>/dev/null) || return 1
  [ -n "$children" ] && echo "${children%% *}"
}

# part_pid NAME: print the process of a running part, as the machine sees it
part_pid() {
  local entered pid
  holder_pid >/dev/null || return 1
  read -r entered 2>/dev/null <"$state/pid/$1" || return 1
  pid=$(only_child "$entered" 2>/dev/null) || return 1
  # a pid that another process was given since is in another network namespace
  [ "$(readlink "/proc/$pid/ns/net")" = "$(readlink "/proc/$(holder_pid)/ns/net")" ] && echo "$pid"
}

# resume NAME: let a paused part go on, and the nsenter that started it, which stops along with it. An nsenter that stays
# stopped would never take note of the part's end, and the namespaces could not end either.
resume() {
  local entered
  read -r entered 2>/dev/null <"$state/pid/$1" || return 1
  kill -CONT "$entered" && kill -CONT "$(only_child "$entered")"
}

wait_for() { # SECONDS WHAT COMMAND...
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS >= end)); then echo "not ready in time: $what" >&2; return 1; fi
    sleep 0.2
  done
}

inside() { nsenter --target "$(holder_pid)" --net --mount --pid -- "$@"; }

# start NAME COMMAND...: run a part inside the namespaces; the command is kept so that it can be started again
start() {
  local name=$1
  shift
  {
    printf 'exec env -u HTTP_PROXY -u HTTPS_PROXY -u http_proxy -u https_proxy -u KUBECONFIG -u TMPDIR'
    printf ' %q' "$@"
  } >"$state/run/$name"
  start_again "$name"
}

start_again() { # NAME
  local network=--net
  [ "$1" != forward ] || network=--ipc  # listens on the machine's loopback; it enters the network by itself
  setsid nsenter --target "$(holder_pid)" "$network" --mount --pid --wd="$state" -- bash "$state/run/$1" \
    >>"$state/log/$1.log" 2>&1 </dev/null {locked}>&- &
  echo $! >"$state/pid/$1"
  disown
}

url_ok() { inside curl -sfk --noproxy '*' --max-time 2 "$1"; }

began=$EPOCHREALTIME
mark() { awk -v a="$began" -v b="$EPOCHREALTIME" -v what="$1" 'BEGIN {printf "    %5.1f s  %s\n", b - a, what}'; }
