"""What jobs of ours carry."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.life.marks import owner_text, ref_of, submission_notes, submitted_order
from siflow_provider.backends.kubernetes.life.memory import Memory
from siflow_provider.core.status import JobRef, Phase, Status
from siflow_provider.spec.hidden import Hidden
from tests.unit.backends.kubernetes.tasks import job, pytorch, rendered


def stored(**labels: str | None) -> dict[str, Any]:
    """Return a job as the API server keeps it, with these labels changed or left out."""
    made = job(rendered(pytorch()))
    kept = {key: value for key, value in {**made["metadata"]["labels"], **labels}.items() if value is not None}
    return {**made, "metadata": {**made["metadata"], "labels": kept, "namespace": "ml", "uid": "u-1"}}


def test_a_job_of_ours_is_known_by_its_labels() -> None:
    found = ref_of(stored(), context="west")
    assert found is not None
    assert (found.kind, found.namespace, found.uid, found.attempt, found.context) == (
        "PyTorchJob",
        "ml",
        "u-1",
        1,
        "west",
    )


@pytest.mark.parametrize(
    "labels",
    [
        {"app.kubernetes.io/managed-by": "helm"},
        {"siflow-provider/run": None},
        {"siflow-provider/attempt": "one"},
        {"siflow-provider/attempt": "²"},
    ],
    ids=["managed by another", "no run", "no number", "a digit that is none"],
)
def test_a_job_with_other_labels_is_not(labels: dict[str, Any]) -> None:
    assert ref_of(stored(**labels), context="") is None


def test_an_owner_is_told_as_people_know_him() -> None:
    assert owner_text(stored()).startswith("task 't' of DAG 'd', run ")
    foreign = stored(**{"siflow-provider/run": None, "app.kubernetes.io/managed-by": "helm"})
    assert owner_text(foreign) == "somebody else (made by 'helm')"
    nameless = {"metadata": {"managedFields": [{"manager": "kubectl-create"}]}}
    assert owner_text(nameless) == "somebody else (made by 'kubectl-create')"
    assert owner_text({"metadata": {}}) == "somebody else"


def test_notes_hold_no_hidden_value() -> None:
    notes = submission_notes(rendered(pytorch(), hidden={"TOKEN": Hidden("canary-value")}))
    assert "canary-value" not in str(notes)
    assert len(notes) == 2
    assert len(submission_notes(rendered(pytorch()))) == 1


def test_jobs_of_one_second_are_told_apart() -> None:
    first, second = (
        {"metadata": {"creationTimestamp": "x", "annotations": submission_notes(rendered(pytorch()))}} for _ in "12"
    )
    assert submitted_order(first) < submitted_order(second)


def test_an_end_that_was_seen_stays_and_the_oldest_are_forgotten() -> None:
    memory = Memory(limit=2)
    for number, phase in enumerate((Phase.SUCCEEDED, Phase.RUNNING, Phase.LOST, Phase.FAILED, Phase.STOPPED)):
        memory.keep(Status(ref_with(f"u-{number}"), phase))
    memory.keep(Status(ref_with("u-3"), Phase.STOPPED))
    assert [end.phase if (end := memory.end_of(f"u-{number}")) else None for number in range(5)] == [
        None, None, None, Phase.FAILED, Phase.STOPPED,
    ]  # fmt: skip


def ref_with(uid: str) -> JobRef:
    found = ref_of({**stored(), "metadata": {**stored()["metadata"], "uid": uid}}, context="")
    assert found is not None
    return found
