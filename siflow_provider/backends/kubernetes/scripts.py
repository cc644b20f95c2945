"""The scripts around the command: they start it, keep its exit code and print what it reports.

A PyTorchJob's wrapper stands in the container, before the command, as one argument of bash; it is written without
`$$` and `$(`, so that it reads in the manifest as it runs. A RayJob's entrypoint goes through a shell line that KubeRay
writes, so there the command is a file of the run's ConfigMap, read by bash itself. Either way `bash -c` gets the
command as one argument. Only bash and, for SSH, OpenSSH are asked of the image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.names import KEYS_DIR, RUN_DIR, SCRIPTS_DIR
from siflow_provider.core.results import RESULTS_ENV
from siflow_provider.core.shell import REPORT, SUPERVISE
from siflow_provider.spec.task import RayJob

if TYPE_CHECKING:
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["render_scripts", "render_wrapper"]

_PURPOSE = f"""\
# Runs the task's command, keeps its exit code, then prints what it wrote to ${RESULTS_ENV}.
"""

_READ_COMMAND = f"""\
IFS= read -r -d '' command < {SCRIPTS_DIR}/command
[ -n "$command" ] || {{ printf 'siflow: {SCRIPTS_DIR}/command is not there\\n' >&2; exit 1; }}
"""

_RUN_SUPERVISED = """
supervise "$@"
code=$?
report
"""

_LINGER_SECONDS = 10
_LINGER = f"""
# The operator ends the workers as soon as the master has succeeded: those that are about to end get the time to do so.
[ "$code" != 0 ] || supervise sleep {_LINGER_SECONDS}
"""

_LINGER_ON_RANK_0 = f"""
# The job ends as soon as rank 0 has succeeded: the ranks that are about to end get the time to do so.
[ "$code" != 0 ] || [ "$RANK" != 0 ] || supervise sleep {_LINGER_SECONDS}
"""

_END = """
exit "$code"
"""

# Ray signals every process of the entrypoint by itself and kills it by process group, so the command stays in this one.
_RUN_IN_RAY = """
trap : TERM INT HUP
exec 3>&2
{ bash -c "$command" 2>&3 3>&-; } 2>/dev/null
code=$?
report
exit "$code"
"""

_WITH_SSH = f"""
supervise bash {SCRIPTS_DIR}/ssh.sh || exit
"""

_WITH_SSH_IN_RAY = f"""
python {SCRIPTS_DIR}/ray_hosts.py && bash {SCRIPTS_DIR}/ssh.sh wait || exit
"""

_SSH = f"""\
# Starts an SSH server that lets in the other pods of this job, and makes this pod's client use the job's key.
# With the word `wait`, or on rank 0: returns when the server of every host in the hostfile answers.
fail() {{
  printf 'siflow: ssh: %s\\n' "$1" >&2
  exit 1
}}

start() {{
  local server home=${{HOME:-/root}} here={RUN_DIR}/ssh
  server=$(PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin command -v sshd) ||
    fail "the image has no sshd; install OpenSSH's server and client in it or leave out ssh."
  umask 077
  mkdir -p "$here" "$home/.ssh" && mkdir -p /run/sshd || fail "can't write $home/.ssh and /run/sshd; run as root."
  cat {KEYS_DIR}/id_ed25519 > "$here/id_ed25519" || fail "the job's key is not there."
  cat {KEYS_DIR}/id_ed25519.pub > "$here/authorized_keys"
  {{
    printf 'Host *\\n  IdentityFile %s\\n' "$here/id_ed25519"
    printf '  StrictHostKeyChecking no\\n  UserKnownHostsFile /dev/null\\n  LogLevel ERROR\\n'
    cat "$home/.ssh/config" 2>/dev/null
  }} > "$here/config"
  cat "$here/config" > "$home/.ssh/config"
  printf 'PATH=%s\\nLD_LIBRARY_PATH=%s\\n' "$PATH" "${{LD_LIBRARY_PATH:-}}" > "$home/.ssh/environment"
  {{
    printf 'Port 22\\nHostKey %s\\nAuthorizedKeysFile %s\\n' "$here/id_ed25519" "$here/authorized_keys"
    printf 'PasswordAuthentication no\\nPermitRootLogin prohibit-password\\nStrictModes no\\n'
    printf 'PermitUserEnvironment yes\\nPidFile %s\\n' "$here/sshd.pid"
  }} > "$here/sshd_config"
  "$server" -f "$here/sshd_config" -E "$here/log" || fail "sshd did not start: $(cat "$here/log")"
  : > "$here/ready"
}}

answers() {{
  (exec 3<> "/dev/tcp/$1/22") 2>/dev/null
}}

wait_for_hosts() {{
  local host tries
  while read -r host; do
    tries=0
    # without an end: pulling its image may take long, and how long a start may take is the form's start_timeout
    until answers "$host"; do
      tries=$((tries + 1))
      [ $((tries % 60)) != 0 ] || printf 'siflow: ssh: waiting for %s\\n' "$host" >&2
      sleep 1
    done
  done < /root/hostfile.hostname
}}

[ -e {RUN_DIR}/ssh/ready ] || start
if [ "${{1:-}}" = wait ] || [ "${{RANK:-}}" = 0 ]; then
  wait_for_hosts
fi
"""

_RAY_HOSTS = """\
# Writes the hostfiles on the head: itself first, then the workers that are there when the command starts.
import ray

ray.init(address="auto", log_to_driver=False, logging_level="ERROR")


def slots(node):
    resources = node["Resources"]
    return max(1, int(resources.get("GPU") or resources.get("CPU") or 1))


def order(node):
    is_head = "node:__internal_head__" in node["Resources"]
    return (not is_head, [part.zfill(3) for part in node["NodeManagerAddress"].split(".")])


nodes = sorted((node for node in ray.nodes() if node["Alive"]), key=order)
with open("/root/hostfile", "w") as hosts, open("/root/hostfile.hostname", "w") as names:
    for node in nodes:
        hosts.write(f"{node['NodeManagerAddress']} slots={slots(node)}\\n")
        names.write(f"{node['NodeManagerAddress']}\\n")
ray.shutdown()
"""


def render_wrapper(task: ResolvedTask, *, lingers: bool, one_for_all: bool = False) -> str:
    """Return what a PyTorchJob's replica runs with the command's argv (`bash -c COMMAND`) as its arguments.

    Args:
        task: the task.
        lingers: True for a master with workers: its end is theirs, so it leaves them a moment to end by themselves.
        one_for_all: True where all ranks run the same: the master is then who finds himself to be rank 0.
    """
    ssh, linger = _WITH_SSH if task.task.ssh else "", _LINGER_ON_RANK_0 if one_for_all else _LINGER
    return "".join([_PURPOSE, REPORT, SUPERVISE, ssh, _RUN_SUPERVISED, linger if lingers else "", _END])


def render_scripts(task: ResolvedTask) -> dict[str, str]:
    """Return the files that a replica needs beside its manifest, by name, hostfiles apart; often none."""
    in_ray, ssh = isinstance(task.task, RayJob), bool(task.task.ssh)
    files: dict[str, str] = {}
    if in_ray:
        parts = [_PURPOSE, _READ_COMMAND, REPORT, _WITH_SSH_IN_RAY if ssh else "", _RUN_IN_RAY]
        files |= {"command": task.task.command, "run.sh": "".join(parts)}
    if ssh:
        files["ssh.sh"] = _SSH
        if in_ray:
            files["ray_hosts.py"] = _RAY_HOSTS
    return files
