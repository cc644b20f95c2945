"""The objects of every example and of the forms that use every field, before the real API server and controllers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.errors import ApiError
from siflow_provider.backends.kubernetes.cluster.resources import Resource, job_resource
from siflow_provider.backends.kubernetes.rendering import job_in, render
from siflow_provider.spec.task import RayJob
from tests.control_plane.admin import Admin, Object
from tests.control_plane.plane import ControlPlane
from tests.golden.manifests import FORMS, rendered
from tests.integration.clusters import settings_for

WHOLE = [form for form in FORMS if form.stem != "templates"]
RAY = [form for form in WHOLE if rendered(form).task.task.kind == "RayJob"]


def placed(form: Path, namespace: str) -> tuple[Resource, Object]:
    """Return the job as it is rendered, in the test's namespace, and its kind; outside of a queue if it is to grow."""
    made = rendered(form)
    if isinstance(made.task.task, RayJob) and made.task.task.ray.autoscaling is not None:
        made = render(made.task, replace(made.context, queued=False))
    document: Any = dict(job_in(made.documents))
    document["metadata"] = {**document["metadata"], "namespace": namespace}
    return job_resource(document["kind"]), document


@pytest.mark.parametrize("form", WHOLE, ids=lambda form: form.stem)
async def test_the_api_server_and_all_webhooks_take_the_job_as_it_is(
    control_plane: ControlPlane, namespace: str, form: Path
) -> None:
    resource, document = placed(form, namespace)
    async with Api(settings_for(control_plane.kubeconfig)) as api:
        made = await api.create(resource.path(namespace), document, dry_run=True)
        document["spec"]["unheardOf"] = True
        with pytest.raises(ApiError, match="unheardOf"):
            await api.create(resource.path(namespace), document, dry_run=True)
    assert made["metadata"]["name"] == document["metadata"]["name"]


def state(found: Object | None) -> str:
    return str(((found or {}).get("status") or {}).get("jobDeploymentStatus") or "")


@pytest.mark.parametrize("form", RAY, ids=lambda form: form.stem)
async def test_kuberay_finds_nothing_wrong_with_a_ray_job(admin: Admin, namespace: str, form: Path) -> None:
    resource, document = placed(form, namespace)
    path = f"{resource.path(namespace)}/{document['metadata']['name']}"
    await asyncio.to_thread(admin.create, document)
    found = await asyncio.to_thread(admin.wait, path, state, "KubeRay has looked at it")
    assert state(found) in {"Initializing", "Suspending", "Suspended"}, found


async def test_kuberay_would_say_what_is_wrong(admin: Admin, namespace: str) -> None:
    resource, document = placed(RAY[0], namespace)
    document["spec"] |= {"suspend": True, "shutdownAfterJobFinishes": False}
    document["metadata"]["labels"] = {}
    path = f"{resource.path(namespace)}/{document['metadata']['name']}"
    await asyncio.to_thread(admin.create, document)
    found = await asyncio.to_thread(admin.wait, path, state, "KubeRay has looked at it")
    assert state(found) == "ValidationFailed"
