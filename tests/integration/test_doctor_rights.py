"""The rights of `deploy/rbac.yaml` suffice, each is of use, and one that is missing is named with its mend."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.kubernetes.checkup.examine import check_kubernetes
from siflow_provider.backends.kubernetes.checkup.rules import RULES, Rule
from siflow_provider.backends.kubernetes.cluster.rights import rule_text
from siflow_provider.backends.settings import Settings
from siflow_provider.core.checkup import Check
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.pump import closing_stream
from siflow_provider.core.status import JobRef, Kind, LogCursor, Phase
from siflow_provider.errors import AccessDenied
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor, ResolvedTask
from siflow_provider.spec.task import PyTorchJob, RayJob
from tests.control_plane.admin import Admin
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import Queues
from tests.integration.logins import Logins

_SERVED = [rule for rule in RULES if rule.feature not in {"podmonitor", "trainjob"}]  # what this control plane lacks
_PODS = next(rule for rule in RULES if rule.resource == "pods")
_NEEDED = [rule for rule in _SERVED if rule.needed]


def _name(rule: Rule) -> str:
    return f"{rule.resource}-{rule.reach}"


@pytest.fixture
def logins(control_plane: ControlPlane, admin: Admin, namespace: str) -> Iterator[Logins]:
    """Return a maker of logins."""
    logins = Logins(admin, namespace, control_plane.kubeconfig)
    yield logins
    logins.close()


def _rights(checks: list[Check]) -> list[Check]:
    return [check for check in checks if check.name.startswith("right: ") and not check.ok]


@pytest.mark.parametrize("rule", _SERVED, ids=_name)
async def test_doctor_names_the_one_right_that_is_missing(logins: Logins, rule: Rule) -> None:
    settings = await logins.login(without=lambda each: each is rule)
    (missing,) = _rights(await check_kubernetes(settings))
    assert missing.needed is rule.needed
    # listing the pods of all namespaces is listing those of each
    verbs = tuple(verb for verb in rule.verbs if rule is not _PODS or verb != "list")
    assert rule_text(rule.group, rule.resource, verbs, rule.names) in missing.mend
    assert rule.lost in missing.found


async def test_doctor_has_nothing_to_say_against_all_rights(logins: Logins) -> None:
    checks = await check_kubernetes(await logins.login())
    assert [check for check in checks if not check.ok and check.name != "kind PodMonitor"] == []


def _task(queue: str, kind: Kind) -> ResolvedTask:
    form = RayJob if kind == "RayJob" else PyTorchJob
    # a Ray head that ends would be a fault; its driver ends by itself
    fake = {"fakepod.test/logs": "hello", **({"fakepod.test/duration": "4"} if kind == "PyTorchJob" else {})}
    raw = {
        "image": "registry.example/a:1",
        "command": "true",
        "compute": {"type": "on_demand", "instances": [{"cpu": "1", "memory": "1Gi"}]},
        "kubernetes": {"annotations": fake},
    }
    size = Resources.of({"cpu": 1, "memory": "1Gi"})
    return ResolvedTask(
        task=form.model_validate(raw),
        image="registry.example/a:1",
        env={},
        hidden={"TOKEN": Hidden("canary")},
        flavors=(Flavor(instance="in-place", resources=size, queue=queue, node_selector={"type": "kwok"}),),
        labels={},
    )


async def _live(settings: Settings, queue: str, kind: Kind = "PyTorchJob") -> list[str]:
    """Submit a run, follow it to its end, read its logs, remove it; return its lines."""
    async with KubernetesBackend(settings) as backend, asyncio.timeout(120):
        ref = await backend.submit(backend.render(_task(queue, kind), RenderContext(identity=Identity.random("few"))))
        phase = None
        async for status in backend.watch(ref):
            phase = status.phase
        assert phase is Phase.SUCCEEDED
        lines = await _lines(backend, ref)
        await backend.delete(ref)
        await backend.finish(ref)
        assert await backend.find_latest(ref) is None
        return lines


async def _lines(backend: KubernetesBackend, ref: JobRef) -> list[str]:
    async with closing_stream(backend.logs(ref, "all", LogCursor(), follow=False)) as lines:
        return [line.text async for line in lines]


async def _stop_one(settings: Settings, queue: str) -> None:
    async with KubernetesBackend(settings) as backend, asyncio.timeout(60):
        task = _task(queue, "PyTorchJob")
        ref = await backend.submit(backend.render(task, RenderContext(identity=Identity.random("stopped"))))
        await backend.stop(ref, by="somebody")
        assert (await backend.status(ref)).phase is Phase.STOPPED


@pytest.mark.parametrize("kind", ["PyTorchJob", "RayJob"])
async def test_the_rights_of_the_file_suffice_for_a_run(logins: Logins, queues: Queues, kind: Kind) -> None:
    settings, queue = await logins.login(), queues.queue(cpu=8)
    await _live(settings, queue, kind)


async def test_without_any_optional_right_a_run_still_works(logins: Logins, queues: Queues) -> None:
    settings, queue = await logins.login(without=lambda rule: not rule.needed), queues.queue(cpu=8)
    assert "hello" in await _live(settings, queue)
    await _stop_one(settings, queue)


@pytest.mark.parametrize("rule", _NEEDED, ids=_name)
async def test_without_a_needed_right_the_error_says_what_to_add(logins: Logins, queues: Queues, rule: Rule) -> None:
    kind: Kind = "RayJob" if rule.resource in {"rayjobs", "configmaps"} else "PyTorchJob"
    # a right to list the pods of all namespaces would stand in for a part of this one
    settings = await logins.login(without=lambda each: each is rule or (rule is _PODS and each.resource == "pods"))
    queue = queues.queue(cpu=8)
    with pytest.raises(AccessDenied) as raised:
        await _live(settings, queue, kind)
    resource = rule.resource.partition("/")[0]
    assert f'resource "{resource}' in raised.value.message
    assert any(rule_text(rule.group, rule.resource, (verb,)) in raised.value.hint for verb in rule.verbs)
