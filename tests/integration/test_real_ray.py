"""What real Ray pods leave on a volume that they share goes, whatever the end of their run was."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from tests.contract.life import Told, start
from tests.control_plane.admin import Admin
from tests.control_plane.plane import ControlPlane
from tests.control_plane.volumes import claim
from tests.integration.kubernetes_tasks import opened
from tests.integration.real_tasks import real_task

WRITE = "echo data > /tmp/ray/data; "


async def fail(backend: KubernetesBackend, ray: Mapping[str, object]) -> str:
    """Run a job that fails to its end, and return its name."""
    ref = await start(backend, real_task(f"{WRITE} exit 3", kind="RayJob", ray=ray))
    failure = (await follow(backend, ref, FollowPolicy(), told := Told())).failure
    assert failure is not None
    assert failure.exit_code == 3, told.everything
    await backend.finish(ref)
    return ref.name


async def stop(backend: KubernetesBackend, ray: Mapping[str, object]) -> str:
    """Stop a job once it has written, and return its name."""
    task = real_task(f"{WRITE} echo written; sleep 600", kind="RayJob", ray=ray, ssh=True)
    ref = await start(backend, task)
    following = asyncio.create_task(follow(backend, ref, FollowPolicy(), told := Told()))
    await told.until_line("written", seconds=200)
    await backend.stop(ref, by="mia")
    assert (await following).kind is OutcomeKind.STOPPED
    await backend.finish(ref)
    return ref.name


async def test_data_of_a_run_that_failed_or_was_stopped_is_removed_and_nothing_else(
    admin: Admin, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """The one that is stopped has SSH too, whose hostfile its head writes."""
    neighbour = tmp_path / "siflow-ray" / "of-another-run"
    neighbour.mkdir(parents=True)
    with claim(admin, namespace, tmp_path) as name:
        ray = {"shared_storage": {"volume": f"pvc:{name}", "clean_up": True}}
        async with opened(control_plane.kubeconfig, namespace) as backend:
            runs = await asyncio.gather(fail(backend, ray), stop(backend, ray))
        folders = {path.name for path in neighbour.parent.iterdir()}
        assert folders == {*runs, neighbour.name}
        for run in runs:
            path = admin.path("Job", f"{run}-clean-up", namespace, "batch/v1")
            await asyncio.to_thread(
                admin.wait, path, lambda found: found and found["status"].get("succeeded"), "done", 120
            )
        assert [path.name for path in neighbour.parent.iterdir()] == [neighbour.name]
