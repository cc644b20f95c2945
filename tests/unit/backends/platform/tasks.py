"""Small tasks for the platform, and what a test asks of the fake."""

from __future__ import annotations

from typing import Any

from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor, ResolvedTask
from siflow_provider.spec.task import PyTorchJob, RayJob
from tests.platform.names import POOL
from tests.platform.server import RunningPlatform

CREATE = ("POST", "/task-service/v1/tasks")


def task(*, units: int = 1, hidden: dict[str, str] | None = None, **form: Any) -> ResolvedTask:
    """Return a task on the fake's CPU pool: a RayJob where the form has a part `ray`."""
    raw = {
        "image": "registry.example/torch:2",
        "command": "true",
        "compute": {"type": "on_demand", "instances": ["cpu.demo-1"], "units_per_replica": units},
        **form,
    }
    return ResolvedTask(
        task=(RayJob if "ray" in form else PyTorchJob).model_validate(raw),
        image="registry.example/torch:2",
        env={},
        hidden={name: Hidden(value) for name, value in (hidden or {}).items()},
        flavors=(Flavor("cpu.demo-1", Resources.of({"cpu": "1", "memory": "1Gi"}), resource_pool=POOL),),
    )


def context(identity: Identity | None = None) -> RenderContext:
    """Return the context of a run that nobody else has, or of the given one."""
    return RenderContext(identity=identity or Identity.random(), user_name="mia")


def creations(running: RunningPlatform) -> int:
    """Return how many creations the fake was sent."""
    return running.call(lambda: running.platform.requests.count(CREATE))


def statuses(running: RunningPlatform) -> list[str]:
    """Return the status of each task on the fake, oldest first."""
    return running.call(lambda: [each.status for each in running.platform.engine.tasks.values()])


def make_twin(running: RunningPlatform) -> str:
    """Create the first task once more, as a process does whose listing does not show it; call it in the fake's loop."""
    engine = running.platform.engine
    one = next(iter(engine.tasks.values()))
    return engine.create(one.body, owner=one.owner, region=one.region, cluster=one.cluster).uuid
