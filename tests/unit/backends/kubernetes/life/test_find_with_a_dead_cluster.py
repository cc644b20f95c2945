"""A run is found, or known not to be there, while another cluster of the catalog gives no answer."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from typing import Any

import pytest

from siflow_provider.backends.kubernetes import backend as module
from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.resources import PYTORCHJOBS
from siflow_provider.backends.kubernetes.cluster.shared import open_cluster
from siflow_provider.backends.settings import Settings
from siflow_provider.cli.main import main
from siflow_provider.core.identity import Identity
from siflow_provider.core.status import JobRef
from siflow_provider.core.trail import Trail
from siflow_provider.errors import BackendUnavailable, PartialAnswer
from siflow_provider.spec.hidden import Hidden
from tests.unit.backends.kubernetes.cluster.conftest import kubeconfig
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer

CATALOG: dict[str, Any] = {
    "clusters": [
        {"region": "east", "cluster": "a"},
        {"region": "west", "cluster": "b", "context": "there", "namespace": "jobs"},
    ]
}
RUN = Identity(dag_id="d", run_id="r", task_id="t", try_number=1)


@pytest.fixture
def two(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A connection to a cluster that answers, whose catalog names one that does not."""
    monkeypatch.setattr(module, "open_cluster", partial(open_cluster, pace=Pace(tries=0)))
    config = kubeconfig(server.url)
    config["clusters"].append({"name": "dead", "cluster": {"server": "http://127.0.0.1:1"}})
    config["contexts"][1]["context"]["cluster"] = "dead"
    return Settings(backend="kubernetes", kubernetes={"kube_config": Hidden(json.dumps(config))}, catalog=CATALOG)


async def test_a_new_run_may_start_on_the_cluster_of_its_task(two: Settings) -> None:
    async with KubernetesBackend(two) as backend:
        assert await backend.find_latest(RUN, trail=Trail("t", context="")) is None


async def test_no_run_starts_where_an_earlier_submission_can_not_be_looked_for(two: Settings) -> None:
    ref = JobRef(backend="kubernetes", kind="PyTorchJob", name="n", uid="u", task_uuid=RUN.task_uuid, attempt=1)
    async with KubernetesBackend(two) as backend:
        for looking in (
            backend.find_latest(RUN, trail=Trail("t", context="there")),
            backend.find_latest(RUN),
            backend.find(RUN),
            backend.find_latest(ref.model_copy(update={"context": "there"})),
        ):
            with pytest.raises(BackendUnavailable):
                await looking
        assert await backend.find_latest(ref) is None


async def test_a_run_that_is_found_is_enough(
    server: FakeServer, two: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    labels = {"app.kubernetes.io/managed-by": "siflow-provider", "siflow-provider/run": RUN.task_uuid}
    metadata = {"name": "train", "namespace": "ml", "labels": {**labels, "siflow-provider/attempt": "1"}}
    # the fake server keeps its lists by path: this is the one of all namespaces
    server.put(PYTORCHJOBS.path(None), {"metadata": {**metadata, "uid": "here"}})
    async with KubernetesBackend(two) as backend:
        for found in (await backend.find_latest(RUN), await backend.find(RUN)):
            assert found is not None
            assert found.uid == "here"
    assert f"no answer about run {RUN.task_uuid} from the context 'there'" in caplog.text


async def test_the_runs_of_the_clusters_that_answer_are_told_and_the_silent_one_is_named(
    server: FakeServer, two: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    labels = {"app.kubernetes.io/managed-by": "siflow-provider", "siflow-provider/run": RUN.task_uuid}
    metadata = {"name": "train", "labels": {**labels, "siflow-provider/attempt": "1"}, "uid": "here"}
    async with KubernetesBackend(two) as backend:
        with pytest.raises(PartialAnswer, match="context 'there'") as nothing:
            await backend.find_named("train")
        assert nothing.value.found == ()
        server.put(PYTORCHJOBS.path("ml"), {"metadata": {**metadata, "namespace": "ml"}, "spec": {}})
        with pytest.raises(PartialAnswer, match="context 'there'") as some:
            await backend.runs()
        assert [status.ref.name for status in some.value.found] == ["train"]
        (named,) = await backend.find_named("train")
        assert named.ref.uid == "here"
    assert "no answer about train from the context 'there'" in caplog.text


@pytest.mark.parametrize("arguments", [["ps", "--all"], ["show", "nobody"]])
async def test_a_command_shows_what_is_known_and_says_by_its_exit_code_that_it_is_not_all(
    server: FakeServer,
    two: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    there = arguments[0] == "ps"  # the fake server does not select by name
    if there:
        labels = {"app.kubernetes.io/managed-by": "siflow-provider", "siflow-provider/run": RUN.task_uuid}
        metadata = {"name": "train", "namespace": "ml", "labels": {**labels, "siflow-provider/attempt": "1"}}
        server.put(PYTORCHJOBS.path("ml"), {"metadata": {**metadata, "uid": "here"}, "spec": {}})
    extra = {"backend": "kubernetes", "kube_config": two.kubernetes["kube_config"].reveal(), "catalog": CATALOG}
    conn = json.dumps({"conn_type": "siflow", "extra": extra})
    monkeypatch.setattr(sys, "argv", ["siflow-provider", *arguments, "--conn", conn])

    def code() -> object:
        try:
            main()
        except SystemExit as left:
            return left.code
        return None

    assert await asyncio.to_thread(code) == 4
    said = capsys.readouterr()
    assert ("train\t" in said.out) is there
    assert "context 'there'" in said.err
    assert "there is no run" not in said.err
