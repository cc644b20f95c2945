"""Two Airflows with the same DAGs and run ids in one namespace, and DAG runs that are made again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.core import earlier
from siflow_provider.core.identity import Identity
from siflow_provider.core.launch import Launched, launch
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.status import Phase
from siflow_provider.errors import NameTaken
from tests.contract.life import Told, mine, until_phase
from tests.control_plane.admin import Admin
from tests.integration.kubernetes_tasks import path, task

LONG = {"duration": "600"}
INSTALLATION = "siflow-provider/installation"


async def begin(backend: KubernetesBackend, identity: Identity, instance: str, told: Told | None = None) -> Launched:
    context = RenderContext(identity, user_name="mia", instance=instance)
    return await launch(backend, task(None, fake=LONG), context, quota="ignore", reporter=told or Told())


async def test_two_airflows_in_one_namespace_have_a_job_each_and_leave_the_others_alone(
    admin: Admin, backend: KubernetesBackend
) -> None:
    blue = mine(installation="blue")
    green = blue.model_copy(update={"installation": "green"})
    theirs = await begin(backend, green, "g-1")
    first = await begin(backend, blue, "b-1")
    again = await begin(backend, blue, "b-2")  # its DAG run was deleted, and made again
    assert (await backend.status(first.ref)).phase is Phase.STOPPED
    status = await until_phase(backend, theirs.ref, Phase.RUNNING)
    assert status.origin is not None
    assert (status.origin.installation, status.origin.instance) == ("green", "g-1")
    for launched, name in ((theirs, "green"), (again, "blue")):
        job = admin.find(path(admin, launched.ref))
        assert job is not None
        assert job["metadata"]["annotations"][INSTALLATION] == name
    assert len({launched.ref.name for launched in (theirs, first, again)}) == 3


async def test_a_nameless_airflow_is_told_whose_live_job_has_its_ids_and_the_job_goes_on(
    backend: KubernetesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earlier, "_LET_GO_SECONDS", 2.0)
    identity = mine()
    theirs = await begin(backend, identity, "theirs")
    await until_phase(backend, theirs.ref, Phase.RUNNING)
    with pytest.raises(NameTaken, match=f"{theirs.ref.name} runs and belongs to another task instance"):
        await begin(backend, identity, "ours")
    assert (await backend.status(theirs.ref)).phase is Phase.RUNNING


async def test_a_job_of_a_deleted_dag_run_is_gone_before_the_new_one_is_made_under_a_name_of_its_own(
    admin: Admin, backend: KubernetesBackend
) -> None:
    identity, told = mine(), Told()
    old = await begin(backend, identity, "old")
    await until_phase(backend, old.ref, Phase.RUNNING)
    where = path(admin, old.ref)
    admin.patch(where, {"metadata": {"finalizers": ["test.example/kept"]}})
    admin.delete(where)
    making = asyncio.create_task(begin(backend, identity, "new", told))
    await told.until_warning(f"waiting until nothing of {old.ref.name} is left")
    assert not making.done()
    admin.patch(where, {"metadata": {"finalizers": None}})
    new = await making
    assert (new.adopted, new.generation) == (False, 1)
    assert new.ref.name != old.ref.name
    pods = admin.items(admin.path("Pod", namespace=old.ref.namespace))
    assert {pod["metadata"]["labels"]["siflow-provider/run"] for pod in pods} <= {new.ref.task_uuid}


async def test_what_a_deleted_job_left_is_not_shown_as_a_replica_of_the_one_submitted_after_it(
    admin: Admin, backend: KubernetesBackend
) -> None:
    identity = mine()
    old = await begin(backend, identity, "same")
    await until_phase(backend, old.ref, Phase.RUNNING)
    pod = admin.path("Pod", f"{old.ref.name}-master-0", old.ref.namespace)
    admin.patch(pod, {"metadata": {"finalizers": ["test.example/kept"]}})
    admin.delete(path(admin, old.ref))
    await asyncio.to_thread(admin.wait, path(admin, old.ref), lambda found: found is None, "gone")
    left = admin.find(pod)
    assert left is not None
    made = datetime.fromisoformat(left["metadata"]["creationTimestamp"])
    # the times of objects are whole seconds
    await asyncio.to_thread(admin.wait, pod, lambda _: datetime.now(UTC) - made > timedelta(seconds=1), "of the past")
    new = await begin(backend, identity, "same")
    (status,) = await backend.runs()
    assert (status.ref, status.phase.terminal) == (new.ref, False)
    assert new.ref.uid != old.ref.uid
    assert [(replica.name, replica.node) for replica in status.replicas] == [("master-0", None)]
    assert status.phase is not Phase.RUNNING
    admin.patch(pod, {"metadata": {"finalizers": None}})
    await until_phase(backend, new.ref, Phase.RUNNING)
