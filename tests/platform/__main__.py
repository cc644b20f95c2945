"""`python -m tests.platform --port N`: the fake platform alone, on the loopback interface, base path /sfapi.

The key pair is that of SIFLOW_ACCESS_KEY_ID and SIFLOW_ACCESS_KEY_SECRET, else `ak-demo` and `sk-demo`. Tasks are
simulated unless --commands is given: then each pod runs its command as a bash process on this machine. What the
documentation leaves open is allowed, so that it serves every client; --strict refuses it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path

from tests.platform.control import Control
from tests.platform.names import KEY_ID, KEY_SECRET, USER
from tests.platform.platform import Platform
from tests.platform.server import make_server
from tests.platform.signing import Keys


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--commands", action="store_true", help="run commands as real processes")
    parser.add_argument("--run-seconds", type=float, default=10.0, help="length of a simulated task")
    parser.add_argument("--start-seconds", type=float, default=1.0, help="how long a task is PartialPending")
    parser.add_argument(
        "--strict", action="store_true", help="refuse a signature that was used before; unknown pools have no room"
    )
    options = parser.parse_args()
    key = os.environ.get("SIFLOW_ACCESS_KEY_ID", KEY_ID)
    secret = os.environ.get("SIFLOW_ACCESS_KEY_SECRET", KEY_SECRET)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the folder is removed
    with tempfile.TemporaryDirectory(prefix="fake-platform-") as folder:
        platform = Platform(
            Path(folder), keys=Keys({key: (secret, USER)}, strict=options.strict), commands=options.commands
        )
        platform.change(
            Control(run_seconds=options.run_seconds, start_seconds=options.start_seconds, open_pools=not options.strict)
        )
        make_server(platform, options.port).run()


if __name__ == "__main__":
    main()
