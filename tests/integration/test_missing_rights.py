"""Rights that are missing for a moment, as while a Role is applied anew, cost a run nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.errors import Denied
from siflow_provider.backends.kubernetes.cluster.resources import PYTORCHJOBS
from siflow_provider.backends.settings import Settings
from siflow_provider.core.follow import follow
from siflow_provider.core.identity import Identity
from siflow_provider.core.launch import launch
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from siflow_provider.core.protocol import RenderContext
from siflow_provider.spec.hidden import Hidden
from tests.contract.life import Told
from tests.control_plane.admin import Admin
from tests.control_plane.faults import bad_way
from tests.control_plane.plane import ControlPlane
from tests.integration.kubernetes_tasks import manifest, path, task
from tests.integration.logins import Logins

_POLICY = FollowPolicy(logs="all")
_FAKE = {"logs": "hello", "log-interval": "1"}


def _as_another_process(settings: Settings) -> Settings:
    """Return the same login in a form that shares nothing with the first."""
    config = settings.kubernetes["kube_config"].reveal()
    return settings.model_copy(update={"kubernetes": {**settings.kubernetes, "kube_config": Hidden(config + "\n")}})


async def test_rights_that_are_missing_for_a_moment_end_no_following(
    control_plane: ControlPlane, admin: Admin, namespace: str, tmp_path: Path
) -> None:
    """One follower is at work when the rights go, another one begins without any, as after a triggerer's restart."""
    async with bad_way(control_plane.kubeconfig, tmp_path) as way:
        logins = Logins(admin, namespace, way.kubeconfig)
        settings = await logins.login()
        early, late = Told(), Told()
        async with (
            asyncio.timeout(200),
            KubernetesBackend(settings) as backend,
            KubernetesBackend(_as_another_process(settings)) as other,
        ):
            ref = await backend.submit(manifest(backend, task(None, fake=_FAKE)))
            following = [asyncio.create_task(follow(backend, ref, _POLICY, early))]
            await early.until_line("hello")
            async with logins.taken_away(settings):
                way.cut()  # what is open stays open without rights, until it has to be opened anew
                following.append(asyncio.create_task(follow(other, ref, _POLICY, late)))
                await late.until_warning("no answer about the run at the moment")
            seen = await asyncio.to_thread(admin.find, path(admin, ref))
            assert seen is not None
            assert (seen["metadata"]["uid"], seen["metadata"].get("deletionTimestamp")) == (ref.uid, None)
            await late.until_line("hello")
            pod = admin.path("Pod", f"{ref.name}-master-0", namespace)
            await asyncio.to_thread(admin.annotate, pod, exit_code="0", duration="0")
            outcomes = await asyncio.gather(*following)
        logins.close()
    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.SUCCEEDED] * 2
    (told,) = late.warnings
    assert 'Add `- {apiGroups: ["kubeflow.org"], resources: ["pytorchjobs"], verbs:' in told
    assert "`siflow-provider doctor` lists all" in told


async def _without_list(admin: Admin, settings: Settings, namespace: str) -> None:
    """Take the right to list away from all rules of the test's namespace, and wait until that counts."""
    path = admin.path("Role", "siflow-provider", namespace, "rbac.authorization.k8s.io/v1")
    role = await asyncio.to_thread(admin.find, path)
    assert role is not None
    rules = [{**rule, "verbs": [verb for verb in rule["verbs"] if verb != "list"] or ["get"]} for rule in role["rules"]]
    await asyncio.to_thread(admin.patch, path, {"rules": rules})
    async with Api(settings) as api, asyncio.timeout(60):
        while await _may_list(api, namespace):
            pass


async def _may_list(api: Api, namespace: str) -> bool:
    try:
        await api.list(PYTORCHJOBS.path(namespace))
    except Denied:
        return False
    return True


async def test_without_the_right_to_list_a_run_is_submitted_adopted_followed_and_stopped(
    control_plane: ControlPlane, admin: Admin, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    logins = Logins(admin, namespace, control_plane.kubeconfig)
    settings = await logins.login()
    await _without_list(admin, settings, namespace)
    what, context, told = task(None, fake=_FAKE), RenderContext(identity=Identity.random("train")), Told()
    async with asyncio.timeout(200), KubernetesBackend(settings) as backend:
        first = await launch(backend, what, context, quota="require", reporter=told)
        async with KubernetesBackend(_as_another_process(settings)) as other:  # the first process died
            again = await launch(other, what, context, quota="require", reporter=told)
        assert (first.adopted, again.adopted, again.ref) == (False, True, first.ref)
        jobs = await asyncio.to_thread(admin.items, admin.path("PyTorchJob", "", namespace, "kubeflow.org/v1"))
        assert len(jobs) == 1
        following = asyncio.create_task(follow(backend, first.ref, _POLICY, told))
        await told.until_line("hello")
        pod = admin.path("Pod", f"{first.ref.name}-master-0", namespace)
        await asyncio.to_thread(admin.annotate, pod, exit_code="0", duration="0")
        assert (await following).kind is OutcomeKind.SUCCEEDED
        second = await launch(
            backend, what, replace(context, identity=Identity.random("train")), quota="require", reporter=told
        )
        later = Told()
        following = asyncio.create_task(follow(backend, second.ref, _POLICY, later))
        await later.until_line("hello")
        assert [status.ref for status in await backend.find_named(second.ref.name)] == [second.ref]
        await backend.stop(second.ref, by="mia")
        assert (await following).kind is OutcomeKind.STOPPED
    logins.close()
    said = [record.getMessage() for record in caplog.records if "looked for by their names" in record.getMessage()]
    assert len(said) == 2  # once in each process
    assert 'Add `- {apiGroups: ["kubeflow.org"], resources: ["pytorchjobs"], verbs: ["list"]}`' in said[0]
