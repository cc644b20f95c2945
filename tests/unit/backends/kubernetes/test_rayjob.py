from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from siflow_provider.spec.ray import Autoscaling, Debug, Head, RaySection, SharedStorage
from siflow_provider.spec.resolve import Mount
from tests.unit.backends.kubernetes.tasks import CPU, container, env, job, pods, ray, rendered

SHARED = Mount("shared_storage", "team-data", "/tmp/ray", pvc="team-data", sub_path="group")


def cluster(manifest: Any) -> Any:
    return job(manifest)["spec"]["rayClusterSpec"]


def test_head_and_workers_start_together_because_all_three_counts_are_the_same() -> None:
    group = cluster(rendered(ray(workers=4)))["workerGroupSpecs"][0]
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (4, 4, 4)


def test_cluster_without_workers_has_no_worker_group() -> None:
    assert "workerGroupSpecs" not in cluster(rendered(ray(workers=0)))


def test_worker_group_has_none_of_the_names_that_the_queue_keeps() -> None:
    assert cluster(rendered(ray(workers=1)))["workerGroupSpecs"][0]["groupName"] not in {"head", "submitter"}


def test_nobody_but_us_retries_and_the_cluster_goes_with_the_job() -> None:
    spec = job(rendered(ray(workers=1)))["spec"]
    assert spec["backoffLimit"] == 0
    assert spec["submitterConfig"] == {"backoffLimit": 0}
    assert spec["shutdownAfterJobFinishes"] is True
    assert {pod["spec"]["restartPolicy"] for pod in pods(rendered(ray(workers=1))).values()} == {"Never"}


def test_entrypoint_has_no_character_that_a_shell_reads() -> None:
    spec = job(rendered(ray(command="python main.py --lr '$X' && echo `id`")))["spec"]
    assert spec["submissionMode"] == "K8sJobMode"
    assert spec["entrypoint"] == "bash /etc/siflow/run.sh"


def test_ray_starts_the_ray_containers_itself() -> None:
    manifest = rendered(ray(workers=1))
    assert [container(manifest, role)["name"] for role in ("head", "worker")] == ["ray-head", "ray-worker"]
    assert all("command" not in container(manifest, role) for role in ("head", "worker"))


