"""What tasks ask of the API server, by its own audit log: waiting costs nothing more for each further task."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.control_plane.plane import ControlPlane, Request
    from tests.e2e.on_cluster import OnCluster

MANY = 20
SUBMISSION = 4
WATCHED = {"pytorchjobs", "pods", "workloads"}
OF_ALL = "labelSelector=app.kubernetes.io/managed-by%3Dsiflow-provider&"


def is_shared(request: Request) -> bool:
    """Say whether a list is of all runs of the namespace, not of one that a worker submits or looks at."""
    everything = request.resource == "workloads" and "labelSelector" not in request.uri
    return request.verb == "list" and (everything or (OF_ALL in request.uri and bool(request.namespace)))


def is_submission(request: Request) -> bool:
    """Say whether a request looks for a run that is there already, or makes what belongs to one."""
    return is_search(request) or request.verb == "create"


def is_search(request: Request) -> bool:
    """Say whether a request looks for a run that is there already, in all namespaces."""
    return request.verb == "list" and "siflow-provider/run" in request.uri and not request.namespace


@pytest.mark.timeout(700)
def test_twenty_waiting_tasks_share_one_list_and_one_watch_a_kind(
    own_cluster: OnCluster, own_control_plane: ControlPlane
) -> None:
    own_cluster.on_fake_nodes(gpus=1)
    body = f"""
    HIDDEN = {{"TOKEN": {{"value": "not-to-be-seen", "hidden": True}}}}
    fields = {{name: value for name, value in FAKE.items() if name != "command"}}
    commands = [f"train --input {{number}}" for number in range({MANY})]
    PyTorchJobOperator.partial(task_id="train", env=HIDDEN, **fields).expand(command=commands)
    """
    run = own_cluster.start("cl_requests", body)
    logs = [run.ti("train", index) for index in range(MANY)]
    for task in logs:  # each is followed: a trigger that never began could stop nothing
        task.wait_log("following ", timeout=500)
    asked = list(own_control_plane.requests("siflow-provider"))
    shared = Counter(one.resource for one in asked if is_shared(one))
    watches = Counter(one.resource for one in asked if one.verb == "watch" and "watch=1" in one.uri)
    assert shared == dict.fromkeys(WATCHED, 1)
    assert set(watches) == WATCHED
    assert max(watches.values()) <= 2, watches  # a watch is renewed after five minutes or more
    assert sum(is_search(one) for one in asked) == MANY
    assert sum(is_submission(one) for one in asked) <= SUBMISSION * MANY
    run.mark("failed")
    own_cluster.wait_gone(timeout=120)
    asked = list(own_control_plane.requests("siflow-provider"))
    deleted = Counter(one.name for one in asked if one.verb == "delete" and one.resource == "pytorchjobs")
    assert len(deleted) == MANY
    assert set(deleted.values()) == {1}
