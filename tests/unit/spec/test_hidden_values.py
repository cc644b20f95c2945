"""Hidden values: usable, and shown nowhere."""

from __future__ import annotations

import copy
import pickle
import traceback
from typing import Any

import pytest
from pydantic import TypeAdapter

from siflow_provider.errors import SpecError
from siflow_provider.spec import Hidden, PyTorchJob, check, dump, load
from siflow_provider.spec.diff import diff
from siflow_provider.spec.resolve import resolve
from siflow_provider.spec.writing import to_data, to_fields
from tests.unit.spec.forms import PYTORCH, changed

CANARY = "canary-7f3a9"
FORM = changed(
    PYTORCH, {"compute.instances": [{"cpu": 1, "memory": "1Gi"}], "env": {"T": {"value": CANARY, "hidden": True}}}
)


def test_hidden_value_is_read_from_both_ways_of_writing() -> None:
    written, given = load(FORM), load(changed(FORM, {"env.T": Hidden(CANARY)}))
    assert written == given
    assert isinstance(written.env["T"], Hidden)
    assert written.env["T"].reveal() == CANARY


def test_hidden_object_is_kept_as_it_is_given() -> None:
    hidden = Hidden(CANARY)
    task = load(changed(FORM, {"env.T": hidden}))
    assert task.env["T"] is hidden
    assert to_fields(task)["env"]["T"] is hidden


def test_hidden_number_becomes_text() -> None:
    task = load(changed(FORM, {"env": {"A": {"value": 123456, "hidden": True}, "B": Hidden(True)}}))
    assert {name: value.reveal() for name, value in task.env.items() if isinstance(value, Hidden)} == {
        "A": "123456",
        "B": "true",
    }


def test_hidden_value_is_in_no_text_of_a_task() -> None:
    task = load(FORM)
    resolved = resolve(task)
    texts = [repr(task), str(task), repr(resolved), dump(task), str(to_data(task)), task.model_dump_json()]
    texts += [str(task.model_dump()), str(diff(task, load(changed(FORM, {"env.T": Hidden("canary-2")}))))]
    texts.append(TypeAdapter(PyTorchJob).dump_json(task).decode())  # type: ignore[arg-type] # this form is one
    assert [text for text in texts if "canary" in text] == []
    assert "T" not in resolved.env
    assert resolved.hidden["T"].reveal() == CANARY


def test_hidden_value_is_written_only_when_asked() -> None:
    task = load(FORM)
    assert to_data(task)["env"] == {"T": {"value": "***", "hidden": True}}
    assert to_data(task, reveal=True)["env"] == {"T": {"value": CANARY, "hidden": True}}


def test_hidden_value_survives_copies() -> None:
    task = load(FORM)
    for other in (copy.deepcopy(task), pickle.loads(pickle.dumps(task))):
        assert other == task
        assert {name: value.reveal() for name, value in other.env.items() if isinstance(value, Hidden)} == {"T": CANARY}


@pytest.mark.parametrize(
    "place",
    [
        "region", "name_prefix", "timezone", "labels", "labels.x", "image", "volumes", "volumes.0", "command",
        "shm_size", "compute", "compute.type", "compute.instances", "compute.instances.0", "workers", "priority",
        "queue_timeout", "fault_tolerance", "monitoring", "ssh", "alerts", "kubernetes", "unknown", "kind",
    ],
)  # fmt: skip
def test_hidden_mapping_in_a_wrong_place_is_not_repeated(place: str) -> None:
    base = changed(FORM, {"volumes": [{"name": "pvc:a", "mount_path": "/mnt/a"}]})
    for value in ({"value": CANARY, "hidden": True}, Hidden(CANARY), [{"value": CANARY, "hidden": True}]):
        form = changed(base, {place: value})
        checked = check(form)
        assert checked.errors != ()
        assert CANARY not in str(checked.errors)


@pytest.mark.parametrize(
    "entry",
    [
        {"value": CANARY, "hiden": True},
        {"value": [CANARY], "hidden": True},
        {"value": {"a": CANARY}, "hidden": True},
        {"value": CANARY + "\0", "hidden": True},
        {"value": CANARY, "hidden": "yes"},
        {"hidden": True, "valeu": CANARY},
        {f"value:{CANARY}": None, "hidden": True},
        [CANARY],
    ],
    ids=str,
)
def test_wrong_hidden_entry_is_named_and_not_shown(entry: Any) -> None:
    with pytest.raises(SpecError) as caught:
        load(changed(FORM, {"env.T": entry}))
    assert all(problem.path.startswith("env.T") for problem in caught.value.problems)
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_difference_of_hidden_values_says_changed_and_no_more() -> None:
    old, new = load(FORM), load(changed(FORM, {"env.T": {"value": "another-secret", "hidden": True}}))
    [change] = diff(old, new)
    assert (change.path, change.old, change.new) == ("env.T", "***", "***")
    assert str(change) == "env.T: changed (hidden)"
    assert diff(old, load(FORM)) == []


def test_value_that_becomes_hidden_is_not_shown_by_the_difference() -> None:
    [change] = diff(load(changed(FORM, {"env.T": "open"})), load(FORM))
    assert (change.old, change.new) == ("open", "***")


@pytest.mark.parametrize("entry", [{"value": "***", "hidden": True}, Hidden("***"), Hidden(" *** ")])
def test_mask_of_a_copied_form_is_no_hidden_value(entry: Any) -> None:
    (problem,) = check(changed(PYTORCH, {"env": {"TOKEN": entry}}), templates=True).errors
    assert problem.path == "env.TOKEN"
    assert problem.message.startswith("*** is the mask that is shown for a hidden value, and no value")


def test_plain_value_may_be_three_stars() -> None:
    assert load(changed(PYTORCH, {"env": {"STARS": "***"}})).env == {"STARS": "***"}