def test_submitter_is_small_and_has_no_gpu_and_no_node_of_the_workers() -> None:
    submitter = pods(rendered(ray(workers=2)))["submitter"]["spec"]
    size = submitter["containers"][0]["resources"]
    assert size["requests"] == size["limits"] == {"cpu": "500m", "memory": "512Mi"}
    assert "nodeSelector" not in submitter
    assert submitter["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_head_is_like_the_workers_unless_it_has_a_size_of_its_own() -> None:
    same = rendered(ray(workers=2))
    assert container(same, "head")["resources"] == container(same, "worker")["resources"]
    own = rendered(ray(RaySection(head=Head(instance="cpu.16")), workers=2), head=CPU)
    assert container(own, "head")["resources"]["limits"] == {"cpu": "16", "memory": "64Gi"}
    assert container(own, "worker")["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert "nodeSelector" not in pods(own)["head"]["spec"]


def test_head_with_a_size_of_its_own_has_half_of_its_own_memory_shared() -> None:
    own = rendered(ray(RaySection(head=Head(instance="cpu.16")), workers=1), head=CPU)
    sizes = {
        role: next(v["emptyDir"]["sizeLimit"] for v in pods(own)[role]["spec"]["volumes"] if v["name"] == "shm")
        for role in ("head", "worker")
    }
    assert sizes == {"head": "32Gi", "worker": "480Gi"}


@pytest.mark.parametrize(("seconds", "written"), [(600.0, 600), (0.0, 0), (1.5, 2)])
def test_cluster_is_kept_for_debugging_as_long_as_asked(seconds: float, written: int) -> None:
    spec = job(rendered(ray(RaySection(debug=Debug(keep_seconds=seconds)))))["spec"]
    assert spec["ttlSecondsAfterFinished"] == written


def test_cluster_goes_at_once_when_no_debugging_is_asked() -> None:
    assert "ttlSecondsAfterFinished" not in job(rendered(ray()))["spec"]


def test_runtime_env_keeps_texts_that_look_like_numbers() -> None:
    runtime_env = {"env_vars": {"LR": "1e-4", "YES": "yes", "N": "012"}, "pip": ["a==1"]}
    text = job(rendered(ray(RaySection(runtime_env=runtime_env))))["spec"]["runtimeEnvYAML"]
    assert yaml.safe_load(text) == runtime_env


def test_job_without_runtime_env_says_nothing_of_one() -> None:
    assert "runtimeEnvYAML" not in job(rendered(ray()))["spec"]


def test_autoscaling_has_its_bounds_and_its_own_words() -> None:
    bounds = Autoscaling(min_workers=1, max_workers=6, idle_timeout=90.5, upscaling_mode="conservative")
    manifest = rendered(ray(RaySection(autoscaling=bounds), workers=2))
    group = cluster(manifest)["workerGroupSpecs"][0]
    assert cluster(manifest)["enableInTreeAutoscaling"] is True
    assert (group["minReplicas"], group["replicas"], group["maxReplicas"]) == (1, 2, 6)
    assert cluster(manifest)["autoscalerOptions"] == {"idleTimeoutSeconds": 91, "upscalingMode": "Conservative"}


def test_autoscaling_from_nothing_still_has_a_worker_group() -> None:
    manifest = rendered(ray(RaySection(autoscaling=Autoscaling(min_workers=0, max_workers=3)), workers=0))
    assert cluster(manifest)["workerGroupSpecs"][0]["maxReplicas"] == 3


@pytest.mark.parametrize("queued", [True, False])
def test_autoscaling_job_tells_the_queue_that_it_is_elastic(queued: bool) -> None:
    form = ray(RaySection(autoscaling=Autoscaling(min_workers=1, max_workers=3)), workers=1)
    metadata = job(rendered(form, queued=queued))["metadata"]
    assert metadata["annotations"].get("kueue.x-k8s.io/elastic-job") == ("true" if queued else None)
    assert metadata.get("finalizers") == (["ray.io/rayjob-finalizer"] if queued else None)


def test_shared_storage_stands_on_head_and_workers_below_the_runs_own_path() -> None:
    form = ray(RaySection(shared_storage=SharedStorage(volume="team-data")), workers=2)
    manifest = rendered(form, mounts=(SHARED,))
    found = [
        mount
        for role in ("head", "worker")
        for mount in container(manifest, role)["volumeMounts"]
        if mount["mountPath"] == "/tmp/ray"
    ]
    assert found == [{"name": "claim-0", "mountPath": "/tmp/ray", "subPath": f"group/siflow-ray/{manifest.name}"}] * 2


def test_next_attempt_finds_the_shared_storage_of_the_first() -> None:
    form = ray(RaySection(shared_storage=SharedStorage(volume="team-data")))
    paths = [
        next(m["subPath"] for m in container(manifest, "head")["volumeMounts"] if m["mountPath"] == "/tmp/ray")
        for manifest in (rendered(form, mounts=(SHARED,)), rendered(form, attempt=2, mounts=(SHARED,)))
    ]
    assert paths[0] == paths[1]


@pytest.mark.parametrize("path", ["/tmp/ray", "/tmp"])
def test_rays_sockets_lie_on_the_pods_own_disk_when_a_claim_covers_its_folder(path: str) -> None:
    manifest = rendered(ray(workers=1), mounts=(Mount("volume", "v", path, pvc="v"),))
    assert cluster(manifest)["headGroupSpec"]["rayStartParams"] == {"temp-dir": "/run/siflow/ray"}
    assert {env(manifest, role)["RAY_TMPDIR"] for role in ("head", "worker")} == {"/run/siflow"}


def test_rays_folder_stays_where_people_look_for_it_otherwise() -> None:
    manifest = rendered(ray(workers=1))
    assert cluster(manifest)["headGroupSpec"]["rayStartParams"] == {}
    assert "RAY_TMPDIR" not in env(manifest, "head")


def test_autoscaler_beside_the_head_sees_the_same_folders() -> None:
    section = RaySection(
        shared_storage=SharedStorage(volume="team-data"), autoscaling=Autoscaling(min_workers=1, max_workers=2)
    )
    manifest = rendered(ray(section, workers=1), mounts=(SHARED,))
    options = cluster(manifest)["autoscalerOptions"]
    head = {mount["mountPath"]: mount for mount in container(manifest, "head")["volumeMounts"]}
    assert options["env"] == [{"name": "RAY_TMPDIR", "value": "/run/siflow"}]
    assert options["volumeMounts"] == [head["/tmp/ray"], head["/run/siflow"]]


def test_job_says_what_is_to_be_removed_from_shared_storage_after_its_end() -> None:
    form = ray(RaySection(shared_storage=SharedStorage(volume="team-data", clean_up=True)))
    manifest = rendered(form, mounts=(SHARED,))
    note = json.loads(job(manifest)["metadata"]["annotations"]["siflow-provider/clean-up"])
    assert note == {"claim": "team-data", "path": f"group/siflow-ray/{manifest.name}"}


def test_shared_storage_that_is_kept_has_no_such_note() -> None:
    form = ray(RaySection(shared_storage=SharedStorage(volume="team-data")))
    assert "siflow-provider/clean-up" not in job(rendered(form, mounts=(SHARED,)))["metadata"]["annotations"]
