"""The table at the end of the demo: accuracy of each run, times and cost."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from scripts.airflow_stack import Run
from scripts.airflow_stack.rest import Rest

__all__ = ["print_report"]

TRAININGS = ("train", "search")
LAST_RUNS = 5
LOG_LINES = 30


def print_report(rest: Rest, run: Run, state: str) -> None:
    """Print what the run gave and what it cost, beside the runs before it; a failed one with its log's end."""
    console = Console(width=None if Console().is_terminal else 120)
    console.print()
    console.print(_accuracies(rest, run))
    costs = _costs(run)
    if costs.row_count:
        console.print(costs)
    if state != "success":
        for task in run.tis():
            if task.state == "failed":
                console.print(f"{task.task_id} failed; its log ends with:")
                console.print("\n".join(task.log().splitlines()[-LOG_LINES:]), markup=False, highlight=False)
    console.print(f"the DAG run ended as {state} after {_seconds(rest.get(run.path)):.0f} s")


def _accuracies(rest: Rest, run: Run) -> Table:
    table = Table(title=f"{run.dag_id}: the last runs", title_justify="left")
    for column in ("run", "state", "took", "network", "classic", "promoted"):
        table.add_column(column)
    found = rest.get(f"dags/{run.dag_id}/dagRuns", order_by="-run_after", limit=LAST_RUNS)["dag_runs"]
    for one in reversed(found):
        past = Run(rest, run.dag_id, one["dag_run_id"])
        promoted = past.ti("promote").state
        table.add_row(
            str(one["run_after"])[:19].replace("T", " ") + (" (this one)" if past.run_id == run.run_id else ""),
            str(one["state"]),
            f"{_seconds(one):.0f} s",
            *[_accuracy(past.ti(task_id).xcom()) for task_id in TRAININGS],
            {"success": "yes", "skipped": "no, not better"}.get(promoted, "no"),
        )
    return table


def _accuracy(pushed: Any) -> str:
    results = (pushed or {}).get("results") or {}
    return f"{results['accuracy']:.4f}" if "accuracy" in results else "-"


def _costs(run: Run) -> Table:
    table = Table(title="what it cost", title_justify="left")
    for column in ("task", "job", "attempts", "queued", "ran", "core-seconds", "GPU-hours"):
        table.add_column(column)
    for task_id in TRAININGS:
        pushed = run.ti(task_id).xcom()
        if pushed:
            ran = float(pushed.get("running_seconds") or 0)
            table.add_row(
                task_id,
                str(pushed.get("name")),
                str(pushed.get("attempts")),
                f"{float(pushed.get('queued_seconds') or 0):.1f} s",
                f"{ran:.1f} s",
                f"{ran * _cores(run.ti(task_id).rendered):.0f}",
                f"{float(pushed.get('gpu_hours') or 0):.2f}",
            )
    return table


def _cores(form: dict[str, Any]) -> float:
    """Return the cores of all replicas: one master or head, and the workers, of the first instance."""
    instances = (form.get("compute") or {}).get("instances") or [{}]
    return (1 + int(form.get("workers") or 0)) * float(instances[0].get("cpu") or 0)


def _seconds(dag_run: dict[str, Any]) -> float:
    begin, end = dag_run.get("start_date"), dag_run.get("end_date")
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds() if begin and end else 0.0
