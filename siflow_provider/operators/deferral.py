"""What a worker leg defers with: the trigger that waits, what the next leg must remember, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from siflow_provider.core.no_room import Waiting
from siflow_provider.triggers.room import RoomEvent, RoomTrigger
from siflow_provider.triggers.run import Carried, RunTrigger, RunTriggerData

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

    from siflow_provider.core.attempts import Step
    from siflow_provider.operators.order import Order

__all__ = ["LAST_NET", "Deferral", "deferral"]

LAST_NET = timedelta(minutes=1)
"""The follower ends the run at the deadline; Airflow's own clock only catches a triggerer that is gone for good."""


@dataclass(frozen=True, slots=True)
class Deferral:
    """The arguments of `BaseOperator.defer`."""

    trigger: BaseTrigger
    kwargs: dict[str, Any]
    timeout: timedelta | None


def deferral(order: Order, result: Step | Waiting, *, conn_id: str, part: int = 1) -> Deferral:
    """Return what to defer with.

    Args:
        order: of this leg.
        result: how the leg ended.
        conn_id: where the backend's settings come from.
        part: number of this deferral for the same attempt.
    """
    now, before, deadline = datetime.now(UTC), order.carried, order.policy.deadline
    ref = None if isinstance(result, Waiting) else result.ref
    carried = Carried(
        task_uuid=ref.task_uuid if ref else before.task_uuid or order.context.identity.task_uuid,
        prefix=order.prefix,
        deadline=deadline,
        ledger=result.ledger,
        part=part,
        deferred_at=now,
        waiting_since=result.since if isinstance(result, Waiting) else None,
    )
    timeout = None if deadline is None else max(timedelta(), deadline - now) + LAST_NET
    return Deferral(_trigger(order, result, carried, conn_id), {"carried": carried.model_dump(mode="json")}, timeout)


def _trigger(order: Order, result: Step | Waiting, carried: Carried, conn_id: str) -> BaseTrigger:
    if isinstance(result, Waiting):
        event = RoomEvent(outcome=result.outcome, carried=carried).model_dump(mode="json")
        return RoomTrigger(event, result.until.isoformat(), datetime.now(UTC).isoformat())
    data = RunTriggerData(
        conn_id=conn_id,
        ref=result.ref,
        policy=order.policy,
        cursor=result.cursor,
        carried=carried,
        on_kill_action=order.on_kill_action,
        veil=order.veil,
    )
    return RunTrigger(**data.model_dump(mode="json"))
