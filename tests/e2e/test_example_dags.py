"""Every example DAG runs as it stands, on a real Airflow."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scripts.airflow_stack import AirflowStack

EXAMPLES = Path(__file__).parents[2] / "example_dags"
RUN_SECONDS = 200


@pytest.fixture(scope="module")
def examples(stack: AirflowStack) -> AirflowStack:
    """Return the stack with all example DAGs in its DAGs folder."""
    shutil.copytree(EXAMPLES, stack.dags / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for path in sorted(EXAMPLES.glob("*.py")):
        stack.wait_dag(path.stem, file=path.name)
    return stack


def test_every_example_is_run_by_a_test_here() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {"retraining", "mapped_training", "decorated_training", "spec_file_training"}


def test_mapped_training_trains_once_for_each_learning_rate(examples: AirflowStack) -> None:
    run = examples.trigger("mapped_training")
    assert run.wait(RUN_SECONDS) == "success", run.states()
    results = [run.ti("train", index).xcom()["results"] for index in range(3)]
    assert all(0 < one["accuracy"] <= 1 for one in results)
    best = max(zip((0.1, 0.01, 0.001), results, strict=True), key=lambda pair: pair[1]["accuracy"])
    assert run.ti("choose").xcom() == best[0]


def test_decorated_function_gives_the_command_from_another_tasks_output(examples: AirflowStack) -> None:
    run = examples.trigger("decorated_training")
    assert run.wait(RUN_SECONDS) == "success", run.states()
    assert run.ti("train").xcom()["results"]["epochs"] == 2
    assert run.ti("report").xcom() == run.ti("train").xcom()["results"]["accuracy"]


def test_spec_file_is_used_and_keywords_win_over_it(examples: AirflowStack) -> None:
    run = examples.trigger("spec_file_training")
    assert run.wait(RUN_SECONDS) == "success", run.states()
    pushed = run.ti("train").xcom()
    assert pushed["name"].startswith("digits-")
    assert pushed["results"]["epochs"] == 2
    assert "rank 0 of 1" in run.ti("train").log()


def test_retraining_works_with_airflow_dags_test_too(examples: AirflowStack) -> None:
    conf = '{"epochs": 1, "trials": 1}'
    output = examples.airflow("dags", "test", "retraining", "--conf", conf, timeout=RUN_SECONDS)
    assert "epoch 1/1" in output
    assert examples.rest.get("assets/events", order_by="-timestamp")["asset_events"][0]["source_dag_id"] == "retraining"


def test_retraining_waits_for_its_next_week_instead_of_running_when_it_is_switched_on(examples: AirflowStack) -> None:
    runs = examples.rest.get("dags/retraining/dagRuns")["dag_runs"]
    assert [one["run_type"] for one in runs if one["run_type"] == "scheduled"] == []
    assert examples.rest.get("dags/retraining")["next_dagrun_run_after"] is not None
