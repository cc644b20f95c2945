from __future__ import annotations

from tests.unit.backends.kubernetes.tasks import container, job, pods, pytorch, rendered


def test_job_of_one_machine_has_no_worker_key() -> None:
    replicas = job(rendered(pytorch(workers=0)))["spec"]["pytorchReplicaSpecs"]
    assert list(replicas) == ["Master"]
    assert replicas["Master"]["replicas"] == 1


def test_master_is_one_and_workers_are_as_asked() -> None:
    replicas = job(rendered(pytorch(workers=3)))["spec"]["pytorchReplicaSpecs"]
    assert {key: value["replicas"] for key, value in replicas.items()} == {"Master": 1, "Worker": 3}


def test_nobody_but_us_retries_and_leftover_workers_go() -> None:
    spec = job(rendered(pytorch(workers=1), queued=False))["spec"]
    assert spec["runPolicy"] == {"cleanPodPolicy": "Running", "backoffLimit": 0}
    assert {value["restartPolicy"] for value in spec["pytorchReplicaSpecs"].values()} == {"Never"}


def test_world_size_counts_machines_because_processes_per_node_stay_unset() -> None:
    assert "nprocPerNode" not in job(rendered(pytorch(workers=1)))["spec"]


def test_operator_finds_its_container() -> None:
    manifest = rendered(pytorch(workers=1))
    assert {container(manifest, role)["name"] for role in pods(manifest)} == {"pytorch"}
