"""The Job that removes a run's data from shared storage."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.resources import RAYJOBS
from siflow_provider.backends.kubernetes.cluster.shared import open_cluster
from siflow_provider.backends.kubernetes.life.finish import cleaner, finish
from siflow_provider.backends.kubernetes.life.marks import ref_of, stop_notes
from siflow_provider.backends.kubernetes.life.watch import watch
from siflow_provider.backends.settings import Settings
from siflow_provider.core.pump import closing_stream
from siflow_provider.core.status import JobRef, Phase
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


@pytest.mark.parametrize(
    ("clean_up", "stopped", "told"),
    [
        (True, False, "its data is still on the claim 'scratch', in 'team/siflow-ray/"),
        (True, True, ""),  # by another process of ours, which has all of the job and removes its data
        (False, False, ""),
    ],
)
async def test_only_data_that_really_stays_is_warned_of_where_a_job_was_seen_to_go(
    server: FakeServer, settings: Settings, pace: Pace, caplog: pytest.LogCaptureFixture, *,
    clean_up: bool, stopped: bool, told: str,
) -> None:  # fmt: skip
    job = shared_job(clean_up=clean_up)
    job["metadata"] |= {"uid": f"went-{clean_up}-{stopped}", "creationTimestamp": "2026-05-01T10:00:00Z"}
    if stopped:
        job["metadata"]["annotations"] |= stop_notes("a new try")
    path = RAYJOBS.path("ml")
    server.put(path, job)
    ref = ref_of(job, context="")
    assert ref is not None
    async with open_cluster(settings, pace=pace) as cluster, closing_stream(watch(cluster, ref)) as statuses:
        seen = [(await anext(statuses)).phase]
        server.remove(path, ref.name)
        seen += [status.phase async for status in statuses]
        await finish(cluster, ref)
    assert seen[-1] is (Phase.STOPPED if stopped else Phase.LOST)
    warned = [record.getMessage() for record in caplog.records if "deleted by somebody else" in record.getMessage()]
    assert bool(warned) is bool(told)
    assert told in "".join(warned)
    assert server.count("create") == 0


def test_every_attempt_has_the_same_one() -> None:
    first, second = shared_job(), shared_job(attempt=2)
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert made(first)["metadata"]["name"] == made(second)["metadata"]["name"]


def made(job: dict[str, Any]) -> dict[str, Any]:
    body = cleaner(job)
    assert body is not None
    return body
