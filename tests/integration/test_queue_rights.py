"""Quota for a login with few rights: what it may not read is unknown, and never nothing."""

from __future__ import annotations

import json

import pytest
import yaml

from siflow_provider.backends.kubernetes.cluster.shared import open_cluster
from siflow_provider.backends.kubernetes.queueing.source import positions_of, quota
from siflow_provider.backends.settings import Settings
from siflow_provider.core.quota import QuotaReport, Verdict
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor
from tests.control_plane.admin import Admin
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import GPU, Queues
from tests.unit.backends.kubernetes.tasks import pytorch, resolved

_RBAC = "rbac.authorization.k8s.io"
_USER = "trainer"


@pytest.fixture
def settings(control_plane: ControlPlane, admin: Admin, namespace: str) -> Settings:
    """Return the connection of a service account that may read the LocalQueues of its namespace and nothing else."""
    place = {"name": _USER, "namespace": namespace}
    rule = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues"], "verbs": ["get", "list"]}
    subject = {"kind": "ServiceAccount", **place}
    for kind, version, more in (
        ("ServiceAccount", "v1", {}),
        ("Role", f"{_RBAC}/v1", {"rules": [rule]}),
        (
            "RoleBinding",
            f"{_RBAC}/v1",
            {"subjects": [subject], "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": _USER}},
        ),
    ):
        admin.create({"apiVersion": version, "kind": kind, "metadata": place, **more})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    account = admin.path("ServiceAccount", _USER, namespace)
    token = admin.request("POST", f"{account}/token", request)["status"]["token"]
    config = yaml.safe_load(control_plane.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": token}
    return Settings(backend="kubernetes", kubernetes={"kube_config": Hidden(json.dumps(config))})


async def ask(settings: Settings, namespace: str, queue: str) -> QuotaReport:
    resources = Resources.of({"cpu": 1, "memory": "1Gi", GPU: 64})
    task = resolved(pytorch(), flavors=(Flavor("gpu", resources, queue),), namespace=namespace)
    async with open_cluster(settings) as cluster:
        return await quota(cluster, task)


async def test_quota_that_may_not_be_read_is_unknown(settings: Settings, namespace: str, queues: Queues) -> None:
    report = await ask(settings, namespace, queues.queue(GPU=8))
    answers = (report.remaining, report.available, report.idle, report.ever)
    assert {answer.verdict for answer in answers} == {Verdict.UNKNOWN}
    assert "can't be read" in report.why_not()
    assert not report.fits_now


async def test_a_mistyped_queue_is_still_told(settings: Settings, namespace: str, queues: Queues) -> None:
    queue = queues.queue(GPU=8)
    assert f"did you mean {queue!r}?" in (await ask(settings, namespace, f"{queue}x")).why_not()


async def test_a_place_that_may_not_be_read_says_which_right_is_missing(
    settings: Settings, namespace: str, queues: Queues
) -> None:
    async with open_cluster(settings) as cluster:
        place, text = await positions_of(cluster).place(namespace, queues.queue(GPU=8), "any")
    assert place is None
    assert "visibility.kueue.x-k8s.io" in text
