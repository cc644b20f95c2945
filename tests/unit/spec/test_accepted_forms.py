"""What a form may say without an error: doubtful forms with a warning, right ones without a word."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.spec import Catalog, check
from tests.unit.spec.forms import BASES, P, R, Row, changed

IDLE = {"type": "idle", "instances": ["gpu.a100-8"], "stability": "low"}
IN_PLACE = {"cpu": 4, "memory": "16Gi"}
VOLUME = {"name": "team-data", "mount_path": "/volume/data"}

DOUBTFUL: list[Row] = [
    *[
        (f"mount at {path}", P, {"volumes": [VOLUME | {"mount_path": path}]}, "volumes[0].mount_path", ["hides", part])
        for path, part in (
            ("/opt", "installed software"),
            ("/workspace", "working folder"),
            ("/usr", "programs"),
            ("/", "the whole image"),
            ("/root", "home folder"),
            ("/tmp", "temporary files"),
            ("/usr/local/x", "/usr/local/x"),
        )
    ],
    (
        "a mount inside another",
        P,
        {"volumes": [VOLUME, VOLUME | {"mount_path": "/volume/data/inner"}]},
        "volumes[1].mount_path",
        ["lies inside the mount of volumes[0] (team-data)"],
    ),
    ("a short hidden value", P, {"env": {"X": {"value": "abcd", "hidden": True}}}, "env.X", ["under 5 characters"]),
    ("Ray without dashboard", R, {"image": {"preset": "ray-slim", "version": "2.60"}}, "image", ["dashboard"]),
    (
        "a volume for one node",
        P,
        {"volumes": [VOLUME | {"name": "scratch"}], "workers": 1},
        "volumes[0].name",
        ["one node"],
    ),
    (
        "retry_on without retries",
        P,
        {"fault_tolerance": {"retry_on": ["code"]}},
        "fault_tolerance.retry_on",
        ["no effect"],
    ),
    ("TZ by hand", P, {"env": {"TZ": "UTC"}}, "env.TZ", ["timezone"]),
    (
        "a channel misspelt",
        P,
        {"alerts": [{"events": ["hang"], "to": ["nlp-onkall"]}]},
        "alerts[0].to[0]",
        ["nlp-oncall"],
    ),
    (
        "shared memory above the memory",
        P,
        {"compute.instances": [IN_PLACE], "shm_size": "17Gi"},
        "shm_size",
        ["more than the replica's memory"],
    ),
    ("shared memory above an instance", P, {"shm_size": "961Gi"}, "shm_size", ["a replica on gpu.h100-8"]),
    (
        "ssh with a mount at /root",
        P,
        {"ssh": True, "volumes": [VOLUME | {"mount_path": "/root"}]},
        "volumes[0].mount_path",
        [],
    ),
]


@pytest.mark.parametrize("row", DOUBTFUL, ids=[row[0] for row in DOUBTFUL])
def test_doubtful_form_is_accepted_with_a_warning(row: Row, catalog: Catalog) -> None:
    _, kind, changes, path, fragments = row
    checked = check(changed(BASES[kind], changes), catalog=catalog)
    assert checked.errors == ()
    assert checked.task is not None
    assert {problem.path for problem in checked.warnings} == {path}
    for fragment in fragments:
        assert any(fragment in problem.message for problem in checked.warnings)


RIGHT: list[tuple[str, str, dict[Any, Any], str, Any]] = [
    ("workers 0 is the default", P, {}, "workers", 0),
    ("workers null is the default", P, {"workers": None}, "workers", 0),
    ("workers as rendered digits", P, {"workers": "2"}, "workers", 2),
    ("units as rendered digits", P, {"compute.units_per_replica": "4"}, "compute.units_per_replica", 4),
    ("boolean as rendered text", P, {"ssh": "true"}, "ssh", True),
    ("boolean as Python's text", P, {"visible_in_group": "False"}, "visible_in_group", False),
    ("duration as rendered digits", P, {"queue_timeout": "90"}, "queue_timeout", 90.0),
    ("duration in hours", P, {"start_timeout": "1h30m"}, "start_timeout", 5400.0),
    ("duration as a number", P, {"start_timeout": 0.5}, "start_timeout", 0.5),
    (
        "list as rendered text",
        P,
        {"compute.instances": "['gpu.h100-8', 'gpu.a100-8']"},
        "compute.instances",
        ("gpu.h100-8", "gpu.a100-8"),
    ),
    ("env numbers become text", P, {"env": {"A": 3}}, "env", {"A": "3"}),
    ("env booleans become text", P, {"env": {"A": True, "B": False}}, "env", {"A": "true", "B": "false"}),
    ("env floats lose nothing", P, {"env": {"A": 0.1 + 0.2}}, "env", {"A": "0.30000000000000004"}),
    ("env plain mapping", P, {"env": {"A": {"value": 1}}}, "env", {"A": "1"}),
    ("env not hidden", P, {"env": {"A": {"value": "x", "hidden": False}}}, "env", {"A": "x"}),
    ("label in unicode", P, {("labels", "who"): "数据组"}, "labels", {"team": "nlp", "who": "数据组"}),
    ("label of 200 characters", P, {("labels", "who"): "x y " * 50}, "labels", {"team": "nlp", "who": "x y " * 50}),
    ("label without a value", P, {("labels", "who"): ""}, "labels", {"team": "nlp", "who": ""}),
    (
        "node label without a value",
        P,
        {"kubernetes": {"node_selector": {"node-role.kubernetes.io/gpu": ""}}},
        "kubernetes.node_selector",
        {"node-role.kubernetes.io/gpu": ""},
    ),
    (
        "annotation without a value",
        P,
        {"kubernetes": {"annotations": {"example.com/note": ""}}},
        "kubernetes.annotations",
        {"example.com/note": ""},
    ),
    ("label number", P, {("labels", "n"): 7}, "labels", {"team": "nlp", "n": "7"}),
    (
        "quantity in place",
        P,
        {"compute.instances": [{"cpu": "500m", "memory": "1.5Gi"}]},
        "compute.units_per_replica",
        1,
    ),
    ("image digest", P, {"image": "a/b:1@sha256:" + "0" * 64}, "image", "a/b:1@sha256:" + "0" * 64),
    ("image registry port", P, {"image": "localhost:5000/a"}, "image", "localhost:5000/a"),
    ("name prefix of 35", P, {"name_prefix": "a" * 35}, "name_prefix", "a" * 35),
    ("name prefix of digits", P, {"name_prefix": "7b"}, "name_prefix", "7b"),
    (
        "bash braces are no template",
        P,
        {"command": 'echo "${#list[@]}" "${x%%.*}"'},
        "command",
        'echo "${#list[@]}" "${x%%.*}"',
    ),
    ("runtime_env as text", R, {"ray.runtime_env": "pip: [optuna]\n"}, "ray.runtime_env", {"pip": ["optuna"]}),
    (
        "runtime_env as rendered text",
        R,
        {
            "ray.runtime_env": {
                "config": {"setup_timeout_seconds": "600", "eager_install": "False"},
                "pip": {"packages": ["optuna"], "pip_check": "true"},
            }
        },
        "ray.runtime_env",
        {
            "config": {"setup_timeout_seconds": 600, "eager_install": False},
            "pip": {"packages": ["optuna"], "pip_check": True},
        },
    ),
    ("idle without priority", P, {"compute": IDLE}, "priority", "medium"),
    ("mount under /volume is silent", P, {"volumes": [VOLUME]}, "volumes.0.mount_path", "/volume/data"),
    ("image pulls for ever", P, {"image_pull_retries": -1}, "image_pull_retries", -1),
    (
        "model writable by choice",
        P,
        {"models": [{"name": "llama-8b", "mount_path": "/mnt/m", "read_only": False}]},
        "models.0.read_only",
        False,
    ),
]


@pytest.mark.parametrize("row", RIGHT, ids=[row[0] for row in RIGHT])
def test_right_form_is_read_without_a_word(row: tuple[str, str, dict[Any, Any], str, Any], catalog: Catalog) -> None:
    _, kind, changes, path, expected = row
    checked = check(changed(BASES[kind], changes), catalog=catalog)
    assert checked.errors == ()
    assert checked.warnings == ()
    value: Any = checked.task
    for part in path.split("."):
        value = value[int(part)] if part.isdigit() else getattr(value, part)
    assert value == expected
    assert type(value) is type(expected)
