"""What all tests share: the fixtures of the control plane, patience with a busy machine, and no event loop left behind.

looptime asks the event loop policy for its loop also around tests that are not async; asked for the first time in the
main thread, the policy makes one that nobody closes. Once it was told that there is none, it makes none.
"""

from __future__ import annotations

import asyncio

from tests.drawing import register

pytest_plugins = ["tests.control_plane.fixtures"]

asyncio.get_event_loop_policy().set_event_loop(None)

register()
