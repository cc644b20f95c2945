"""The task service, call by call.

source: the vendor's Python SDK 0.2.9, `resources/tasks.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.platform.errors import NotFound, Refused
from siflow_provider.backends.platform.state import phase_of
from siflow_provider.backends.platform.wire import Brief, Pod, read_row, read_tasks

if TYPE_CHECKING:
    from siflow_provider.backends.platform.answers import Answer
    from siflow_provider.backends.platform.client import Client

__all__ = ["Tasks"]

_TASKS = "/task-service/v1/tasks"
_LONGEST_HEADER = 4096
_PROBE_CUT = 2
"""Characters left out at both ends of a name, to see whether the filter looks inside of names."""
_SHORTEST_PROBE = 6


class Tasks:
    """Reads and changes platform tasks.

    Args:
        client: of the connection.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._finds_inside: bool | None = None

    async def get(self, uuid: str) -> Brief:
        """Return a task.

        Raises:
            NotFound: the platform knows none of that uuid.
        """
        answer = await self._client.get(f"{_TASKS}/{uuid}")
        return read_row(Brief, answer.data, answer.ids)

    async def pods(self, uuid: str) -> list[Pod]:
        """Return the task's pods, those marked as deleted left out."""
        answer = await self._client.get(f"{_TASKS}/{uuid}/pods")
        return [read_row(Pod, row, answer.ids) for row in answer.rows if not row.get("deleted")]

    async def stop(self, uuid: str) -> None:
        """Ask for the end of a task; done as well where it has ended, is being stopped, or is gone.

        The documented GET of the same meaning is not used: something may prefetch it.

        Raises:
            BackendError: the platform refuses to stop a task that lives on, or gives no answer.
        """
        try:
            await self._client.act("POST", f"{_TASKS}/stop", {"uuids": [uuid]})
        except (NotFound, Refused):
            task = await self._find(uuid)
            if task is not None and not phase_of(task.status).terminal and task.status.lower() != "stopping":
                raise

    async def delete(self, uuid: str) -> None:
        """Remove a task; done as well where it is gone.

        Raises:
            BackendError: the platform refuses to delete a task that is there, or gives no answer.
        """
        try:
            await self._client.act("DELETE", f"{_TASKS}/{uuid}")
        except (NotFound, Refused):
            if await self._find(uuid) is not None:
                raise

    async def _find(self, uuid: str) -> Brief | None:
        try:
            return await self.get(uuid)
        except NotFound:
            return None

    async def create(self, body: Mapping[str, Any], *, secrets: Iterable[str]) -> str:
        """Create a task, by one request, and return its uuid.

        Raises:
            AnswerLost: it may have been created.
        """
        labels = body.get("labels")
        text = json.dumps(labels, ensure_ascii=False) if labels else ""
        fits = bool(text) and text.isascii() and len(text) <= _LONGEST_HEADER  # else in the body alone
        headers = {"X-Labels": text} if fits else {}
        answer = await self._client.create(_TASKS, body, headers=headers, secrets=secrets)
        return str(answer.data)

    def pages(self) -> AsyncGenerator[Answer]:
        """Yield all tasks that the access key may see, in the platform's own order, page by page."""
        return self._client.pages(_TASKS)

    async def everything(self) -> list[Brief]:
        """Return all tasks that the access key may see."""
        return await self._read({})

    async def _read(self, query: Mapping[str, str]) -> list[Brief]:
        found: dict[str, Brief] = {}
        async for page in self._client.pages(_TASKS, query):
            found |= {task.uuid: task for task in read_tasks(page.rows, page.ids)}
        return list(found.values())

    async def named(self, *texts: str) -> list[Brief]:
        """Return the tasks that have one of `texts` in their name.

        By the platform's filter where it looks inside of names; else all tasks are read, once for all of the texts.
        """
        if await self._filter_finds_inside():
            pages = await asyncio.gather(*(self._read({"name": text}) for text in texts))
        else:
            pages = [await self.everything()]
        found = {task.uuid: task for page in pages for task in page}
        return [task for task in found.values() if any(text in task.name for text in texts)]

    async def _filter_finds_inside(self) -> bool:
        """Say whether `name=` matches a part of a name: not documented, so a task that exists is looked for by one."""
        if self._finds_inside is None:
            sample = await self._client.get(_TASKS, {"page": 1, "pageSize": 1})
            row = sample.rows[0] if sample.rows else {}
            inside = str(row.get("name") or "")[_PROBE_CUT:-_PROBE_CUT]
            if len(inside) < _SHORTEST_PROBE:
                return False  # nothing to try it on: look at everything, which is little or nothing
            found = await self._client.rows(_TASKS, {"name": inside})
            self._finds_inside = any(one.get("uuid") == row.get("uuid") for one in found)
        return self._finds_inside
