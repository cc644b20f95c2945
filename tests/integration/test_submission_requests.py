"""What one submission asks of the API server, by its own audit log: each request has its reason."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.errors import NotFound
from siflow_provider.backends.kubernetes.cluster.resources import CONFIGMAPS
from siflow_provider.core.identity import Identity
from siflow_provider.core.launch import launch
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.status import Phase
from tests.contract.life import Told
from tests.control_plane.admin import Admin
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import Queues, own_place, unique
from tests.integration.clusters import settings_for
from tests.integration.kubernetes_tasks import opened, task

SUBMISSION = 4
QUOTA = Counter({
    ("list", "localqueues"): 1,
    ("list", "clusterqueues"): 1,
    ("list", "resourceflavors"): 1,
    ("get", "configmaps"): 1,  # Kueue's own configuration
    ("list", "resourcequotas"): 1,
    ("list", "limitranges"): 1,
    ("list", "nodes"): 1,
})  # fmt: skip
DISCOVERY = Counter({("get", "/apis"): 1})
FORMS: dict[str, tuple[dict[str, Any], Counter[tuple[str, str]]]] = {
    "hidden": ({}, Counter({("list", "pytorchjobs"): 1, ("create", "pytorchjobs"): 1, ("create", "secrets"): 1})),
    "hidden and ssh": (
        {"ssh": True, "workers": 1},
        Counter({
            ("list", "pytorchjobs"): 1, ("create", "pytorchjobs"): 1, ("create", "secrets"): 1,
            ("create", "configmaps"): 1,
        }),
    ),
    "ray, hidden and ssh": (
        {"kind": "RayJob", "ssh": True, "workers": 1},
        Counter({
            ("list", "rayjobs"): 1, ("create", "rayjobs"): 1, ("create", "secrets"): 1, ("create", "configmaps"): 1
        }),
    ),
}  # fmt: skip


@pytest.fixture
def queues(own_admin: Admin) -> Iterator[Queues]:
    with own_place(own_admin) as place:
        yield place


async def _asked(plane: ControlPlane, namespace: str) -> Counter[tuple[str, str]]:
    """Return what was asked so far by (verb, resource or path); a request of our own shows that all is written."""
    mark = unique("mark")
    async with Api(settings_for(plane.kubeconfig)) as api:
        with pytest.raises(NotFound):
            await api.get(CONFIGMAPS.path(namespace, mark))
    async with asyncio.timeout(30):
        while True:
            requests = await asyncio.to_thread(lambda: list(plane.requests("siflow-provider")))
            if any(request.name == mark for request in requests):
                return Counter(
                    (request.verb, request.resource or request.uri.partition("?")[0])
                    for request in requests
                    if not request.name.startswith("mark-")
                )


@pytest.mark.parametrize("form", FORMS)
async def test_a_submission_asks_four_times_at_most_and_nothing_twice(
    own_control_plane: ControlPlane, queues: Queues, form: str
) -> None:
    fields, submission = FORMS[form]
    what, context = task(queues.queue("kwok", GPU=8), **fields), RenderContext(identity=Identity.random())
    before = await _asked(own_control_plane, queues.namespace)
    async with opened(own_control_plane.kubeconfig, queues.namespace) as backend:
        launched = await launch(backend, what, context, quota="require", reporter=Told())
        status = await backend.status(launched.ref)
    asked = await _asked(own_control_plane, queues.namespace) - before
    assert submission.total() <= SUBMISSION
    assert asked == submission + DISCOVERY + QUOTA
    assert status.phase is Phase.QUEUED  # the first look costs nothing
    async with opened(own_control_plane.kubeconfig, queues.namespace) as backend:
        await backend.delete(launched.ref)
