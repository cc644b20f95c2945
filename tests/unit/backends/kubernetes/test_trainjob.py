"""A form of kind PyTorchJob on a cluster with Kubeflow Trainer: what its pods see, and what a TrainJob can't carry."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.queueing.podsets import task_pod_sets, total
from siflow_provider.backends.kubernetes.rendering import render, unsupported
from siflow_provider.backends.kubernetes.state.size import accelerators_of
from siflow_provider.backends.kubernetes.trainjob import rank_host
from siflow_provider.core.protocol import Manifest
from siflow_provider.errors import UnsupportedError
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.policy import KubernetesOptions
from tests.unit.backends.kubernetes.tasks import context, document, pytorch, ray, rendered, resolved

NAME_ROOM = 63
JOBSETS_SUFFIX = 6
LONGEST_NAME = 47


def trains(*, queued: bool = True, hidden: dict[str, Hidden] | None = None, **fields: Any) -> Manifest:
    return render(resolved(pytorch(**fields), hidden=hidden or {}), context(queued=queued), "TrainJob")


def ranks(manifest: Manifest) -> Any:
    (found,) = document(manifest, "TrainingRuntime")["spec"]["template"]["spec"]["replicatedJobs"]
    return found["template"]["spec"]


def env(manifest: Manifest) -> dict[str, Any]:
    (container,) = ranks(manifest)["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


def test_runtime_comes_first_because_the_webhooks_want_it_there() -> None:
    manifest = trains(ssh=True, hidden={"TOKEN": Hidden("canary")})
    kinds = [each["kind"] for each in manifest.documents]
    assert kinds == ["TrainingRuntime", "TrainJob", "Secret", "ConfigMap"]
    assert {each["metadata"]["name"] for each in manifest.documents[:2]} == {manifest.name}
    job = document(manifest, "TrainJob")
    assert job["spec"]["runtimeRef"] == {"kind": "TrainingRuntime", "name": manifest.name}


def test_a_queued_job_is_made_suspended_and_another_one_starts_at_once() -> None:
    job = document(trains(), "TrainJob")
    assert job["spec"]["suspend"] is True
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "od"
    free = document(trains(queued=False), "TrainJob")
    assert "suspend" not in free["spec"]
    assert "kueue.x-k8s.io/queue-name" not in free["metadata"]["labels"]


def test_every_rank_sees_what_a_pytorchjob_shows_it() -> None:
    manifest = trains(workers=3)
    found = env(manifest)
    rank = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    assert found["MASTER_ADDR"] == found["PET_MASTER_ADDR"] == rank_host(manifest.name, 0)
    assert found["MASTER_PORT"] == found["PET_MASTER_PORT"] == "23456"
    assert found["WORLD_SIZE"] == found["PET_NNODES"] == "4"
    assert found["RANK"] == found["PET_NODE_RANK"] == rank
    assert found["PET_NPROC_PER_NODE"] == "auto"
    assert found["PYTHONUNBUFFERED"] == "1"
    operators = {entry["name"] for entry in _pytorch_env(workers=3)}
    assert operators <= set(found)


def _pytorch_env(**fields: Any) -> list[dict[str, Any]]:
    replicas = document(rendered(pytorch(**fields)), "PyTorchJob")["spec"]["pytorchReplicaSpecs"]
    found: list[dict[str, Any]] = replicas["Master"]["template"]["spec"]["containers"][0]["env"]
    return found


def test_nobody_but_us_retries_and_success_is_rank_0s() -> None:
    job = ranks(trains(workers=1))
    assert (job["backoffLimit"], job["template"]["spec"]["restartPolicy"]) == (0, "Never")
    assert job["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
    (container,) = job["template"]["spec"]["containers"]
    assert '[ "$RANK" != 0 ] || supervise sleep 10' in container["command"][2]
    (alone,) = ranks(trains())["template"]["spec"]["containers"]
    assert "supervise sleep" not in alone["command"][2]


def test_the_size_stands_in_the_job_alone() -> None:
    manifest = trains(workers=2)
    job = document(manifest, "TrainJob")
    assert "resources" not in ranks(manifest)["template"]["spec"]["containers"][0]
    assert job["spec"]["trainer"]["numNodes"] == 3
    assert accelerators_of("PyTorchJob", job) == 24
    (pods,) = task_pod_sets(resolved(pytorch(workers=2)), "TrainJob")
    assert (pods.name, pods.count) == ("pod", 3)
    assert total([pods]) == total(task_pod_sets(resolved(pytorch(workers=2))))


def test_hostfiles_name_the_ranks_in_order() -> None:
    manifest = trains(workers=1, ssh=True)
    files = document(manifest, "ConfigMap")["data"]
    first, second = rank_host(manifest.name, 0), rank_host(manifest.name, 1)
    assert files["hostfile"] == f"{first} slots=8\n{second} slots=8\n"
    assert files["hostfile.hostname"] == f"{first}\n{second}\n"


def test_the_longest_name_of_a_thousand_ranks_fits() -> None:
    pod = rank_host("x" * LONGEST_NAME, 999).split(".")[0]
    assert len(pod) + JOBSETS_SUFFIX <= NAME_ROOM


@pytest.mark.parametrize("field", ["pytorchReplicaSpecs", "runPolicy", "elasticPolicy", "nprocPerNode", "runtimeRef"])
def test_a_patch_of_what_a_trainjob_does_not_have_is_refused(field: str) -> None:
    task = resolved(pytorch(kubernetes=KubernetesOptions(patch={"spec": {field: {}}})))
    (reason,) = unsupported(task, "TrainJob")
    assert reason.path == f"kubernetes.patch.spec.{field}"
    with pytest.raises(UnsupportedError):
        render(task, context(), "TrainJob")


def test_a_patch_of_the_trainjob_is_merged_last() -> None:
    job = document(trains(kubernetes=KubernetesOptions(patch={"spec": {"trainer": {"numNodes": 7}}})), "TrainJob")
    assert job["spec"]["trainer"]["numNodes"] == 7
    assert "resourcesPerNode" in job["spec"]["trainer"]


def test_more_ranks_than_their_names_have_room_for_are_refused() -> None:
    (reason,) = unsupported(resolved(pytorch(workers=1000)), "TrainJob")
    assert (reason.path, reason.message) == ("workers", "a TrainJob's names have room for 999, not for 1000")
    assert unsupported(resolved(pytorch(workers=999)), "TrainJob") == []


def test_a_rayjob_is_the_same_whatever_a_pytorchjob_becomes() -> None:
    task = resolved(ray(workers=1))
    assert render(task, context(), "TrainJob").documents == render(task, context()).documents
