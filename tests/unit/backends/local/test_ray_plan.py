"""Which Ray nodes a RayJob becomes on this machine, and what its author is told about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from siflow_provider.backends.local import ray_plan
from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.local.ray_plan import MAX_NODES, plan_nodes, ray_unsupported, ray_warnings
from siflow_provider.backends.local.render import roles_of
from siflow_provider.backends.settings import Settings
from siflow_provider.core.quota import Verdict
from siflow_provider.spec.need import need
from siflow_provider.spec.quantity import Resources
from tests.unit.backends.local.ray_tasks import ray_task
from tests.unit.backends.local.tasks import context, task

GIB = 2**30


def document(workers: int, *, cores: float = 1.5, gpus: int = 0, head_gpus: int = 0) -> dict[str, Any]:
    head = {"role": "head", "count": 1, "cores": 1, "gpus": head_gpus, "memory": 2 * GIB}
    worker = {"role": "worker", "count": workers, "cores": cores, "gpus": gpus, "memory": 4 * GIB}
    return {"replicas": [head, worker] if workers else [head]}


def test_every_replica_is_a_node_with_whole_cores_and_its_own_gpus() -> None:
    head, first, second = plan_nodes(document(2, gpus=2, head_gpus=1), (3, 4, 5, 6, 7), 64 * GIB)
    assert [node.replica for node in (head, first, second)] == ["head-0", "worker-0", "worker-1"]
    assert (head.cpus, first.cpus) == (1, 2)
    assert (head.gpus, first.gpus, second.gpus) == ((3,), (4, 5), (6, 7))
    assert first.memory + first.object_store == 4 * GIB


def test_object_stores_stay_small_and_fit_into_shared_memory() -> None:
    roomy = plan_nodes(document(1), (), 64 * GIB)
    assert [node.object_store for node in roomy] == [512 * 2**20] * 2
    tight = plan_nodes(document(1), (), 600 * 2**20)
    assert [node.object_store for node in tight] == [150 * 2**20] * 2
    none = plan_nodes(document(1), (), 0)
    assert all(node.object_store >= 75 * 2**20 for node in none)


def test_a_large_cluster_is_one_node_with_the_same_resources_summed() -> None:
    (node,) = plan_nodes(document(MAX_NODES, gpus=1), tuple(range(MAX_NODES)), 64 * GIB)
    assert len(node.replicas) == 1 + MAX_NODES
    assert node.replica == "head-0"
    assert node.cpus == 1 + int(1.5 * MAX_NODES)
    assert node.gpus == tuple(range(MAX_NODES))
    assert node.memory + node.object_store == (2 + 4 * MAX_NODES) * GIB


def test_differences_from_a_real_cluster_are_told() -> None:
    ray = {
        "autoscaling": {"min_workers": 10, "max_workers": 20},
        "shared_storage": {"volume": "team-data"},
    }
    text = "\n".join(ray_warnings(ray_task("true", workers=12, cpu="500m", ray=ray)))
    assert "10 workers and the head are one Ray node" in text
    assert "min_workers: 10 of the 12 workers" in text
    assert "$SIFLOW_SHARED_STORAGE" in text
    assert "whole cores" in text


def test_an_ordinary_ray_job_has_nothing_to_be_told() -> None:
    assert ray_warnings(ray_task("true", workers=2)) == []
    assert ray_warnings(task("true")) == []


def test_missing_ray_is_refused_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_plan, "find_spec", lambda name: None if name == "ray" else object())
    (reason,) = ray_unsupported(ray_task("true"))
    assert (reason.path, reason.code) == ("kind", "RayMissing")
    assert 'pip install "airflow-provider-siflow[ray]"' in reason.message
    assert ray_unsupported(task("true")) == []


@pytest.mark.parametrize("env", [{"conda": "base"}, {"image_uri": "registry.example/x:1"}])
def test_runtime_env_that_needs_a_program_this_machine_lacks_is_refused(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    unfit = ray_task("true", ray={"runtime_env": env})
    (reason,) = LocalBackend(Settings()).unsupported(unfit)
    assert reason.path == f"ray.runtime_env.{next(iter(env))}"
    assert "not on this machine's PATH" in reason.message


async def test_autoscaling_counts_its_minimum_wherever_the_task_is_weighed(tmp_path: Path) -> None:
    scaling = ray_task("true", workers=4, ray={"autoscaling": {"min_workers": 1, "max_workers": 8}})
    (tmp_path / "capacity.json").write_text('{"cpu": 3, "memory": "8Gi"}')
    async with LocalBackend(Settings(state_dir=str(tmp_path))) as backend:
        (document,) = backend.render(scaling, context()).documents
        report = await backend.quota(scaling)
    assert [(role["role"], role["count"]) for role in document["replicas"]] == [("head", 1), ("worker", 1)]
    assert Resources.of(document["need"]) == need(scaling).task
    assert report.ever.verdict is Verdict.YES
    assert "2 of 2 replicas of this size fit" in report.idle.text


def test_autoscaling_from_no_worker_starts_with_the_head_alone() -> None:
    scaling = ray_task("true", workers=0, ray={"autoscaling": {"min_workers": 0, "max_workers": 8}})
    assert [role["role"] for role in roles_of(scaling)] == ["head"]
