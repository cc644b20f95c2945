"""What is kept per try beside the log: XComs of the task instance, written from a worker or a trigger alike."""

from __future__ import annotations

import asyncio
import logging
import zlib
from typing import TYPE_CHECKING, Any, TypeVar

from siflow_provider.core.identity import Identity
from siflow_provider.hooks.process import uncut
from siflow_provider.hooks.siflow import installation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from siflow_provider.core.outcome import AlertRule
    from siflow_provider.core.status import JobRef


__all__ = ["Store", "identity_of", "in_thread", "instance_id"]

_log = logging.getLogger(__name__)
T = TypeVar("T")
_ALERTS_KEY = "siflow_alerts"


def identity_of(instance: Any) -> Identity:
    """Return the identity of a task instance's run, as a worker and a triggerer know the instance."""
    index = instance.map_index
    return Identity(
        dag_id=instance.dag_id,
        task_id=instance.task_id,
        run_id=instance.run_id,
        map_index=-1 if index is None else index,
        try_number=instance.try_number,
        installation=installation(),
    )


def instance_id(instance: Any) -> str:
    """Return Airflow's own id of a task instance: new for each try and each making, the same in all legs of a try."""
    return str(getattr(instance, "id", None) or "")


async def in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """Await a blocking call that asks Airflow's supervising process for something, from a worker or a triggerer.

    A plain thread will not do: up to Airflow 3.2 a triggerer's channel belongs to its event loop, and only asgiref's
    threads find back to that loop; from any other, answers are mixed up and the triggerer dies [tried on 3.1.0].
    """
    from asgiref.sync import sync_to_async

    return await uncut(sync_to_async(call, thread_sensitive=False)(*arguments))


class Store:
    """The XComs of one task instance. Airflow empties them at the start of each try and not when a try resumes.

    Airflow's calls block, and are refused on an event loop that has another one in flight: they run in a thread.
    What can't be kept is noted for admins and never fails a run.

    Args:
        instance: the task instance; None where Airflow tells a trigger of none (`airflow dags test` runs triggers in
            line): nothing is kept then, and nothing can restart in between.

    Attributes:
        instance: the same.
    """

    def __init__(self, instance: Any) -> None:
        self.instance = instance
        self._key = None if instance is None else identity_of(instance)
        self._told: dict[str, set[str]] = {}
        self._lock = asyncio.Lock()

    async def put(self, key: str, value: Any) -> bool:
        """Keep a JSON value; say whether it was kept."""
        return await self.put_all({key: value})

    async def put_all(self, values: Mapping[str, Any]) -> bool:
        """Keep several JSON values; say whether all were kept."""
        if self._key is None:
            return False
        try:
            await in_thread(self._put, self._key, values)
        except Exception as error:
            _log.warning("could not keep %s of %s: %s", ", ".join(values), self._key.task_id, error)
            return False
        return True

    async def get(self, key: str) -> Any:
        """Return a kept value; None when there is none."""
        if self._key is None:
            return None
        try:
            return await in_thread(self._get, self._key, key)
        except Exception as error:
            _log.warning("could not read %s of %s: %s", key, self._key.task_id, error)
            return None

    async def claim_alert(self, rule: AlertRule, event: str, ref: JobRef) -> bool:
        """Say whether a message is still to be sent; only one caller of a try hears yes, whatever restarts.

        It is kept before it is sent: a crash in between costs one message, and never sends one twice. Each run has an
        XCom of its own: a try that was cleared stops its run when the next one may have begun, among whose XComs it
        writes then.
        """
        kept, claim = f"{_ALERTS_KEY}_{ref.task_uuid}", f"{ref.attempt}:{event}:{_digest(rule)}"
        async with self._lock:
            if kept not in self._told:
                self._told[kept] = set(await self.get(kept) or ())
            told = self._told[kept]
            if claim in told:
                return False
            told.add(claim)
            await self.put(kept, sorted(told))
            return True

    @staticmethod
    def _put(where: Identity, values: Mapping[str, Any]) -> None:
        from airflow.sdk.execution_time.xcom import XCom

        for key, value in values.items():
            XCom.set(key=key, value=value, **_address(where))

    @staticmethod
    def _get(where: Identity, key: str) -> Any:
        from airflow.sdk.execution_time.xcom import XCom

        return XCom.get_one(key=key, **_address(where))


def _digest(rule: AlertRule) -> int:
    return zlib.crc32(rule.model_dump_json().encode())


def _address(key: Identity) -> dict[str, Any]:
    return {"dag_id": key.dag_id, "task_id": key.task_id, "run_id": key.run_id, "map_index": key.map_index}
