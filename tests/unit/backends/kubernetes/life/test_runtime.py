"""What becomes of the runtime of a TrainJob that a process left behind when it died."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.resources import TRAINING_RUNTIMES, TRAINJOBS
from siflow_provider.backends.kubernetes.life.runtime import hand_over, prepare
from siflow_provider.backends.kubernetes.rendering import render
from siflow_provider.backends.settings import Settings
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer
from tests.unit.backends.kubernetes.tasks import context, pytorch, resolved

PATH = TRAINING_RUNTIMES.path("ml")


@pytest.fixture
async def api(server: FakeServer, settings: Settings, pace: Pace) -> AsyncIterator[Api]:
    async with Api(settings, pace=pace) as opened:
        yield opened


def runtime(image: str = "registry.example/train:1") -> dict[str, Any]:
    """Return a run's runtime as it is sent; another image stands for another instance, or a form that was changed."""
    made = render(resolved(pytorch(image=image)), context(), "TrainJob").documents[0]
    return {**made, "metadata": {"namespace": "ml", **made["metadata"]}}


async def test_a_runtime_that_is_just_what_is_wanted_is_taken_up(api: Api, server: FakeServer) -> None:
    left, made = await prepare(api, runtime())
    assert made
    again, made = await prepare(api, runtime())
    assert not made
    assert again["metadata"]["uid"] == left["metadata"]["uid"]
    assert server.count("delete") == 0


@pytest.mark.parametrize("seal", [None, "of another version"])
async def test_a_runtime_of_another_content_is_replaced_and_never_used(
    api: Api, server: FakeServer, seal: str | None
) -> None:
    left, _ = await prepare(api, runtime("registry.example/train:0"))
    if seal is not None:
        await api.patch(
            f"{PATH}/{left['metadata']['name']}", {"metadata": {"annotations": {"siflow-provider/digest": seal}}}
        )
    found, made = await prepare(api, runtime())
    assert made
    assert "registry.example/train:1" in str(found["spec"])
    assert found["metadata"]["uid"] != left["metadata"]["uid"]
    assert server.count("delete") == 1


async def test_a_runtime_whose_job_is_there_stays_whatever_is_wanted_now(api: Api, server: FakeServer) -> None:
    """The process died between the job and the hand-over: its pods may run, and the job is adopted as it is."""
    left, _ = await prepare(api, runtime("registry.example/train:0"))
    metadata = {"name": left["metadata"]["name"], "namespace": "ml", "uid": "job"}
    job = server.put(
        TRAINJOBS.path("ml"), {"apiVersion": TRAINJOBS.api_version, "kind": "TrainJob", "metadata": metadata}
    )
    found, made = await prepare(api, runtime())
    assert (found["metadata"]["uid"], made) == (left["metadata"]["uid"], False)
    await hand_over(api, found, job)
    again, made = await prepare(api, runtime())
    assert (again["metadata"]["uid"], made) == (left["metadata"]["uid"], False)
    assert server.count("delete") == 0
