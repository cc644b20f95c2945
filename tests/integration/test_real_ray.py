"""Real Ray pods: what reaches them, how long they are kept, and what they leave on a volume that they share."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import FollowPolicy, OutcomeKind
from tests.contract.life import Told, start, texts
from tests.control_plane.admin import Admin
from tests.control_plane.plane import ControlPlane
from tests.control_plane.volumes import claim
from tests.integration.kubernetes_tasks import opened
from tests.integration.real_tasks import real_task
from tests.unit.backends.kubernetes.test_command import NASTY, SHOW_ARGV

_KEPT_SECONDS = 20
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


async def test_command_and_runtime_env_arrive_byte_for_byte_and_the_cluster_is_kept_as_long_as_asked(
    admin: Admin, control_plane: ControlPlane, namespace: str
) -> None:
    odd = "$(id) `id` $$ $1 \"q\" 'q' \\\\ é"  # no $NAME: Ray itself expands those
    command = f"{shlex.join(['python3', '-c', SHOW_ARGV, *NASTY])}; printf 'odd=%s\\n' \"$ODD\""
    ray = {"runtime_env": {"env_vars": {"ODD": odd}}, "debug": {"keep_seconds": _KEPT_SECONDS}}
    clusters = admin.path("RayCluster", namespace=namespace, version="ray.io/v1")
    async with opened(control_plane.kubeconfig, namespace) as backend:
        ref = await start(backend, real_task(command, kind="RayJob", ray=ray))
        outcome = await follow(backend, ref, FollowPolicy(), told := Told())
    assert outcome.kind is OutcomeKind.SUCCEEDED, told.everything
    said = texts(told.lines, "submitter-0")
    assert json.dumps(NASTY) in said
    assert f"odd={odd}" in said
    (kept,) = admin.items(clusters)
    assert "deletionTimestamp" not in kept["metadata"]
    heads = admin.items(admin.path("Pod", namespace=namespace), labelSelector="ray.io/node-type=head")
    assert [head["status"]["phase"] for head in heads] == ["Running"]
    await asyncio.to_thread(admin.wait, clusters, lambda found: not (found or {})["items"], "the cluster is gone", 120)
    job = admin.find(admin.path("RayJob", ref.name, namespace, "ray.io/v1"))
    assert job is not None
    assert job["spec"]["ttlSecondsAfterFinished"] == _KEPT_SECONDS
