"""Small parts: durations, differences, names that have a fixed meaning, kube syntax, and how fast a form is checked."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siflow_provider.core.status import FailureClass
from siflow_provider.spec import check, load, load_catalog
from siflow_provider.spec.diff import diff
from siflow_provider.spec.duration import format_duration, parse_duration
from siflow_provider.spec.form_names import FAILURE_CLASSES
from siflow_provider.spec.image_url import image_url
from siflow_provider.spec.kube_names import is_label_value
from siflow_provider.spec.runtime_env import RUNTIME_ENV_KEYS
from tests.unit.spec.forms import CATALOG, PYTORCH, RAY, changed


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("90s", 90), ("15m", 900), ("1h30m", 5400), ("1d", 86400), ("2h5s", 7205), ("1.5s", 1.5), (7, 7), (0.25, 0.25)],
)
def test_duration_is_read_from_text_and_number(value: Any, seconds: float) -> None:
    assert parse_duration(value) == seconds


def test_duration_is_read_from_timedelta() -> None:
    assert parse_duration(timedelta(minutes=2)) == 120


@pytest.mark.parametrize(
    "value", ["", "h", "1.5h", "30m1h", "1 h x", "-", None, True, [], float("nan"), "1h 30m", "٣s"]
)
def test_what_is_no_duration_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(value)


@given(st.one_of(st.integers(0, 10**8), st.floats(0, 1e8)))
def test_duration_survives_its_text(seconds: float) -> None:
    assert parse_duration(format_duration(float(seconds))) == seconds


@pytest.mark.parametrize(("length", "shown"), [(timedelta(minutes=-1), "-60s"), (timedelta(), "0s")])
def test_timedelta_that_is_not_allowed_is_told_with_its_seconds_and_the_rule(length: timedelta, shown: str) -> None:
    (problem,) = check(changed(PYTORCH, {"queue_timeout": length})).errors
    assert problem.path == "queue_timeout"
    assert f"a timedelta of {shown} is not allowed" in problem.message
    assert "more than 0" in problem.message


def test_difference_names_each_field_once() -> None:
    old = load(changed(PYTORCH, {"workers": 1, "env": {"A": "1"}, "queue_timeout": "1h"}))
    new = load(
        changed(PYTORCH, {"workers": 2, "env": {"A": "1", "B": "2"}, "queue_timeout": 3600, "compute.type": "spot"})
    )
    assert [str(change) for change in diff(old, new)] == [
        "env.B: (not set) -> '2'",
        "compute.type: 'on_demand' -> 'spot'",
        "workers: 1 -> 2",
    ]


def test_difference_of_lists_and_kinds() -> None:
    old = load(changed(PYTORCH, {"compute.instances": ["a", "b"]}))
    new = load(changed(PYTORCH, {"compute.instances": ["a"]}))
    assert [(one.path, one.old, one.new) for one in diff(old, new)] == [("compute.instances[1]", "b", None)]
    assert {one.path for one in diff(load(PYTORCH), load(RAY))} >= {"kind", "image", "command", "workers"}


def test_failure_classes_are_those_of_the_core() -> None:
    assert set(FAILURE_CLASSES) == {str(one) for one in FailureClass}


def test_runtime_env_keys_are_those_of_ray() -> None:
    runtime_env = pytest.importorskip("ray.runtime_env")
    documented = {name for name in runtime_env.RuntimeEnv.known_fields if not name.startswith("_")}
    newer = {"py_executable"}  # the oldest supported Ray (2.40) does not know it yet
    dropped = {"docker", "mpi"}  # it still lists these, which Ray does not document
    assert set(RUNTIME_ENV_KEYS) - newer == documented - newer - dropped
    assert documented - dropped <= set(RUNTIME_ENV_KEYS)


@pytest.mark.parametrize(
    "url",
    [
        "pytorch",
        "pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime",
        "localhost/a",
        "10.0.0.1:5000/a/b_c/d--e:v1.0",
        "[::1]:5000/a",
        "Registry.Example/a",
        "a@sha256:" + "f" * 64,
    ],
)
def test_image_url_of_every_shape_is_accepted(url: str) -> None:
    assert image_url(url) == url


@pytest.mark.parametrize("url", ["a:", "a/", "/a", "a//b", "a:b:c", "a@b", "-a", "a/" + "b" * 260, "a\n", "docker://a"])
def test_wrong_image_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"image|wrong|blank|scheme|longer"):
        image_url(url)


def test_label_value_or_annotation() -> None:
    assert [is_label_value(value) for value in ("", "a", "a" * 63, "a" * 64, "a b", "数", "-a")] == [
        True, True, True, False, False, False, False,
    ]  # fmt: skip


def test_a_form_is_checked_well_under_two_milliseconds() -> None:
    catalog = load_catalog(CATALOG)
    form = changed(
        PYTORCH,
        {
            "env": {f"VAR_{n}": n for n in range(10)},
            "volumes": [{"name": "team-data", "mount_path": f"/volume/{n}"} for n in range(3)],
            "alerts": [{"events": ["failed", {"queued_too_long": "30m"}], "to": ["nlp-oncall"]}],
            "workers": "{{ params.n }}",
        },
    )
    best = float("inf")
    for _ in range(20):
        start = time.process_time()
        for _ in range(10):
            assert check(form, catalog=catalog, templates=True).errors == ()
        best = min(best, (time.process_time() - start) / 10)
    assert best < 0.002
