"""The Job that removes a run's data from shared storage."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.life.finish import cleaner
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


def test_every_attempt_has_the_same_one() -> None:
    first, second = shared_job(), shared_job(attempt=2)
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert made(first)["metadata"]["name"] == made(second)["metadata"]["name"]


def made(job: dict[str, Any]) -> dict[str, Any]:
    body = cleaner(job)
    assert body is not None
    return body
