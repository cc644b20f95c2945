"""A form of kind PyTorchJob on a cluster with Kubeflow Trainer: the same run, by a login with just its rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.kubernetes.checkup.examine import check_kubernetes
from siflow_provider.backends.kubernetes.checkup.rules import RULES, Rule
from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.errors import ApiError
from siflow_provider.backends.kubernetes.cluster.resources import TRAINJOBS
from siflow_provider.backends.kubernetes.cluster.rights import rule_text
from siflow_provider.backends.kubernetes.life.runtime import lacks_runtime
from siflow_provider.backends.settings import Settings
from siflow_provider.core.identity import Identity
from siflow_provider.core.status import JobRef, LogCursor, Phase
from siflow_provider.errors import BackendError
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor, ResolvedTask
from tests.contract.life import end, read, start, texts, until, until_phase
from tests.control_plane.admin import Admin, Object
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import GPU, Queues, own_place
from tests.golden.manifests import TRAINJOB_FORMS, rendered_trainjob
from tests.integration.clusters import settings_for
from tests.integration.kubernetes_tasks import manifest, owners, path, task
from tests.integration.logins import Logins

CONTROL_PLANE_OPTIONS = ("--trainer", "--real-node")
WHOLE = [form for form in TRAINJOB_FORMS if form.stem != "templates"]
OF_THIS_PLANE = [rule for rule in RULES if rule.feature in {"trainjob", "podmonitor"}]
CONFIG = Path(__file__).parents[1] / "control_plane" / "config"
SIZE = {"cpu": "100m", "memory": "512Mi"}
COMMAND = """\
set -e
echo "$RANK of $WORLD_SIZE, 'as' $(hostname) wrote it"
if [ "$RANK" = 0 ]; then ssh "$(tail -n 1 "$SIFLOW_HOSTFILE.hostname")" 'echo over ssh'; fi
python - <<'END'
import json, os
import torch, torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([float(os.environ["RANK"]) + 1])
dist.all_reduce(total)
json.dump({"total": total.item()}, open(os.environ["SIFLOW_RESULTS"], "w"))
END
"""


@pytest.fixture
def queues(own_admin: Admin) -> Iterator[Queues]:
    with own_place(own_admin) as place:
        yield place


@pytest.fixture
def namespace(queues: Queues) -> str:
    return queues.namespace


@pytest.fixture
async def settings(own_control_plane: ControlPlane, own_admin: Admin, namespace: str) -> AsyncIterator[Settings]:
    logins = Logins(own_admin, namespace, own_control_plane.kubeconfig)
    yield await logins.login()
    logins.close()


@pytest.fixture
async def backend(settings: Settings) -> AsyncIterator[KubernetesBackend]:
    async with KubernetesBackend(settings) as opened:
        yield opened


@pytest.mark.parametrize("form", WHOLE, ids=lambda form: form.stem)
async def test_the_api_server_and_all_webhooks_take_the_objects_as_they_are(
    own_control_plane: ControlPlane, own_admin: Admin, namespace: str, form: Path
) -> None:
    runtime, job, *_ = [dict(each) for each in rendered_trainjob(form).documents]
    for each in (runtime, job):
        each["metadata"] = {**each["metadata"], "namespace": namespace}
    own_admin.create(runtime)
    async with Api(settings_for(own_control_plane.kubeconfig)) as api, asyncio.timeout(20):
        made = await _dry_run(api, namespace, job)
    assert made["spec"]["trainer"] == job["spec"]["trainer"]


async def _dry_run(api: Api, namespace: str, job: dict[str, Any]) -> dict[str, Any]:
    while True:
        try:
            return await api.create(TRAINJOBS.path(namespace), job, dry_run=True)
        except ApiError as error:
            if not lacks_runtime(error):  # the webhooks see it a moment later
                raise


async def test_doctor_finds_all_that_a_task_needs(settings: Settings) -> None:
    checks = await check_kubernetes(settings)
    assert [check for check in checks if not check.ok and check.needed] == []
    told = {check.name: check.found for check in checks}
    assert told["kind TrainJob"] == "trainer.kubeflow.org/v1alpha1"
    assert told[f"webhooks: TrainJob in {settings.kubernetes['namespace']}"] == "a dry run is answered"


async def test_real_ranks_meet_and_another_process_reads_them(
    backend: KubernetesBackend, settings: Settings, queues: Queues
) -> None:
    real = Flavor(instance="in-place", resources=Resources.of(SIZE), queue=queues.queue("real"))
    what = task(None, command=COMMAND, workers=1, ssh=True, kubernetes={})
    ref = await start(backend, _on(what, real, "torch:test"))
    async with KubernetesBackend(settings) as other:
        lines = await read(other, ref)
        status = await other.status(ref)
    assert status.phase is Phase.SUCCEEDED, status
    first, second = texts(lines, "master-0"), texts(lines, "worker-0")
    assert first[:2] == [f"0 of 2, 'as' {ref.name}-pod-0-0 wrote it", "over ssh"]
    assert second[0] == f"1 of 2, 'as' {ref.name}-pod-0-1 wrote it"
    assert '::siflow-result:: {"total": 3.0}' in first
    assert [replica.exit_code for replica in status.replicas] == [0, 0]


def _on(what: ResolvedTask, flavor: Flavor, image: str) -> ResolvedTask:
    return replace(what, flavors=(flavor,), image=image)


async def test_a_run_waits_in_its_queue_is_found_everywhere_and_takes_all_with_it(
    backend: KubernetesBackend, settings: Settings, own_admin: Admin, queues: Queues
) -> None:
    queue = queues.queue("kwok", GPU=2)
    first = await start(backend, task(queue, workers=1, fake={"duration": "600"}))
    await until_phase(backend, first, Phase.RUNNING)
    sent = manifest(backend, task(queue, workers=1, fake={"duration": "1"}))
    second = await backend.submit(sent)
    waiting = await until(backend, second, lambda status: status.queue is not None and status.queue.position == 1)
    assert waiting.phase is Phase.QUEUED
    assert waiting.gpus == 2
    async with KubernetesBackend(settings) as other:
        assert await other.find(sent.context.identity) == second
        assert [status.ref for status in await other.find_named(second.name)] == [second]
        assert [status.ref for status in await other.runs()] == [second, first]
        assert (await other.quota(sent.task)).fits_now is False
        await other.stop(first, by="mia")
    stopped = await backend.status(first)
    assert (stopped.phase, stopped.stopped_by) == (Phase.STOPPED, "mia")
    assert (await end(backend, second)).phase is Phase.SUCCEEDED
    runtime, secret = _runtime(own_admin, second), path(own_admin, second, "Secret", "-env")
    assert owners(own_admin.find(runtime)) == owners(own_admin.find(secret)) == [second.uid]
    await backend.delete(second)
    for each in (runtime, secret, _runtime(own_admin, first)):
        await asyncio.to_thread(own_admin.wait, each, lambda found: found is None, "gone with the job")


def _runtime(admin: Admin, ref: JobRef) -> str:
    return admin.path("TrainingRuntime", ref.name, ref.namespace, "trainer.kubeflow.org/v1alpha1")


async def test_a_run_that_is_preempted_goes_on_by_itself(backend: KubernetesBackend, queues: Queues) -> None:
    low, high = queues.priority(1), queues.priority(2)
    cluster_queue = queues.cluster_queue(
        {queues.flavor(): {"cpu": 100, "memory": "1Ti", GPU: 2}},
        preemption={"withinClusterQueue": "LowerPriority"},
    )
    queue = queues.local_queue(cluster_queue)
    ref = await start(backend, _urgent(task(queue, workers=1, fake={"duration": "2"}), low))
    await until_phase(backend, ref, Phase.RUNNING)
    await start(backend, _urgent(task(queue, workers=1, fake={"duration": "1"}), high))
    back = await until(backend, ref, lambda status: status.phase is Phase.QUEUED)
    assert back.queue is not None
    assert (back.queue.requeues, back.queue.reason) == (1, "preempted by a job of higher priority in the same queue")
    ended = await end(backend, ref)
    assert (ended.phase, ended.ref.attempt) == (Phase.SUCCEEDED, 1)


def _urgent(what: ResolvedTask, priority: str) -> ResolvedTask:
    return replace(what, priority_class=priority)


async def test_the_first_rank_that_failed_is_named_with_its_last_lines(
    backend: KubernetesBackend, queues: Queues, own_admin: Admin
) -> None:
    ref = await start(backend, task(queues.queue(GPU=8), workers=1, fake={"logs": "one\nboom", "duration": "600"}))
    await until_phase(backend, ref, Phase.RUNNING)
    selector = f"siflow-provider/run={ref.task_uuid},batch.kubernetes.io/job-completion-index=1"
    (pod,) = own_admin.items(own_admin.path("Pod", namespace=ref.namespace), labelSelector=selector)
    own_admin.annotate(own_admin.path("Pod", pod["metadata"]["name"], ref.namespace), exit_code="3", duration="0")
    status = await end(backend, ref)
    assert status.failure is not None
    assert (status.phase, status.failure.replica, status.failure.exit_code) == (Phase.FAILED, "worker-0", 3)
    assert status.failure.last_lines[-1] == "boom"
    lines = [line async for line in backend.logs(ref, "all", LogCursor(), follow=False)]
    assert texts(lines, "worker-0") == ["one", "boom"]


@pytest.fixture
def pod_monitors(own_admin: Admin) -> None:
    """Have the cluster know PodMonitors, as one with Prometheus Operator does."""
    if own_admin.find("/apis/monitoring.coreos.com/v1") is None:
        own_admin.apply((CONFIG / "podmonitors.yaml").read_text())
        own_admin.wait("/apis/monitoring.coreos.com/v1", lambda found: bool((found or {}).get("resources")), "served")


@pytest.mark.usefixtures("pod_monitors")
async def test_what_the_replicas_measure_is_asked_for_by_a_pod_monitor_that_goes_with_the_job(
    backend: KubernetesBackend, queues: Queues, own_admin: Admin
) -> None:
    ref = await start(backend, task(queues.queue(GPU=1), monitoring={"port": 9090, "path": "/m"}))
    monitor = own_admin.path("PodMonitor", ref.name, ref.namespace, "monitoring.coreos.com/v1")
    found = own_admin.find(monitor)
    assert owners(found) == [ref.uid]
    assert found is not None
    (pod,) = await asyncio.to_thread(_pods, own_admin, ref)
    assert found["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    (endpoint,) = found["spec"]["podMetricsEndpoints"]
    ports = {each["name"]: each["containerPort"] for each in pod["spec"]["containers"][0]["ports"]}
    assert (ports[endpoint["port"]], endpoint["path"]) == (9090, "/m")
    await backend.delete(ref)
    await asyncio.to_thread(own_admin.wait, monitor, lambda left: left is None, "gone with the job")


def _pods(admin: Admin, ref: JobRef) -> list[Object]:
    query = f"?labelSelector=siflow-provider/run={ref.task_uuid}"
    found = admin.wait(
        admin.path("Pod", namespace=ref.namespace) + query, lambda all_: (all_ or {}).get("items"), "pods"
    )
    return list((found or {})["items"])


@pytest.mark.usefixtures("pod_monitors")
@pytest.mark.parametrize("rule", OF_THIS_PLANE, ids=lambda rule: rule.resource)
async def test_doctor_names_the_one_right_that_is_missing(
    own_control_plane: ControlPlane, own_admin: Admin, namespace: str, rule: Rule
) -> None:
    logins = Logins(own_admin, namespace, own_control_plane.kubeconfig)
    checks = await check_kubernetes(await logins.login(without=lambda each: each is rule))
    logins.close()
    (missing,) = [check for check in checks if check.name.startswith("right: ") and not check.ok]
    assert missing.needed is rule.needed
    assert rule_text(rule.group, rule.resource, rule.verbs, rule.names) in missing.mend


async def test_a_worker_that_dies_between_runtime_and_job_leaves_what_the_next_one_takes_up(
    backend: KubernetesBackend, queues: Queues, own_admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity, what = Identity.random(), task(queues.queue(GPU=1))
    create = Api.create

    async def dies(self: Api, collection: str, body: Any, **options: Any) -> Any:
        if body["kind"] == "TrainJob":
            raise asyncio.CancelledError
        return await create(self, collection, body, **options)

    with monkeypatch.context() as broken:
        broken.setattr(Api, "create", dies)
        with pytest.raises(asyncio.CancelledError):
            await backend.submit(manifest(backend, what, identity))
    assert await backend.find(identity) is None
    ref = await backend.submit(manifest(backend, what, identity))
    assert owners(own_admin.find(_runtime(own_admin, ref))) == [ref.uid]
    again = await backend.submit(manifest(backend, what, identity))
    assert again == ref


async def test_a_connection_that_asks_for_pytorchjobs_is_told_that_there_are_none(
    settings: Settings, queues: Queues
) -> None:
    forced = settings.model_copy(update={"training_api": "pytorchjob"})
    async with KubernetesBackend(forced) as backend:
        with pytest.raises(BackendError, match="does not know PyTorchJob"):
            await backend.submit(manifest(backend, task(queues.queue(GPU=1))))
