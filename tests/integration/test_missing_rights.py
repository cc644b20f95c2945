"""Rights that are missing for a moment, as while a Role is applied anew, cost a run nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.settings import Settings
from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
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
