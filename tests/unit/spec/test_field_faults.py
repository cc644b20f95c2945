"""What users of other tools stumbled over when a task's description was built, and what they get here."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from siflow_provider.spec import check, dump, load
from siflow_provider.spec.resolve import resolve
from tests.unit.spec.forms import PYTORCH, RAY, changed


class Priority(str, enum.Enum):  # noqa: UP042 - the older way of writing it is the trap
    """An enum as DAG authors write them."""

    HIGH = "high"


def messages(base: dict[str, Any], changes: dict[Any, Any]) -> dict[str, str]:
    return {problem.path: problem.message for problem in check(changed(base, changes)).errors}


@pytest.mark.parametrize(("value", "workers"), [(0, 0), (None, 0), ("2", 2), (" 2 ", 2), (3, 3)])
def test_number_of_workers_is_read_from_number_text_and_nothing(value: Any, workers: int) -> None:
    task = load(changed(PYTORCH, {"workers": value}))
    assert (task.workers, type(task.workers)) == (workers, int)


def test_negative_workers_are_refused_before_any_controller_sees_them() -> None:
    assert "at least 0" in messages(PYTORCH, {"workers": -1})["workers"]
    assert "at least 0" in messages(PYTORCH, {"workers": "-1"})["workers"]


def test_environment_reaches_the_task_as_text_and_null_is_named() -> None:
    task = load(changed(PYTORCH, {"env": {"EPOCHS": 3, "FLAG": True, "LR": 1e-5, "Y": ""}}))
    assert task.env == {"EPOCHS": "3", "FLAG": "true", "LR": "1e-05", "Y": ""}
    assert "null is no value" in messages(PYTORCH, {"env": {"X": None}})["env.X"]


@pytest.mark.parametrize("text", ["2 GB", "4 cores", "1,5Gi", "-1", "", "1.5.0", "Gi", "1gi", "1e3Gi", "1e999"])
def test_malformed_quantity_is_refused_when_the_task_is_built(text: str) -> None:
    found = messages(PYTORCH, {"compute.instances": [{"cpu": 1, "memory": text}]})
    assert list(found) == ["compute.instances[0].memory"]
    assert "is not a quantity" in found["compute.instances[0].memory"]


def test_quantities_of_every_writing_keep_their_size() -> None:
    task = load(changed(PYTORCH, {"compute.instances": [{"cpu": "500m", "memory": "1.5Gi", "gpu": "4"}]}))
    resources = resolve(task).flavors[0].resources
    assert (resources.cpu, resources.memory, resources.gpus) == (0.5, 1610612736, 4)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1e9", 10**9), ("16E2", 1600), ("2e+9", 2 * 10**9), (1e16, 10**16), ("2000000000n", 2), ("5E", 5 * 10**18)],
)
def test_quantities_that_kubernetes_takes_are_taken(text: Any, size: int) -> None:
    task = load(changed(PYTORCH, {"compute.instances": [{"cpu": 1, "memory": text}]}))
    assert resolve(task).flavors[0].resources.memory == size


def test_nested_limits_are_refused_by_name() -> None:
    found = messages(PYTORCH, {"compute.instances": [{"limits": {"cpu": 1}, "cpu": 1, "memory": "1Gi"}]})
    assert "unknown key" in found["compute.instances[0].limits"]


def test_amounts_that_are_not_given_do_not_turn_into_zeros() -> None:
    task = load(changed(PYTORCH, {"compute.instances": [{"cpu": 1, "memory": "1Gi"}]}))
    assert set(resolve(task).flavors[0].resources.amounts) == {"cpu", "memory"}


@pytest.mark.parametrize(
    "command",
    ["a; b && c | d", 'echo "$X" `date` $(id)', "printf '%s\\n' \"it's\"\n\necho ü 数 🚀\n", "a\tb\r\nc", "#x"],
)
def test_command_survives_byte_for_byte(command: str) -> None:
    task = load(changed(RAY, {"command": command}))
    assert task.command == command
    assert load(dump(task)).command == command


def test_same_claim_may_be_mounted_at_two_places_but_not_twice_at_one() -> None:
    one, two = ({"name": "pvc:data", "mount_path": path} for path in ("/mnt/a", "/mnt/b"))
    form = changed(RAY, {"compute.instances": [{"cpu": 1, "memory": "1Gi"}], "volumes": [one, two]})
    assert [mount.mount_path for mount in resolve(load(form)).mounts] == ["/mnt/a", "/mnt/b"]
    assert "'pvc:data' is mounted twice" in messages(RAY, {"volumes": [one, one]})["volumes[1].mount_path"]


def test_long_name_is_refused_with_its_limit() -> None:
    assert "at most 35" in messages(PYTORCH, {"name_prefix": "a" * 60})["name_prefix"]


def test_no_time_limit_is_none_and_not_zero() -> None:
    task = load(PYTORCH)
    assert (task.queue_timeout, task.start_timeout, task.fault_tolerance) == (None, None, None)
    assert "leave the field out for no limit" in messages(PYTORCH, {"queue_timeout": 0})["queue_timeout"]


def test_member_of_an_enum_counts_as_its_value() -> None:
    task = load(changed(PYTORCH, {"priority": Priority.HIGH, "env": {"P": Priority.HIGH}, "labels.p": Priority.HIGH}))
    assert (task.priority, task.env["P"], task.labels["p"]) == ("high", "high", "high")
    assert [type(value) for value in (task.priority, task.env["P"], task.labels["p"])] == [str, str, str]


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    task = load(changed(PYTORCH, {"workers": numpy.int64(3), "env": {"A": numpy.int64(3), "B": numpy.float32(0.5)}}))
    assert (task.workers, type(task.workers), task.env) == (3, int, {"A": "3", "B": "0.5"})


def test_list_without_a_lasting_order_is_refused() -> None:
    assert "a list" in messages(PYTORCH, {"compute.instances": {"a", "b"}})["compute.instances"]
    assert "a list" in messages(PYTORCH, {"compute.instances": iter(["a"])})["compute.instances"]


def test_text_that_other_readers_take_for_a_number_is_quoted() -> None:
    text = dump(load(changed(PYTORCH, {"env": {"LR": "1e-4", "MODE": "0o17", "N": "5"}})))
    assert "LR: '1e-4'" in text
    assert "MODE: '0o17'" in text
    assert "N: '5'" in text
