"""A submission that is cut short between the job and what belongs to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.resources import PYTORCHJOBS, SECRETS, Resource
from siflow_provider.backends.kubernetes.cluster.shared import Cluster, open_cluster
from siflow_provider.backends.kubernetes.life.submit import submit
from siflow_provider.backends.settings import Settings
from siflow_provider.core.protocol import Manifest
from siflow_provider.errors import BackendError, BackendUnavailable, NoRoomYet
from siflow_provider.spec.hidden import Hidden
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer, Fault, answers
from tests.unit.backends.kubernetes.tasks import pytorch, ray, rendered

NO_ROOM = answers(403, "Forbidden", "secrets is forbidden: exceeded quota: q, requested: secrets=1")
SERVED = {"name": "v1", "version": "v1", "resources": [{"resource": PYTORCHJOBS.plural}]}
APIS = {
    "kind": "APIGroupDiscoveryList",
    "items": [{"metadata": {"name": PYTORCHJOBS.group}, "versions": [SERVED]}],
}


@pytest.fixture
async def cluster(server: FakeServer, settings: Settings, pace: Pace) -> AsyncIterator[Cluster]:
    server.documents |= {"/apis": APIS, "/version": {"gitVersion": "v1.36.0"}}
    async with open_cluster(settings, pace=pace) as opened:
        yield opened


@pytest.fixture
def manifest() -> Manifest:
    """A run with a hidden value, which needs a Secret."""
    return rendered(pytorch(), hidden={"TOKEN": Hidden("canary")})


async def names(cluster: Cluster, resource: Resource) -> list[str]:
    return [item["metadata"]["name"] for item in (await cluster.api.list(resource.path("ml")))["items"]]


async def test_a_job_whose_secret_finds_no_room_holds_no_machine(
    server: FakeServer, cluster: Cluster, manifest: Manifest
) -> None:
    server.faults["create"].extend([through, NO_ROOM])
    with pytest.raises(NoRoomYet):
        await submit(cluster, manifest, context="")
    assert await names(cluster, PYTORCHJOBS) == []
    ref = await submit(cluster, manifest, context="")
    assert await names(cluster, PYTORCHJOBS) == [ref.name]
    assert len(await names(cluster, SECRETS)) == 1


async def test_the_refusal_is_what_is_told_where_the_job_can_not_be_removed_either(
    server: FakeServer, cluster: Cluster, manifest: Manifest, caplog: pytest.LogCaptureFixture
) -> None:
    server.faults["create"].extend([through, answers(403, "Forbidden", "secrets is forbidden: may not create")])
    server.faults["delete"].append(answers(403, "Forbidden", "pytorchjobs is forbidden: may not delete"))
    with pytest.raises(BackendError, match="may not create"):
        await submit(cluster, manifest, context="")
    assert manifest.name in caplog.text
    assert "could not be removed" in caplog.text


async def test_a_kind_that_the_cluster_does_not_know_is_refused_at_once_with_what_to_install(
    server: FakeServer, cluster: Cluster
) -> None:
    with pytest.raises(BackendError, match=r"does not know RayJob \(ray\.io/v1\)") as raised:
        await submit(cluster, rendered(ray()), context="")
    assert not isinstance(raised.value, BackendUnavailable)  # which would be waited for
    assert "KubeRay" in raised.value.hint
    assert server.count("create") == 0


async def test_a_job_is_ours_although_the_answer_to_its_creation_was_lost(
    server: FakeServer, cluster: Cluster, manifest: Manifest
) -> None:
    server.faults["create"].extend([kept_without_answer(server), through, NO_ROOM])
    with pytest.raises(NoRoomYet):
        await submit(cluster, manifest, context="")
    assert await names(cluster, PYTORCHJOBS) == []


async def test_a_job_of_an_earlier_submission_is_kept_for_the_next(
    server: FakeServer, cluster: Cluster, manifest: Manifest
) -> None:
    ref = await submit(cluster, manifest, context="")
    (secret,) = await names(cluster, SECRETS)
    server.remove(SECRETS.path("ml"), secret)
    server.faults["create"].extend([through, NO_ROOM])
    with pytest.raises(NoRoomYet):
        await submit(cluster, manifest, context="")
    assert await names(cluster, PYTORCHJOBS) == [ref.name]


async def through(_request: web.Request) -> web.StreamResponse | None:
    """No fault."""
    return None


def kept_without_answer(server: FakeServer) -> Fault:
    """A fault: do it, and cut the connection before the answer."""

    async def fault(request: web.Request) -> web.StreamResponse | None:
        server.put(request.path, await request.json())
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return fault
