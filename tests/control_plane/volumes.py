"""Claims of a test's own: a folder of this machine that many pods of the real node can write, and the test can read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.control_plane.admin import Admin, Object
from tests.control_plane.queues import unique


@contextmanager
def claim(admin: Admin, namespace: str, folder: Path) -> Iterator[str]:
    """Make a claim, bound to that folder, and give its name."""
    name = unique("claim")
    amount = {"storage": "1Gi"}
    access: Object = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        **access,
        "capacity": amount,
        "hostPath": {"path": str(folder)},
        "claimRef": {"name": name, "namespace": namespace},
    }
    wanted = {**access, "resources": {"requests": amount}, "volumeName": name}
    made = admin.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume})
    place = {"name": name, "namespace": namespace}
    try:
        path = admin.path_of(
            admin.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": place, "spec": wanted})
        )
        admin.wait(path, lambda found: found and found.get("status", {}).get("phase") == "Bound", "bound")
        yield name
    finally:
        admin.delete(admin.path_of(made))
