"""Tasks as the documented calls show them: hidden values to their owner alone."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.platform import models
from tests.platform.engine import Engine, FakeTask

MASKED = "******"


def stamp(moment: datetime | None) -> str | None:
    """Write a moment as ISO 8601 in UTC."""
    return None if moment is None else moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def brief(task: FakeTask, reader: str, standing: dict[str, models.QueueInfo]) -> dict[str, Any]:
    """Return the task as a listing shows it."""
    body = task.body
    end = task.ended or (task.started and task.updated)
    selected = [models.SelectedInstance(name=task.pool.instance, count_total=task.units)] if task.pool else []
    env = [
        one if not one.hide or reader == task.owner else one.model_copy(update={"env_value": MASKED})
        for one in body.task_env or []
    ]
    shown = models.TaskBrief(
        uuid=task.uuid,
        cluster=task.cluster,
        name=task.name,
        resource_pool=body.resource_pool,
        instances=body.instances,
        selected_instances=selected,
        volumes=body.volumes or [],
        image=body.image,
        image_version=body.image_version,
        image_url=body.image_url,
        image_type=body.image_type or "",
        status=task.status,
        status_msg=task.message,
        create_time=stamp(task.created) or "",
        update_time=stamp(task.updated) or "",
        start_time=stamp(task.started),
        end_time=stamp(task.ended),
        duration=str(end - task.started) if task.started and end else None,
        priority=body.priority,
        guarantee=body.guarantee,
        queue_info=standing.get(task.uuid),
        task_env=env,
        shared_users=[],
        owner=task.owner,
        enhancements=body.enhancements,
    )
    return shown.model_dump(mode="json", by_alias=True)


def full(engine: Engine, task: FakeTask, reader: str) -> dict[str, Any]:
    """Return the task as a look at it alone shows it."""
    body = task.body
    more = {
        "namePrefix": body.name_prefix,
        "type": body.type,
        "workers": body.workers,
        "cmd": body.cmd,
        "datasets": [one.model_dump(by_alias=True) for one in body.datasets or []],
        "models": [one.model_dump(by_alias=True) for one in body.models or []],
        "product": body.product,
        "module": body.module,
        "oss": None,
        "timezone": body.timezone,
        "dashboardUrl": f"https://dashboard.example.test/{task.uuid}",
    }
    return {**brief(task, reader, standings(engine)), **more}


def standings(engine: Engine) -> dict[str, models.QueueInfo]:
    """Return where each waiting task stands, by one pass over the queue."""
    pools: dict[str, models.Ahead] = {}
    users: dict[tuple[str, str], models.Ahead] = {}
    found = {}
    for task in engine.queue():
        pool, user = task.body.resource_pool, (task.body.resource_pool, task.owner)
        ahead, mine = pools.setdefault(pool, models.Ahead()), users.setdefault(user, models.Ahead())
        found[task.uuid] = models.QueueInfo(
            rank_in_pool=ahead.high + ahead.medium + ahead.low + 1,
            ahead_in_pool=ahead,
            rank_in_user=mine.high + mine.medium + mine.low + 1,
            ahead_in_user=mine,
        )
        pools[pool], users[user] = _with(ahead, task), _with(mine, task)
    return found


def _with(ahead: models.Ahead, task: FakeTask) -> models.Ahead:
    level = task.body.priority or "medium"
    return ahead.model_copy(update={level: getattr(ahead, level) + 1})


def pods(task: FakeTask) -> list[dict[str, Any]]:
    """Return the task's pods."""
    rows = [
        models.Pod(
            name=pod.name,
            status=pod.status,
            status_msg=pod.status_msg,
            node=f"node-{index}",
            ip="127.0.0.1",
            create_time=stamp(pod.created),
            update_time=stamp(pod.updated),
            containers=["main"],
            exit_code=pod.exit_code,
            deleted=False,
        )
        for index, pod in enumerate(task.pods)
    ]
    return [row.model_dump(mode="json", by_alias=True) for row in rows]
