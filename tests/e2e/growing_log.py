"""A task log that only grows: a task that is held at each of its milestones, and its log as it was fetched there."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scripts.airflow_stack.run import Run, TaskInstance

__all__ = ["expect_growing_log", "held_task"]

_HELD = """
    import time
    from pathlib import Path

    def held(context):
        if context["ti"].try_number == 1:
            leg = len(list(Path("GATES").glob("leg-*"))) + 1
            print("leg", leg, "begins")
            wait_for(Path("GATES", f"leg-{leg}"))

    def wait_for(gate):
        deadline = time.monotonic() + 180
        while not gate.exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    PyTorchJobOperator.partial(
        task_id="train", retries=1, retry_delay=timedelta(seconds=1), pre_execute=held,
        fault_tolerance={"max_retries": 1, "retry_on": ["code"]}, FIELDS,
    ).expand(command=[
        "echo attempt $SIFLOW_ATTEMPT of try $AIRFLOW_CTX_TRY_NUMBER; [ $AIRFLOW_CTX_TRY_NUMBER = 2 ] && exit 0; "
        "until [ -e INSIDE/end-$SIFLOW_ATTEMPT ]; do sleep 0.1; done; exit 1"
    ])
"""
_MILESTONES = [
    ("running", "leg 1 begins", "leg-1"),
    ("deferred", "[master-0] attempt 1 of try 1", "end-1"),
    ("running", "leg 2 begins", "leg-2"),
    ("deferred", "[master-0] attempt 2 of try 1", "end-2"),
    ("running", "leg 3 begins", "leg-3"),
]


def held_task(gates: Path, *, fields: str, inside: str = "") -> str:
    """Return a DAG's body: a mapped task of two attempts and two tries, which is held at each milestone.

    Args:
        gates: folder of the files that let it go on.
        fields: the operator's other keywords, as Python.
        inside: where a replica has that folder; default: at the same path.
    """
    return _HELD.replace("GATES", str(gates)).replace("INSIDE", inside or str(gates)).replace("FIELDS", fields)


def _messages(task: TaskInstance) -> list[tuple[str, str]]:
    """Return time and text of what the first try's log holds; where it was read from is left out."""
    return [(one["timestamp"], one["event"]) for one in task.events(1) if one.get("timestamp")]


def expect_growing_log(run: Run, gates: Path) -> None:
    """Let the held task go from milestone to milestone; whatever its log held once it holds ever after, in order."""
    task = run.ti("train", 0)
    fetched = []
    for state, text, gate in _MILESTONES:
        task.wait_log(text, try_number=1, timeout=120)
        task.wait_state(state)
        fetched.append(_messages(task))
        (gates / gate).touch()
    assert run.wait(180) == "success", task.log(1)
    fetched.append(_messages(task))
    for earlier, later in pairwise(fetched):
        rest = iter(later)
        assert all(message in rest for message in earlier), (earlier, later)
        assert len(later) > len(earlier)
    texts = [text for _, text in fetched[-1]]
    places = [next(at for at, text in enumerate(texts) if mark in text) for _, mark, _ in _MILESTONES]
    assert places == sorted(places)
    assert "[master-0] attempt 1 of try 2" in task.log(2)
