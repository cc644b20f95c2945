"""What `gc` may stop and delete, and what it must leave alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from siflow_provider.cli.leftovers import UNASKED, Age, Instance, Verdict, decide
from siflow_provider.core.origin import Origin
from siflow_provider.core.status import JobRef, Phase, Status

NOW = datetime(2026, 1, 8, tzinfo=UTC)
WEEK = Age(7 * 86400, NOW)
REF = JobRef(backend="local", kind="PyTorchJob", name="train-w7rwdss", uid="u", task_uuid="r")
ORIGIN = Origin(dag_id="daily", task_id="train", run_id="manual__1", try_number=2)
BY_HAND = Status(REF, Phase.RUNNING)
RUNNING = Status(REF, Phase.RUNNING, origin=ORIGIN)
ENDED = Status(REF, Phase.SUCCEEDED, origin=ORIGIN, ended_at=NOW - timedelta(days=8))
MISSING = Instance("missing")
SILENT = Instance("unknown", why="Airflow answers HTTP 503")


def verdict(
    status: Status, instance: Instance, *, age: Age | None = None, missing: bool = False, asked: bool = True
) -> Verdict:
    return decide(status, instance, age=age, missing=missing, asked=asked)


@pytest.mark.parametrize("state", ["success", "failed", "skipped", "upstream_failed", "removed"])
@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.STARTING, Phase.RUNNING, Phase.UNKNOWN])
def test_a_run_whose_try_is_over_is_stopped(state: str, phase: Phase) -> None:
    found = verdict(Status(REF, phase, origin=ORIGIN), Instance("there", state, 2))
    assert (found.action, found.why) == ("stop", f"its task instance is {state}")


@pytest.mark.parametrize("state", ["failed", "running", "deferred", None])
def test_a_run_of_an_earlier_try_is_stopped(state: str | None) -> None:
    assert verdict(RUNNING, Instance("there", state, 3)) == Verdict("stop", "its task is at try 3")


@pytest.mark.parametrize(
    "state",
    [None, "scheduled", "queued", "running", "deferred", "restarting", "up_for_retry", "up_for_reschedule", "newer"],
)
def test_a_run_whose_task_instance_is_alive_goes_on(state: str | None) -> None:
    found = verdict(RUNNING, Instance("there", state, 2), missing=True)
    assert (found.action, found.unsure) == ("keep", False)


def test_an_airflow_that_is_at_an_earlier_try_than_the_run_is_not_believed() -> None:
    assert verdict(RUNNING, Instance("there", "failed", 1)).action == "keep"


def test_a_run_of_a_dag_run_that_was_deleted_and_made_again_is_not_taken_for_the_new_ones() -> None:
    old = Status(REF, Phase.RUNNING, origin=ORIGIN.model_copy(update={"instance": "ti-old"}))
    new = Instance("there", "running", 2, id="ti-new")
    kept = verdict(old, new)
    assert (kept.action, kept.unsure) == ("keep", True)
    assert "made again, or another Airflow's; --missing stops it" in kept.why
    over = Verdict("stop", "its task instance was removed, and made again")
    assert [verdict(old, new, missing=True), verdict(old, replace(new, state="failed"), missing=True)] == [over] * 2
    assert verdict(old, replace(new, state="failed")).action == "keep"  # which says nothing of the old one
    assert verdict(replace(old, phase=Phase.FAILED, ended_at=ENDED.ended_at), new, age=WEEK).action == "delete"


def test_the_id_counts_only_where_both_have_one_and_for_one_try_only() -> None:
    old = Status(REF, Phase.RUNNING, origin=ORIGIN.model_copy(update={"instance": "ti-2"}))
    assert not verdict(old, Instance("there", "running", 2, id="ti-2"), missing=True).unsure
    assert verdict(old, Instance("there", "running", 2), missing=True).action == "keep"
    assert verdict(RUNNING, Instance("there", "running", 2, id="ti-2"), missing=True).action == "keep"
    assert verdict(old, Instance("there", "running", 3, id="ti-3")).why == "its task is at try 3"


@pytest.mark.parametrize(("theirs", "ours"), [("blue", "green"), ("blue", ""), ("", "green")])
@pytest.mark.parametrize("instance", [MISSING, Instance("there", "failed", 2), Instance("there", "running", 9)])
def test_no_run_of_another_installation_is_stopped_or_deleted(theirs: str, ours: str, instance: Instance) -> None:
    for status in (RUNNING, ENDED):
        their = replace(status, origin=ORIGIN.model_copy(update={"installation": theirs}))
        found = decide(their, instance, age=WEEK, missing=True, asked=True, installation=ours)
        assert (found.action, found.unsure) == ("keep", False)
        assert (f"installation {theirs!r}" if theirs else "names no installation") in found.why


def test_runs_of_the_installation_and_those_by_hand_are_looked_at_as_ever() -> None:
    mine = replace(RUNNING, origin=ORIGIN.model_copy(update={"installation": "blue"}))
    over = decide(mine, Instance("there", "failed", 2), age=None, missing=False, asked=True, installation="blue")
    assert over == Verdict("stop", "its task instance is failed")
    by_hand = Status(REF, Phase.SUCCEEDED, ended_at=ENDED.ended_at)
    assert decide(by_hand, UNASKED, age=WEEK, missing=False, asked=True, installation="blue").action == "delete"


@pytest.mark.parametrize("instance", [SILENT, UNASKED])
def test_a_run_of_which_nothing_is_known_goes_on_and_is_named(instance: Instance) -> None:
    assert verdict(RUNNING, instance, missing=True) == Verdict("keep", instance.why, unsure=True)


def test_a_task_instance_that_airflow_does_not_know_is_over_only_where_the_user_says_so() -> None:
    kept = verdict(RUNNING, MISSING)
    assert (kept.action, kept.unsure) == ("keep", True)
    assert "--missing" in kept.why
    assert verdict(RUNNING, MISSING, missing=True).action == "stop"


def test_a_run_by_hand_and_one_that_outlives_its_task_go_on() -> None:
    detached = Status(REF, Phase.RUNNING, origin=ORIGIN.model_copy(update={"detached": True}))
    over = Instance("there", "failed", 2)
    assert [verdict(status, over, age=WEEK).action for status in (BY_HAND, detached)] == ["keep", "keep"]


def test_a_run_that_only_its_backend_gave_up_is_stopped_as_one_that_works() -> None:
    stuck = Status(REF, Phase.FAILED, origin=ORIGIN, ended_at=NOW - timedelta(days=8), leftover=True)
    assert verdict(stuck, Instance("there", "failed", 2)).action == "stop"
    assert verdict(stuck, Instance("there", "running", 2), age=WEEK).action == "keep"


def test_an_ended_run_is_deleted_from_the_given_age_on() -> None:
    over = Instance("there", "success", 2)
    young = Status(REF, Phase.FAILED, origin=ORIGIN, ended_at=NOW - timedelta(days=6))
    timeless = Status(REF, Phase.LOST, origin=ORIGIN)
    assert verdict(ENDED, over, age=WEEK) == Verdict("delete", "it ended 7d ago or earlier")
    assert [verdict(status, over, age=WEEK).action for status in (young, timeless)] == ["keep", "keep"]
    assert verdict(ENDED, over).action == "keep"


def test_without_an_airflow_age_alone_decides_over_ended_runs() -> None:
    assert verdict(ENDED, UNASKED, age=WEEK, asked=False).action == "delete"
    by_hand = Status(REF, Phase.SUCCEEDED, ended_at=ENDED.ended_at)
    assert verdict(by_hand, UNASKED, age=WEEK, asked=True).action == "delete"


def test_an_ended_attempt_stays_while_another_attempt_of_its_run_works() -> None:
    found = decide(ENDED, UNASKED, age=WEEK, missing=False, asked=False, retried=True)
    assert found.action == "keep"
    assert "may use its data" in found.why


@pytest.mark.parametrize("instance", [SILENT, Instance("there", "deferred", 2)])
def test_an_ended_run_stays_while_its_task_may_still_read_it(instance: Instance) -> None:
    found = verdict(ENDED, instance, age=WEEK)
    assert found.action == "keep"
    assert "may read it" in found.why
    assert verdict(ENDED, MISSING, age=WEEK).action == "delete"
