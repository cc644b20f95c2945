"""What an operator's own keywords become in the order for a run."""

from __future__ import annotations

from datetime import timedelta

from siflow_provider.operators.order import order_of
from siflow_provider.triggers.run import Carried
from tests.unit.operators.legs import Maker


def last_net(make: Maker, **arguments: object) -> int | None:
    operator, context = make("true", **arguments)
    return order_of(operator, context, Carried(prefix="")).context.last_net_seconds  # type: ignore[arg-type]  # a worker's


def test_cluster_holds_a_run_to_the_execution_timeout_later_than_we_do(make: Maker) -> None:
    assert last_net(make, execution_timeout=timedelta(hours=1, milliseconds=1)) == 3600 + 600 + 1


def test_run_without_a_limit_or_one_that_shall_outlive_its_task_has_none_in_the_cluster(make: Maker) -> None:
    assert last_net(make) is None
    assert last_net(make, execution_timeout=timedelta(hours=1), on_kill_action="detach") is None
