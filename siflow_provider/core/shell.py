"""Parts of the bash scripts around a command, the same wherever a command runs in a container."""

from __future__ import annotations

from siflow_provider.core.results import MARKER, MAX_RESULT_BYTES, RESULTS_ENV

__all__ = ["REPORT", "SUPERVISE"]

REPORT = f"""
report() {{
  local LC_ALL=C text=
  [ -s "${RESULTS_ENV}" ] || return 0
  if [ ! -f "${RESULTS_ENV}" ]; then
    printf '\\n%s %s\\n' '{MARKER}' 'the results file is no file'
    return 0
  fi
  # two bytes over the limit, so that the reader sees that it is too long
  IFS= read -r -d '' -N {MAX_RESULT_BYTES + 2} text < "${RESULTS_ENV}"
  text=${{text//[$'\\r\\n']/ }}
  [[ $text == *[![:space:]]* ]] || return 0
  # the command's last line may lack its end
  printf '\\n%s %s\\n' '{MARKER}' "$text"
}}
"""
"""Defines `report`, which prints the results file as the marked line."""

SUPERVISE = """
child='' caught=''
forward() {
  caught=$1
  [ -z "$child" ] || kill -s "$1" -- "-$child" 2>/dev/null
}
for name in TERM INT HUP QUIT USR1 USR2; do
  trap "forward $name" "$name"
done
set -m

supervise() {
  "$@" &
  child=$!
  stopped=$caught
  [ -z "$caught" ] || forward "$caught"
  while :; do
    caught=''
    { wait "$child"; } 2>/dev/null
    code=$?
    [ -n "$caught" ] || break
    stopped=$caught
  done
  while [ -n "$stopped" ] && kill -s 0 -- "-$child" 2>/dev/null; do
    sleep 0.1
  done
  child=''
  return "$code"
}
"""
"""Defines `supervise`, which runs a command and returns its exit code.

The first process of a container gets the signals; the command's whole process group is to have them, and time to act.
"""
