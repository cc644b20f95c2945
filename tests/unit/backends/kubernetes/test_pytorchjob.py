from __future__ import annotations

from siflow_provider.backends.settings import Settings
from siflow_provider.spec.policy import KubernetesOptions
from tests.unit.backends.kubernetes.tasks import CPU, container, job, pods, pytorch, rendered


def test_job_of_one_machine_has_no_worker_key() -> None:
    replicas = job(rendered(pytorch(workers=0)))["spec"]["pytorchReplicaSpecs"]
    assert list(replicas) == ["Master"]
    assert replicas["Master"]["replicas"] == 1


def test_master_is_one_and_workers_are_as_asked() -> None:
    replicas = job(rendered(pytorch(workers=3)))["spec"]["pytorchReplicaSpecs"]
    assert {key: value["replicas"] for key, value in replicas.items()} == {"Master": 1, "Worker": 3}


def test_nobody_but_us_retries_and_leftover_workers_go() -> None:
    spec = job(rendered(pytorch(workers=1), queued=False))["spec"]
    assert spec["runPolicy"] == {"cleanPodPolicy": "Running"}
    assert {value["restartPolicy"] for value in spec["pytorchReplicaSpecs"].values()} == {"Never"}


def test_an_ended_job_stays_as_long_as_the_connection_says_and_a_patch_wins() -> None:
    week = Settings(backend="kubernetes").defaults().ttl_seconds_after_finished
    assert week == 7 * 86400
    asked = {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 60}}}
    for form, seconds in ((pytorch(), week), (pytorch(kubernetes=KubernetesOptions(patch=asked)), 60)):
        policy = job(rendered(form, ttl_seconds_after_finished=week))["spec"]["runPolicy"]
        assert policy["ttlSecondsAfterFinished"] == seconds


def test_world_size_counts_machines_because_processes_per_node_stay_unset() -> None:
    assert "nprocPerNode" not in job(rendered(pytorch(workers=1)))["spec"]


def test_operator_finds_its_container_in_every_replica() -> None:
    manifest = rendered(pytorch(workers=1))
    assert {container(manifest, role)["name"] for role in pods(manifest)} == {"pytorch"}


def test_master_and_workers_run_on_the_same_instance() -> None:
    manifest = rendered(pytorch(workers=1))
    assert container(manifest, "master")["resources"] == container(manifest, "worker")["resources"]


def test_the_first_flavor_is_the_one_that_is_rendered() -> None:
    manifest = rendered(pytorch(), flavors=(CPU,))
    assert container(manifest, "master")["resources"]["limits"] == {"cpu": "16", "memory": "64Gi"}


def test_all_of_a_plain_job_stands_in_the_job_itself() -> None:
    manifest = rendered(pytorch(workers=1))
    assert [item["kind"] for item in manifest.documents] == ["PyTorchJob"]
    assert not any("configMap" in volume for pod in pods(manifest).values() for volume in pod["spec"]["volumes"])
