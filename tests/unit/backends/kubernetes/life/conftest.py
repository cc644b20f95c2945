"""The fake API server of the tests of `cluster`, and a connection to it."""

from __future__ import annotations

from tests.unit.backends.kubernetes.cluster.conftest import pace, server, settings, waits

__all__ = ["pace", "server", "settings", "waits"]
