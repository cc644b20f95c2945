"""One node of a local Ray cluster: `python -P ray_node.py NODE.json`. Ends with its parent's SIGTERM.

`ray start` refuses to bind a worker to the loopback address: it puts the machine's own address in its place, where a
head on 127.0.0.1 is not found and the whole network could reach it. Ray's node class has no such rule, and Ray's own
`ray.cluster_utils` starts its many nodes of one machine by it (source: Ray 2.40 and 2.60 `_private/services.py`
`resolve_ip_for_localhost`, `cluster_utils.py`). The head takes the same way: Ray's command loads twice as much, and
starts the rest of the head only after its dashboard. The file is run by its path, imports nothing but Ray, and takes
the arguments of Ray's `RayParams` from a file: `{"role": ..., "started": FILE, "parameters": {...}}`. The role is
`worker`, `head`, or `patient-head`, which starts one process after the other as Ray itself does.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray._private.node import Node
    from ray._private.parameter import RayParams

__all__ = ["main"]

_LOOK_SECONDS = 1.0


def main(argv: list[str]) -> int:
    """Start the node, say so, and stay until SIGTERM or until one of its processes is gone."""
    from ray._private.parameter import RayParams

    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    signal.signal(signal.SIGTERM, end)
    request = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    parameters = RayParams(**request["parameters"])
    failures: list[BaseException] = []
    node = _start(parameters, request["role"], failures)
    sys.stdout.write(f"Ray node {parameters.node_name} has started.\n")
    sys.stdout.flush()
    Path(request["started"]).touch()
    while not ended.wait(_LOOK_SECONDS):
        dead = [f"{kind} (exit code {process.returncode})" for kind, process in node.dead_processes()]
        dead += [f"its dashboard: {error}" for error in failures]
        if dead:
            sys.stdout.write(f"Ray node {parameters.node_name} lost {', '.join(dead)}.\n")
            return 1
    return 0


def _start(parameters: RayParams, role: str, failures: list[BaseException]) -> Node:
    """Start the node's processes; a head's dashboard comes up beside them, its failure is added to `failures`.

    Ray itself waits for the dashboard, the slowest of all, before it starts anything else (source: Ray 2.40 and 2.60
    `_private/node.py` `start_head_processes`). Nothing of the node needs more of it than the address, which is known.
    """
    from ray._private.node import Node

    class QuickHead(Node):  # type: ignore[misc] # Ray has no types
        def start_api_server(self, **options: Any) -> None:
            self._webui_url = f"{parameters.dashboard_host}:{parameters.dashboard_port}"
            threading.Thread(target=self._start_dashboard, kwargs=options, daemon=True).start()

        def _start_dashboard(self, **options: Any) -> None:
            try:
                super().start_api_server(**options)
            except Exception as error:
                failures.append(error)
            # Linux ends the dashboard's process when the thread that started it does (prctl(2) PR_SET_PDEATHSIG)
            threading.Event().wait()

    kind = QuickHead if role == "head" else Node
    return kind(parameters, head=role != "worker", shutdown_at_exit=True, spawn_reaper=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
