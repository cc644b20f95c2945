"""The real node dies under its pods, and comes back."""

from __future__ import annotations

from tests.control_plane.admin import Admin, condition
from tests.control_plane.plane import ControlPlane

CONTROL_PLANE_OPTIONS = ("--real-node",)


def test_node_that_dies_takes_its_pods_along_and_comes_back(own_control_plane: ControlPlane, own_admin: Admin) -> None:
    sleeper = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "sleeper", "namespace": "default"},
        "spec": {
            "nodeSelector": {"type": "real"},
            "containers": [
                {"name": "main", "image": "base:test", "imagePullPolicy": "Never", "command": ["sleep", "600"]}
            ],
        },
    }
    path = own_admin.path_of(own_admin.create(sleeper))
    own_admin.wait(path, lambda found: condition(found, "Ready") == "True", "runs")
    own_control_plane.kill("node")
    own_admin.wait(own_admin.path("Node", "real-0"), lambda found: condition(found, "Ready") == "Unknown", "lost", 90)
    own_admin.wait(path, lambda found: found and found["metadata"].get("deletionTimestamp"), "evicted", 90)
    own_control_plane.start("node")
    own_admin.wait(path, lambda found: found is None, "gone", 90)
    node = own_admin.find(own_admin.path("Node", "real-0"))
    assert condition(node, "Ready") == "True"
    assert (node or {})["status"]["allocatable"]["nvidia.com/gpu"] == "8"
