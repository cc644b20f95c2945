"""A real kubelet that gets no image: `image_pull_retries` ends the run after as many pulls, or looks, as it allows."""

from __future__ import annotations

import asyncio
from typing import Any

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import OutcomeKind
from siflow_provider.core.policy import follow_policy
from siflow_provider.core.status import Failure, FailureClass
from tests.contract.life import Told, start
from tests.control_plane.admin import Admin
from tests.integration.real_tasks import ON, real_task

_FETCH = {"name": "fetch", "image": "absent.invalid/fetch:1", "imagePullPolicy": "Never", "command": ["true"]}
_NO_PULL = {"spec": {"pytorchReplicaSpecs": {"Master": {"template": {"spec": {"initContainers": [_FETCH]}}}}}}


async def failure_of(backend: KubernetesBackend, **form: Any) -> Failure:
    """Run a task that is given up, and return why."""
    task = real_task("true", **form)
    ref = await start(backend, task)
    outcome = await follow(backend, ref, follow_policy(task), told := Told())
    assert outcome.kind is OutcomeKind.FAILED, told.everything
    assert outcome.failure is not None
    return outcome.failure


async def test_a_pull_that_fails_is_given_up_after_the_retries_and_so_is_an_image_that_may_not_be_pulled(
    admin: Admin, backend: KubernetesBackend, namespace: str
) -> None:
    async with asyncio.timeout(150):
        pulled, absent = await asyncio.gather(
            failure_of(backend, image="nowhere.invalid/a:1", image_pull_retries=1),
            failure_of(backend, kubernetes={**ON, "patch": _NO_PULL}, image_pull_retries=1),
        )
    for failure, word in ((pulled, "nowhere.invalid/a:1"), (absent, "ErrImageNeverPull")):
        assert (failure.category, failure.replica) == (FailureClass.IMAGE, "master-0")
        assert failure.summary.startswith("image_pull_retries of 1: 2 failed pulls of one replica's image: ")
        assert word in failure.summary
    assert admin.items(admin.path("PyTorchJob", namespace=namespace, version="kubeflow.org/v1")) == []
