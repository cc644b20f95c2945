"""Runs that are looked for by a login which may not list jobs: by the names that they must have."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.kubernetes.cluster.errors import Denied
from siflow_provider.backends.kubernetes.cluster.resources import PYTORCHJOBS
from siflow_provider.backends.settings import Settings
from siflow_provider.core.identity import Identity
from siflow_provider.core.trail import Trail
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer, answers

RUN = Identity(dag_id="d", run_id="r", task_id="t", try_number=1)
TRAIL = Trail("train", context="", kind="PyTorchJob", gap=3)
REFUSED = answers(403, "Forbidden", 'cannot list resource "pytorchjobs" in API group "kubeflow.org"')


def put(server: FakeServer, attempt: int, *, run: str = RUN.task_uuid, namespace: str = "ml") -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "siflow-provider", "siflow-provider/run": run}
    metadata = {"name": RUN.for_attempt(attempt).name("train"), "namespace": namespace}
    body = {"apiVersion": PYTORCHJOBS.api_version, "kind": "PyTorchJob"}
    marks = {"labels": {**labels, "siflow-provider/attempt": str(attempt)}}
    return server.put(PYTORCHJOBS.path(namespace), {**body, "metadata": {**metadata, **marks}})


@pytest.fixture
def no_list(server: FakeServer) -> FakeServer:
    server.faults["list"].extend([REFUSED] * 99)
    return server


@pytest.mark.parametrize(("there", "newest"), [((), None), ((1,), 1), ((1, 2), 2), ((3,), 3), ((1, 4, 6), 6)])
async def test_newest_attempt_is_found_whichever_before_it_are_gone(
    no_list: FakeServer, settings: Settings, there: tuple[int, ...], newest: int | None
) -> None:
    for attempt in there:
        put(no_list, attempt)
    async with KubernetesBackend(settings) as backend:
        found = await backend.find_latest(RUN, trail=TRAIL)
        assert (None if found is None else found.attempt) == newest
        for attempt in range(1, 8):
            one = await backend.find(RUN.for_attempt(attempt), trail=TRAIL)
            assert (one is not None) is (attempt in there)


async def test_an_object_of_that_name_which_is_of_another_run_is_none_of_this_one(
    no_list: FakeServer, settings: Settings
) -> None:
    put(no_list, 1, run="another")
    async with KubernetesBackend(settings) as backend:
        assert await backend.find_latest(RUN, trail=TRAIL) is None


async def test_the_missing_right_is_named_once_however_often_runs_are_looked_for(
    no_list: FakeServer, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    put(no_list, 1)
    async with KubernetesBackend(settings) as backend:
        refs = [await backend.find_latest(RUN, trail=TRAIL) for _ in range(3)]
        ref = refs[-1]
        assert ref is not None
        assert [status.ref for status in await backend.find_named(ref.name)] == [ref]
        assert await backend.find_latest(ref) == ref
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1
    assert said[0].startswith("jobs can't be listed, so earlier runs are looked for by their names alone:")
    assert 'Add `- {apiGroups: ["kubeflow.org"], resources: ["pytorchjobs"], verbs: ["list"]}`' in said[0]


async def test_where_no_name_is_known_nothing_is_taken_for_not_there(no_list: FakeServer, settings: Settings) -> None:
    async with KubernetesBackend(settings) as backend:
        with pytest.raises(Denied):
            await backend.find_latest(RUN)


async def test_without_the_right_to_read_jobs_either_no_run_starts(no_list: FakeServer, settings: Settings) -> None:
    no_list.faults["get"].extend([lambda _: none(), *[answers(403, "Forbidden", "cannot get")] * 9])
    async with KubernetesBackend(settings) as backend:
        with pytest.raises(Denied):
            await backend.find_latest(RUN, trail=TRAIL)


async def none() -> None:
    """Let the look at what the cluster has pass."""
