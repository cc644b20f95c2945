"""QuotaSensor on a real Airflow with the embedded backend, in all three modes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from textwrap import dedent

import pytest

from scripts.airflow_stack import AirflowStack
from scripts.airflow_stack.run import Run
from siflow_provider.core.status import JobRef, Phase
from tests.e2e import somebody
from tests.e2e.training import runs_of

CANARY = "c4n4ry-of-the-quota-sensor"
CORES = os.cpu_count() or 1
RETRIES = 3
"""Left over by a sensor in mode `reschedule` that must not be tried again. Airflow itself fails a try of one that it
queues again before it has read its executor's event of the look before (apache/airflow#66374): a scheduler that is
seconds behind, and a second between two looks. In the other modes a second try would be ours."""
RACERS = 3
MODES = ("poke", "reschedule", "deferrable")
ONCE = {"poke": 1, "deferrable": 1}
DAG = f"""
from datetime import timedelta

from airflow.sdk import DAG

from siflow_provider.operators import PyTorchJobOperator
from siflow_provider.sensors import QuotaSensor

def form(cpu):
    return {{
        "kind": "PyTorchJob",
        "image": "registry.example/x:1",
        "command": "true",
        "env": {{"TOKEN": {{"value": "{CANARY[:6]}" "{CANARY[6:]}", "hidden": True}}}},
        "compute": {{"type": "on_demand", "instances": [{{"cpu": cpu, "memory": "64Mi"}}]}},
    }}

MODES = {{
    "poke": {{"deferrable": False}},
    "reschedule": {{"mode": "reschedule"}},
    "deferrable": {{"deferrable": True}},
}}

with DAG("NAME", schedule=None, default_args={{"retries": {RETRIES}, "retry_delay": 1, "poke_interval": 1}}):
"""


def start(stack: AirflowStack, name: str, body: str, **conf: object) -> Run:
    head = DAG.replace("NAME", name)
    stack.add_dag(name, head + "".join(f"    {line}\n" for line in dedent(body).strip().splitlines()))
    return stack.trigger(name, conf=conf)


@pytest.fixture
def busy(stack: AirflowStack) -> Iterator[JobRef]:
    """Let somebody hold a part of the machine, so that no task gets all of it."""
    ref = somebody.start(stack, "sleep 600")
    yield ref
    somebody.remove(stack, ref)


@pytest.mark.floor
def test_a_task_that_fits_passes_in_every_mode_and_tells_where(stack: AirflowStack) -> None:
    run = start(
        stack,
        "quota_fits",
        """
        for mode, options in MODES.items():
            train = PyTorchJobOperator(
                task_id=f"train_{mode}", image="registry.example/x:1", command="true", workers=1,
                compute={"type": "on_demand", "instances": [{"cpu": "{{ dag_run.conf['cpu'] }}", "memory": "64Mi"}]},
            )
            QuotaSensor(task_id=mode, task=train, **options) >> train
        """,
        cpu="100m",
    )
    assert run.wait(180) == "success", run.states()
    for mode in MODES:
        assert run.ti(mode).xcom()["queue"]
        assert "the whole task fits now" in run.ti(mode).log()


def test_waiting_names_the_number_that_is_short_and_ends_when_there_is_room(stack: AirflowStack, busy: JobRef) -> None:
    run = start(
        stack,
        "quota_waits",
        f"""
        for mode, options in MODES.items():
            QuotaSensor(task_id=mode, task=form({CORES}), timeout=300, **options)
        """,
    )
    for mode in MODES:
        run.ti(mode).wait_log(
            f"no room yet: the task does not fit: cpu short; cpu: need {CORES} cores, have", timeout=120
        )
    run.ti("deferrable").wait_state("deferred")
    assert CANARY not in stack.db_dump()
    somebody.remove(stack, busy)
    assert run.wait(120) == "success", run.states()
    for mode in ("poke", "deferrable"):
        # the first leg of a deferred sensor and its trigger are two processes
        assert run.ti(mode).log().count("no room yet") <= 2
    assert all(CANARY not in run.ti(mode).log() for mode in MODES)


def test_wrong_asks_fail_and_lack_of_time_skips_or_fails_the_same_in_every_mode(
    stack: AirflowStack, busy: JobRef
) -> None:
    run = start(
        stack,
        "quota_ends",
        f"""
        for mode, options in MODES.items():
            QuotaSensor(task_id=f"never_{{mode}}", task=form(100000), soft_fail=True, **options)
            QuotaSensor(task_id=f"soft_{{mode}}", task=form({CORES}), soft_fail=True, timeout=4, **options)
            QuotaSensor(task_id=f"hard_{{mode}}", task=form({CORES}), timeout=4, **options)
        for mode in {tuple(ONCE)}:
            QuotaSensor(
                task_id=f"cut_{{mode}}", task=form({CORES}), execution_timeout=timedelta(seconds=8), timeout=600,
                soft_fail=True, retries=1, **MODES[mode],
            )
        """,
    )
    run.wait(240)
    ends = {"never": "failed", "soft": "skipped", "hard": "failed"}
    cut = dict.fromkeys([f"cut_{mode}" for mode in ONCE], "failed")
    assert run.states() == {f"{case}_{mode}": end for case, end in ends.items() for mode in MODES} | cut
    for name in cut:  # the try is over and not the wait: Airflow's retries go on
        assert run.ti(name).try_number == 2
        assert "AirflowTaskTimeout" in run.ti(name).log()
    for case in ends:
        assert {mode: run.ti(f"{case}_{mode}").try_number for mode in ONCE} == ONCE
        assert run.ti(f"{case}_reschedule").try_number <= RETRIES
    for mode in MODES:
        assert "can never be admitted" in run.ti(f"never_{mode}").log()


def test_a_connection_that_is_missing_fails_also_softly(stack: AirflowStack) -> None:
    run = start(
        stack,
        "quota_nowhere",
        """
        for mode, options in MODES.items():
            QuotaSensor(task_id=mode, task=form(1), conn_id="nowhere", soft_fail=True, **options)
        """,
    )
    run.wait(120)
    assert run.states() == dict.fromkeys(MODES, "failed")
    for mode in MODES:
        assert "there is no connection 'nowhere' in the worker" in run.ti(mode).log()


def test_of_several_sensors_that_see_the_same_room_all_pass_and_the_queue_runs_one_task_at_a_time(
    stack: AirflowStack, busy: JobRef
) -> None:
    run = start(
        stack,
        "quota_race",
        f"""
        for number in range({RACERS}):
            train = PyTorchJobOperator(
                task_id=f"train_{{number}}", image="registry.example/x:1", command="sleep 3",
                compute={{"type": "on_demand", "instances": [{{"cpu": {CORES}, "memory": "64Mi"}}]}},
            )
            QuotaSensor(task_id=f"quota_{{number}}", task=train, deferrable=True, timeout=300) >> train
        """,
    )
    for number in range(RACERS):
        run.ti(f"quota_{number}").wait_log("no room yet", timeout=120)
    somebody.remove(stack, busy)
    assert run.wait(200) == "success", run.states()
    found = runs_of(stack, "quota-race-train")
    assert {one.phase for one in found} == {Phase.SUCCEEDED}
    ran = sorted((one.admitted_at, one.ended_at) for one in found if one.admitted_at and one.ended_at)
    assert len(ran) >= RACERS
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(ran)), ran
