"""The Job that removes a run's data from shared storage."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.shared import open_cluster
from siflow_provider.backends.kubernetes.life.finish import cleaner, finish
from siflow_provider.backends.settings import Settings
from siflow_provider.core.status import JobRef
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer
from tests.unit.backends.kubernetes.life.rayjobs import shared_job


def test_a_run_that_keeps_its_data_has_nothing_to_clean() -> None:
    assert cleaner(shared_job(clean_up=False)) is None


@pytest.mark.parametrize(("keep", "seconds"), [(None, "30"), ("2m", "150")])
def test_data_goes_once_the_cluster_is_gone(keep: str | None, seconds: str) -> None:
    container = made(shared_job(keep=keep))["spec"]["template"]["spec"]["containers"][0]
    assert container["command"][3] == seconds


def test_only_the_runs_own_folder_can_be_reached() -> None:
    job = shared_job()
    name = job["metadata"]["name"]
    pod = made(job)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (mount,) = container["volumeMounts"]
    assert pod["volumes"] == [{"name": "shared", "persistentVolumeClaim": {"claimName": "scratch"}}]
    assert mount["subPath"] == "team/siflow-ray"
    assert container["command"][-1] == f"{mount['mountPath']}/{name}"


def test_it_is_pulled_and_placed_like_the_run() -> None:
    pod = made(shared_job(kubernetes={"service_account": "trainer", "image_pull_secrets": ["regcred"]}))
    spec = pod["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "trainer"
    assert spec["imagePullSecrets"] == [{"name": "regcred"}]
    assert spec["containers"][0]["image"] == "registry.example/ray:2"


def test_it_has_the_rights_of_the_run_and_no_more() -> None:
    job, user, narrow = shared_job(), {"runAsUser": 1000, "fsGroup": 100}, {"allowPrivilegeEscalation": False}
    assert "securityContext" not in made(job)["spec"]["template"]["spec"]
    template = job["spec"]["submitterPodTemplate"]["spec"]
    template["securityContext"], template["containers"][0]["securityContext"] = user, narrow
    pod = made(job)["spec"]["template"]["spec"]
    assert (pod["securityContext"], pod["containers"][0]["securityContext"]) == (user, narrow)


async def test_the_data_of_a_job_that_somebody_else_deleted_is_not_left_in_silence(
    server: FakeServer, settings: Settings, pace: Pace, caplog: pytest.LogCaptureFixture
) -> None:
    gone = JobRef(
        backend="kubernetes", kind="RayJob", name="tune", namespace="ml", uid="gone", task_uuid="0b5c", attempt=1
    )
    async with open_cluster(settings, pace=pace) as cluster:
        await finish(cluster, gone)
    assert "RayJob tune in namespace ml was deleted by somebody else" in caplog.text
    assert server.count("create") == 0


def test_every_attempt_has_the_same_one() -> None:
    first, second = shared_job(), shared_job(attempt=2)
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert made(first)["metadata"]["name"] == made(second)["metadata"]["name"]


def made(job: dict[str, Any]) -> dict[str, Any]:
    body = cleaner(job)
    assert body is not None
    return body
