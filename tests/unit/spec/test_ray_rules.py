"""Rules of the form's section "RayJob only": what is wrong, where it is said, and what is said."""

from __future__ import annotations

import pytest

from siflow_provider.spec import Catalog
from tests.unit.spec.forms import R, Row, assert_wrong

SCALES = {"min_workers": 2, "max_workers": 8}
VOLUME = {"name": "team-data", "mount_path": "/volume/data"}
WRONG: list[Row] = [
    ("head instance is required", R, {"ray.head": {"units": 2}}, "ray.head.instance", ["is required"]),
    ("head instance in the catalog", R, {"ray.head": {"instance": "cpu.61"}}, "ray.head.instance", ["'cpu.16'"]),
    ("head units", R, {"ray.head": {"instance": "cpu.16", "units": 0}}, "ray.head.units", ["at least 1"]),
    ("runtime_env key", R, {"ray.runtime_env": {"pips": []}}, "ray.runtime_env.pips", ["did you mean 'pip'?"]),
    (
        "runtime_env type",
        R,
        {"ray.runtime_env": {"env_vars": {"A": 1}}},
        "ray.runtime_env.env_vars.A",
        ["must be text"],
    ),
    ("runtime_env list", R, {"ray.runtime_env": {"pip": 5}}, "ray.runtime_env.pip", ["list of texts"]),
    (
        "runtime_env pip mapping",
        R,
        {"ray.runtime_env": {"pip": {"pip_check": True}}},
        "ray.runtime_env.pip.packages",
        ["required"],
    ),
    (
        "runtime_env config",
        R,
        {"ray.runtime_env": {"config": {"setup_timeout_seconds": 0}}},
        "ray.runtime_env.config.setup_timeout_seconds",
        ["-1"],
    ),
    (
        "runtime_env switch",
        R,
        {"ray.runtime_env": {"config": {"eager_install": "yes"}}},
        "ray.runtime_env.config.eager_install",
        ["true or false"],
    ),
    (
        "runtime_env text with a key given twice",
        R,
        {"ray.runtime_env": "env_vars: {A: '1'}\nenv_vars: {B: '2'}\n"},
        "ray.runtime_env.env_vars",
        ["given twice (first in line 1)"],
    ),
    (
        "runtime_env with infinity",
        R,
        {"ray.runtime_env": {"container": {"a": float("inf")}}},
        "ray.runtime_env.container.a",
        ["finite"],
    ),
    (
        "runtime_env excludes",
        R,
        {"ray.runtime_env": {"pip": ["a"], "conda": "b"}},
        "ray.runtime_env",
        ["exclude each other"],
    ),
    (
        "runtime_env with an object",
        R,
        {"ray.runtime_env": {"conda": {"a": object()}}},
        "ray.runtime_env.conda.a",
        ["can't be sent"],
    ),
    (
        "runtime_env alone",
        R,
        {"ray.runtime_env": {"image_uri": "a", "pip": ["a"]}},
        "ray.runtime_env.image_uri",
        ["pip"],
    ),
    ("runtime_env text", R, {"ray.runtime_env": "pip: [a"}, "ray.runtime_env", ["not valid YAML"]),
    ("runtime_env of a wrong type", R, {"ray.runtime_env": 5}, "ray.runtime_env", ["must be a mapping"]),
    ("shared storage volume", R, {"ray.shared_storage": {}}, "ray.shared_storage.volume", ["is required"]),
    (
        "shared storage for one node",
        R,
        {"ray.shared_storage": {"volume": "scratch"}},
        "ray.shared_storage.volume",
        ["ReadWriteMany", "team-data"],
    ),
    (
        "shared storage read-only",
        R,
        {"ray.shared_storage": {"volume": "archive"}},
        "ray.shared_storage.volume",
        ["ReadOnlyMany"],
    ),
    (
        "a mount where shared storage stands",
        R,
        {"ray.shared_storage": {"volume": "team-data"}, "volumes": [VOLUME | {"mount_path": "/tmp/ray"}]},
        "volumes[0].mount_path",
        ["ray.shared_storage", "/tmp/ray"],
    ),
    ("keep_seconds", R, {"ray.debug": {"keep_seconds": -1}}, "ray.debug.keep_seconds", ["0 or more"]),
    ("fewer workers than the minimum", R, {"workers": 1, "ray.autoscaling": SCALES}, "workers", ["1 is less", "(2)"]),
    ("more workers than the maximum", R, {"workers": 9, "ray.autoscaling": SCALES}, "workers", ["9 is more", "(8)"]),
    (
        "minimum above maximum",
        R,
        {"ray.autoscaling": {"min_workers": 5, "max_workers": 4}},
        "ray.autoscaling.max_workers",
        ["less than min_workers (5)"],
    ),
    (
        "upscaling mode",
        R,
        {"ray.autoscaling": SCALES | {"upscaling_mode": "fast"}},
        "ray.autoscaling.upscaling_mode",
        ["conservative"],
    ),
    (
        "max_workers is required",
        R,
        {"ray.autoscaling": {"min_workers": 1}},
        "ray.autoscaling.max_workers",
        ["is required"],
    ),
]


@pytest.mark.parametrize("row", WRONG, ids=[row[0] for row in WRONG])
def test_wrong_form_names_path_value_rule_and_choice(row: Row, catalog: Catalog) -> None:
    assert_wrong(row, catalog)
