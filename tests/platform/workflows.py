"""Workflows of the fake platform: steps that are tasks, started when those before them have succeeded."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.platform import models, models_lists
from tests.platform.engine import FINAL, Engine, FakeTask
from tests.platform.shown import stamp

_LOOK_SECONDS = 0.1


@dataclass
class Workflow:
    """One workflow and its steps' tasks, by step."""

    id: int
    body: models_lists.CreateWorkflow
    status: str = "Running"
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    tasks: dict[str, FakeTask] = field(default_factory=dict)
    work: asyncio.Task[None] | None = None

    def row(self) -> dict[str, Any]:
        """Return it as the listing shows it."""
        current = next((name for name, task in self.tasks.items() if task.status not in FINAL), None)
        return {
            "id": self.id,
            "name": self.body.workflow_name,
            "createdAt": int(self.created.timestamp()),
            "status": self.status,
            "currentStep": current,
            "message": "",
            "isCron": self.body.cron is not None,
        }

    def steps(self) -> list[dict[str, Any]]:
        """Return the state of each step."""
        return [self._step(one) for one in self.body.dag.tasks]

    def _step(self, one: models_lists.DagTask) -> dict[str, Any]:
        task = self.tasks.get(one.name)
        length = str(task.ended - task.started) if task and task.ended and task.started else ""
        return {
            "name": one.name,
            "template": one.template,
            "depends": one.depends or "",
            "when": one.when or "",
            "status": task.status if task else "Pending",
            "message": task.message if task else "",
            "startedAt": (task and stamp(task.started)) or "",
            "finishedAt": (task and stamp(task.ended)) or "",
            "duration": length,
            "taskName": task.name if task else "",
        }


def body_of(step: models_lists.WorkflowStep) -> models.CreateTask:
    """Return the creation that a step of type `sfjob` stands for.

    Raises:
        ValueError: the step's JSON is none, or is no such creation.
    """
    spec = json.loads(step.spec)
    if not isinstance(spec, dict):
        raise TypeError("spec is no JSON object")
    instances = [{"name": one["instanceName"], "countPerPod": one["instanceQuantity"]} for one in spec["instances"]]
    env = [{"envKey": one.name, "envValue": one.value} for one in step.env]
    return models.CreateTask.model_validate(
        {**spec, "workers": spec["replicas"] - 1, "instances": instances, "taskEnv": env}
    )


async def run(workflow: Workflow, engine: Engine, *, owner: str, region: str, cluster: str) -> None:
    """Start each step behind those that it depends on, and end with the first that fails."""
    bodies = {step.name: body_of(step) for step in workflow.body.steps}
    waiting = list(workflow.body.dag.tasks)
    while waiting or not all(task.status in FINAL for task in workflow.tasks.values()):
        if any(task.status in FINAL - {"Succeeded"} for task in workflow.tasks.values()):
            workflow.status = "Failed"
            return
        ready = [one for one in waiting if all(_succeeded(workflow, name) for name in _names(one.depends))]
        for one in ready:
            waiting.remove(one)
            workflow.tasks[one.name] = engine.create(bodies[one.template], owner=owner, region=region, cluster=cluster)
        await asyncio.sleep(_LOOK_SECONDS)
    failed = any(task.status != "Succeeded" for task in workflow.tasks.values())
    workflow.status = "Failed" if failed else "Succeeded"


def _succeeded(workflow: Workflow, name: str) -> bool:
    task = workflow.tasks.get(name)
    return task is not None and task.status == "Succeeded"


def _names(depends: str | None) -> list[str]:
    return re.findall(r"[A-Za-z0-9_-]+", depends or "")
