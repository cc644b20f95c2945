"""Which API a form of kind PyTorchJob is submitted to, and how a TrainJob gets its runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from siflow_provider.backends.kubernetes.cluster.errors import Denied
from siflow_provider.backends.kubernetes.cluster.features import Features
from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.resources import (
    PYTORCHJOBS,
    TRAINING_RUNTIMES,
    TRAINJOBS,
    Resource,
    resource_of,
)
from siflow_provider.backends.kubernetes.cluster.shared import Cluster, open_cluster
from siflow_provider.backends.kubernetes.life.submit import submit
from siflow_provider.backends.settings import Settings
from siflow_provider.core.protocol import Manifest
from siflow_provider.core.status import JobRef
from siflow_provider.errors import BackendError, NameTaken, UnsupportedError
from siflow_provider.spec.policy import KubernetesOptions
from tests.unit.backends.kubernetes.cluster.conftest import pace, server, settings, waits
from tests.unit.backends.kubernetes.cluster.fake_server import FakeServer, answers
from tests.unit.backends.kubernetes.life.test_submit import kept_without_answer, through
from tests.unit.backends.kubernetes.tasks import pytorch, rendered

__all__ = ["pace", "server", "settings", "waits"]

UNSEEN = answers(403, "Forbidden", "denied: specified trainingRuntime must be created before the TrainJob is created")


def served(server: FakeServer, *resources: Resource) -> None:
    groups: dict[str, list[dict[str, Any]]] = {}
    for resource in resources:
        groups.setdefault(resource.group, []).append({"resource": resource.plural})
    versions = {resource.group: resource.version for resource in resources}
    server.documents["/apis"] = {
        "kind": "APIGroupDiscoveryList",
        "items": [
            {"metadata": {"name": group}, "versions": [{"version": versions[group], "resources": found}]}
            for group, found in groups.items()
        ],
    }


@pytest.fixture
async def cluster(server: FakeServer, settings: Settings, pace: Pace) -> AsyncIterator[Cluster]:
    served(server, TRAINJOBS)
    async with open_cluster(settings, pace=pace) as opened:
        yield opened


@pytest.fixture
def manifest() -> Manifest:
    """A run as it is rendered where no cluster was asked."""
    return rendered(pytorch(workers=1))


async def found(cluster: Cluster, resource: Resource) -> list[dict[str, Any]]:
    return list((await cluster.api.list(resource.path("ml")))["items"])


@pytest.mark.parametrize(
    ("pytorchjob", "trainjob", "wanted", "chosen"),
    [
        (True, False, "auto", "PyTorchJob"),
        (False, True, "auto", "TrainJob"),
        (True, True, "auto", "PyTorchJob"),
        (False, False, "auto", "PyTorchJob"),
        (True, True, "trainjob", "TrainJob"),
        (False, True, "pytorchjob", "PyTorchJob"),
    ],
)
def test_a_pytorchjob_is_preferred_and_the_connection_has_the_last_word(
    pytorchjob: bool, trainjob: bool, wanted: str, chosen: str
) -> None:
    has = Features(kueue=True, pytorchjob=pytorchjob, rayjob=True, trainjob=trainjob, podmonitor=False)
    assert has.training_api(wanted) == chosen


async def test_a_form_becomes_a_trainjob_that_owns_its_runtime(cluster: Cluster, manifest: Manifest) -> None:
    ref = await submit(cluster, manifest, context="")
    assert (ref.kind, ref.api, ref.name) == ("PyTorchJob", "TrainJob", manifest.name)
    (job,) = await found(cluster, TRAINJOBS)
    (runtime,) = await found(cluster, TRAINING_RUNTIMES)
    assert [owner["uid"] for owner in runtime["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
    assert await submit(cluster, manifest, context="") == ref
    assert resource_of(JobRef.model_validate_json(ref.model_dump_json())) is TRAINJOBS


async def test_where_both_are_known_the_connection_may_ask_for_a_trainjob(
    server: FakeServer, cluster: Cluster, manifest: Manifest
) -> None:
    served(server, TRAINJOBS, PYTORCHJOBS)
    assert (await submit(cluster, manifest, context="")).api == ""
    assert await found(cluster, TRAINING_RUNTIMES) == []
    assert (await submit(cluster, manifest, context="", training_api="trainjob")).api == "TrainJob"


async def test_a_runtime_that_the_webhooks_do_not_see_yet_is_waited_for(
    server: FakeServer, cluster: Cluster, manifest: Manifest
) -> None:
    server.faults["create"].extend([through, UNSEEN, UNSEEN])
    ref = await submit(cluster, manifest, context="")
    assert [job["metadata"]["uid"] for job in await found(cluster, TRAINJOBS)] == [ref.uid]


async def test_nothing_is_left_of_a_job_that_is_refused(
    server: FakeServer, cluster: Cluster, manifest: Manifest
) -> None:
    server.faults["create"].extend([through, answers(403, "Forbidden", "denied by the policy of this cluster")])
    with pytest.raises(Denied):
        await submit(cluster, manifest, context="")
    assert await found(cluster, TRAINING_RUNTIMES) == []


async def test_nothing_is_left_of_a_job_whose_runtime_can_not_be_given_to_it(
    server: FakeServer, cluster: Cluster, manifest: Manifest
) -> None:
    server.faults["patch"].append(answers(403, "Forbidden", "cannot patch resource trainingruntimes"))
    with pytest.raises(Denied):
        await submit(cluster, manifest, context="")
    assert await found(cluster, TRAINJOBS) == await found(cluster, TRAINING_RUNTIMES) == []


async def test_a_runtime_of_a_submission_that_was_cut_short_is_taken_up(
    server: FakeServer, cluster: Cluster, manifest: Manifest
) -> None:
    server.faults["create"].append(kept_without_answer(server))
    ref = await submit(cluster, manifest, context="")
    (runtime,) = await found(cluster, TRAINING_RUNTIMES)
    assert [owner["uid"] for owner in runtime["metadata"]["ownerReferences"]] == [ref.uid]


async def test_a_runtime_of_somebody_else_is_named_and_left_alone(
    server: FakeServer, cluster: Cluster, manifest: Manifest
) -> None:
    labels = {"app.kubernetes.io/managed-by": "helm"}
    server.put(TRAINING_RUNTIMES.path("ml"), {"metadata": {"name": manifest.name, "namespace": "ml", "labels": labels}})
    with pytest.raises(NameTaken, match="helm"):
        await submit(cluster, manifest, context="")
    assert await found(cluster, TRAINJOBS) == []


async def test_a_cluster_with_neither_says_what_to_install(
    server: FakeServer, cluster: Cluster, manifest: Manifest
) -> None:
    served(server)
    with pytest.raises(BackendError, match=r"does not know PyTorchJob.*training operator or Kubeflow Trainer"):
        await submit(cluster, manifest, context="")
    with pytest.raises(BackendError, match=r"does not know TrainJob \(trainer\.kubeflow\.org/v1alpha1\)"):
        await submit(cluster, manifest, context="", training_api="trainjob")


async def test_what_the_cluster_s_api_can_not_carry_is_told_before_anything_is_sent(
    server: FakeServer, cluster: Cluster
) -> None:
    patched = rendered(pytorch(kubernetes=KubernetesOptions(patch={"spec": {"runPolicy": {}}})))
    with pytest.raises(UnsupportedError, match="runPolicy"):
        await submit(cluster, patched, context="")
    assert server.count("create") == 0
