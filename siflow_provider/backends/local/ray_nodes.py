"""How the nodes of one local Ray cluster are started: command lines, ports, environment, temporary folder.

Every node listens on the loopback address only and asks for the cluster's own token, so that other users of the
machine can't run code through it. Several clusters stand side by side: each has its own temporary folder and ports.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from siflow_provider.backends.local.ray_plan import NodePlan
from siflow_provider.errors import BackendError

__all__ = [
    "cluster_env",
    "free_ports",
    "head_ports",
    "head_request",
    "make_temp_dir",
    "node_command",
    "node_env",
    "started_file",
    "submit_command",
    "worker_request",
    "write_request",
    "write_token",
]

_LOOPBACK = "127.0.0.1"
_HERE = Path(__file__).parent
_MAX_TEMP_DIR = 38
"""A unix socket's path has 107 bytes; Ray appends `/session_<date>_<pid>/sockets/plasma_store.N`, 69 at most."""
_PORTS = range(20000, 32000)
"""Below Linux' own range for outgoing connections (32768 and up), which could take a port between look and use."""
_NODE_PORTS = (
    "node_manager_port",
    "object_manager_port",
    "dashboard_agent_listen_port",
    "metrics_agent_port",
    "runtime_env_agent_port",
    "metrics_export_port",
)
_HEAD_PORTS = ("port", "dashboard_port", "autoscaler_metrics", "dashboard_metrics")
_FOREIGN = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_AUTH_TOKEN", "RAY_NAMESPACE")


def make_temp_dir() -> Path:
    """Make the folder for Ray's session and sockets, readable for this user only, its path short enough for sockets."""
    parent = Path(tempfile.gettempdir())
    if len(os.fsencode(parent)) > _MAX_TEMP_DIR - len("/sr-12345678"):
        parent = Path("/tmp")
    return Path(tempfile.mkdtemp(prefix="sr-", dir=parent))


def free_ports(names: tuple[str, ...], taken: set[int]) -> dict[str, int]:
    """Return a port for each name that nobody listens on now; adds them to `taken`.

    Raises:
        BackendError: there are none.
    """
    ports: dict[str, int] = {}
    for _ in _PORTS:
        if len(ports) == len(names):
            break
        port = secrets.choice(_PORTS)
        if port not in taken and _is_free(port):
            taken.add(port)
            ports[names[len(ports)]] = port
    if len(ports) < len(names):
        raise BackendError(
            f"there is no free port between {_PORTS.start} and {_PORTS.stop} for Ray.",
            hint="See who listens there (`ss -ltn`); other Ray clusters of this machine may have to end first.",
        )
    return ports


def _is_free(port: int) -> bool:
    # on all addresses, since that is what collides
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def head_ports(taken: set[int]) -> dict[str, int]:
    """Return a port for everything that a head listens on."""
    return free_ports(_HEAD_PORTS + _NODE_PORTS, taken)


def head_request(node: NodePlan, ports: Mapping[str, int], temp_dir: Path, *, patient: bool) -> dict[str, Any]:
    """Return what `ray_node.py` is asked for: the head.

    Ray gives the agents of a node 15 s to come up. Where a machine is too busy for that, `patient` has the processes
    start one after the other, which takes longer and gets each done sooner (source: Ray 2.60 `node_manager.cc`
    `WaitForDashboardAgentPorts`).
    """
    own = {
        "gcs_server_port": ports["port"],
        "dashboard_host": _LOOPBACK,
        "dashboard_port": ports["dashboard_port"],
        "include_dashboard": True,
        "temp_dir": str(temp_dir),
        **{name: ports[name] for name in _NODE_PORTS},
    }
    return _request(node, temp_dir, own, "patient-head" if patient else "head")


def worker_request(node: NodePlan, gcs_port: int, taken: set[int], temp_dir: Path) -> dict[str, Any]:
    """Return what `ray_node.py` is asked for: a worker of the head at `gcs_port`."""
    own = {
        "gcs_address": f"{_LOOPBACK}:{gcs_port}",
        # one on a machine is enough, and the head has it
        "include_log_monitor": False,
        **free_ports(_NODE_PORTS, taken),
    }
    return _request(node, temp_dir, own, "worker")


def _request(node: NodePlan, temp_dir: Path, own: Mapping[str, Any], role: str) -> dict[str, Any]:
    parameters = {
        "node_ip_address": _LOOPBACK,
        "node_name": node.replica,
        "num_cpus": node.cpus,
        "num_gpus": len(node.gpus),
        "memory": node.memory,
        "object_store_memory": node.object_store,
        # 0: each worker process takes a port that is free when it binds it
        "min_worker_port": 0,
        "max_worker_port": 0,
        **own,
    }
    return {"role": role, "started": str(started_file(node, temp_dir)), "parameters": parameters}


def started_file(node: NodePlan, temp_dir: Path) -> Path:
    """Return the file that is there as soon as the node has registered in its cluster."""
    return temp_dir / f"{node.replica}.started"


def node_command(request: Path) -> list[str]:
    """Return the argv of a node that is asked for in `request`."""
    return [sys.executable, "-P", str(_HERE / "ray_node.py"), str(request)]


def submit_command(request: Path) -> list[str]:
    """Return the argv that submits the job which `request` describes."""
    return [sys.executable, "-P", str(_HERE / "ray_submit.py"), str(request)]


def cluster_env(env: Mapping[str, str], ports: Mapping[str, int], temp_dir: Path, token: Path) -> dict[str, str]:
    """Return the environment of every node: the replica's own, and what makes the cluster a private one.

    Tasks, actors and the job's command inherit it, hidden values included; so these stand in no metadata of Ray's.
    """
    own = {name: value for name, value in env.items() if name not in _FOREIGN}
    # nobody's traffic has to be drained here; else each end takes up to 30 s (Ray 2.60 `node.py`)
    own.setdefault("RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "0")
    return own | {
        "RAY_USAGE_STATS_ENABLED": "0",
        # makes Ray keep 127.0.0.1 and bind nothing else; the name speaks of other systems, the switch works on Linux
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        # else Ray leaves the address of this cluster in /tmp/ray for everybody's ray.init()
        "RAY_TMPDIR": str(temp_dir),
        "AUTOSCALER_METRIC_PORT": str(ports["autoscaler_metrics"]),
        "DASHBOARD_METRIC_PORT": str(ports["dashboard_metrics"]),
    }


def node_env(env: Mapping[str, str], node: NodePlan, *, machine_gpus: bool) -> dict[str, str]:
    """Return the environment of one node: it sees its own GPUs and no other."""
    if not machine_gpus:
        return dict(env)
    return {**env, "CUDA_VISIBLE_DEVICES": ",".join(map(str, node.gpus))}


def write_token(path: Path) -> str:
    """Make the cluster's token, in a file that this user alone can read, and return it."""
    token = secrets.token_hex(32)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)
    return token


def write_request(path: Path, request: Mapping[str, Any]) -> Path:
    """Write the arguments of a helper process; return `path`."""
    path.write_text(json.dumps(request), encoding="utf-8")
    return path
