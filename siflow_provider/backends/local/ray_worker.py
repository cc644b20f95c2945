"""One worker node of a local Ray cluster: `python -P ray_worker.py NODE.json`. Ends with its parent's SIGTERM.

`ray start` refuses to bind a worker to the loopback address: it puts the machine's own address in its place, where a
head on 127.0.0.1 is not found and the whole network could reach it. Ray's node class has no such rule, and Ray's own
`ray.cluster_utils` starts its many nodes of one machine by it (source: Ray 2.40 and 2.60 `_private/services.py`
`resolve_ip_for_localhost`, `cluster_utils.py`). The file is run by its path, imports nothing but Ray, and takes the
arguments of Ray's `RayParams` from a file.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

__all__ = ["main"]

_LOOK_SECONDS = 1.0


def main(argv: list[str]) -> int:
    """Start the node, say so, and stay until SIGTERM or until one of its processes is gone."""
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    signal.signal(signal.SIGTERM, end)
    parameters = RayParams(**json.loads(Path(argv[0]).read_text(encoding="utf-8")))
    node = Node(parameters, head=False, shutdown_at_exit=True, spawn_reaper=True)
    sys.stdout.write(f"Ray node {parameters.node_name} has started.\n")
    sys.stdout.flush()
    while not ended.wait(_LOOK_SECONDS):
        dead = [f"{kind} (exit code {process.returncode})" for kind, process in node.dead_processes()]
        if dead:
            sys.stdout.write(f"Ray node {parameters.node_name} lost {', '.join(dead)}.\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
