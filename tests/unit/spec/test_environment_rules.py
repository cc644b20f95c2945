"""Rules of the form's section "Environment" (image, env, command): what is wrong, where it is said, what is said."""

from __future__ import annotations

import pytest

from siflow_provider.spec import Catalog
from tests.unit.spec.forms import DROP, P, R, Row, assert_wrong

WRONG: list[Row] = [
    ("image is required", P, {"image": DROP}, "image", ["is required"]),
    ("image with a scheme", P, {"image": "https://r.example/a"}, "image", ["scheme", "did you mean 'r.example/a'?"]),
    ("image in upper case", P, {"image": "r.example/Team/a"}, "image", ["'Team'", "did you mean 'r.example/team/a'?"]),
    ("image tag", P, {"image": "r.example/a:-x"}, "image", ["tag '-x'"]),
    ("image digest", P, {"image": "r.example/a@sha256:12"}, "image", ["digest", "64"]),
    ("image registry", P, {"image": "r_x.example:5000/a"}, "image", ["registry 'r_x.example:5000'"]),
    ("image with a blank", P, {"image": "a b"}, "image", ["blank"]),
    ("image is blank", P, {"image": " "}, "image", ["must not be blank"]),
    ("image of a wrong type", P, {"image": 5}, "image", ["{preset: NAME, version: V}", "not a number"]),
    (
        "image with both names",
        P,
        {"image": {"preset": "pytorch", "custom": "nlp-train", "version": "7"}},
        "image",
        ["both"],
    ),
    ("image with neither name", P, {"image": {"version": "1"}}, "image", ["neither"]),
    ("image version is required", P, {"image": {"preset": "pytorch"}}, "image.version", ["is required"]),
    ("image version as YAML float", P, {"image": {"preset": "ray", "version": 2.60}}, "image.version", ["in quotes"]),
    ("preset image in the catalog", P, {"image": {"preset": "pytroch", "version": "1"}}, "image.preset", ["'pytorch'"]),
    (
        "image version in the catalog",
        P,
        {"image": {"preset": "pytorch", "version": "2.9"}},
        "image.version",
        ["2.9-cuda12"],
    ),
    (
        "a custom image named as preset",
        P,
        {"image": {"preset": "nlp-train", "version": "7"}},
        "image.preset",
        ["custom"],
    ),
    (
        "a custom image of another group",
        P,
        {"image": {"custom": "nlp-train", "version": "7"}, "project_group": "vision", "labels.team": "vision"},
        "image.custom",
        ["is not for project_group 'vision'", "nlp"],
    ),
    (
        "RayJob on an image without Ray",
        R,
        {"image": {"preset": "pytorch", "version": "2.9-cuda12"}},
        "image",
        ["has no Ray", "ray"],
    ),
    ("env is a mapping", P, {"env": ["A=1"]}, "env", ["mapping of name: value"]),
    ("env name with a digit first", P, {"env": {"1A": "x"}}, "env.1A", ["no digit first", "did you mean '_1A'?"]),
    ("env name with a dash", P, {"env": {"A-B": "x"}}, "env.A-B", ["letters, digits and _", "did you mean 'A_B'?"]),
    ("env name that is no text", P, {"env": {1: "x"}}, "env", ["must be text, not a number"]),
    ("env name of Kubernetes", P, {"env": {"KUBERNETES_X": "x"}}, "env.KUBERNETES_X", ["KUBERNETES_", "another name"]),
    ("env name of the platform", P, {"env": {"X_USER_NAME": "x"}}, "env.X_USER_NAME", ["set by the platform"]),
    ("env name of Airflow", P, {"env": {"AIRFLOW_CTX_DAG_ID": "x"}}, "env.AIRFLOW_CTX_DAG_ID", ["set by the platform"]),
    ("env name of the rendezvous", P, {"env": {"MASTER_ADDR": "x"}}, "env.MASTER_ADDR", ["set by the platform"]),
    ("env name of torch's operator", P, {"env": {"PET_NNODES": "x"}}, "env.PET_NNODES", ["PET_"]),
    ("env name of KubeRay", R, {"env": {"RAY_ADDRESS": "x"}}, "env.RAY_ADDRESS", ["RayJob"]),
    ("env name of the provider", P, {"env": {"SIFLOW_RESULTS": "x"}}, "env.SIFLOW_RESULTS", ["set by the platform"]),
    ("env null", P, {"env": {"X": None}}, "env.X", ["null is no value", '""']),
    ("env list", P, {"env": {"X": [1]}}, "env.X", ["a list is no value"]),
    ("env mapping with an unknown key", P, {"env": {"X": {"value": "v", "hiden": True}}}, "env.X.hiden", ["'hidden'"]),
    ("env mapping without a value", P, {"env": {"X": {"hidden": True}}}, "env.X.value", ["is required"]),
    (
        "env hidden is a boolean",
        P,
        {"env": {"X": {"value": "v", "hidden": "maybe"}}},
        "env.X.hidden",
        ["true or false"],
    ),
    ("env hidden null", P, {"env": {"X": {"value": None, "hidden": True}}}, "env.X", ["null is no value"]),
    ("env with NUL", P, {"env": {"X": "a\0b"}}, "env.X", ["NUL"]),
    ("command is required", P, {"command": DROP}, "command", ["is required"]),
    ("command is blank", P, {"command": " \n"}, "command", ["must not be blank"]),
    ("command as a list", P, {"command": ["python", "x.py"]}, "command", ["shlex.join"]),
    ("command with NUL", P, {"command": "a\0"}, "command", ["NUL"]),
    ("shm_size is a quantity", P, {"shm_size": "2 GB"}, "shm_size", ["'2 GB' is not a quantity", "16Gi"]),
    ("shm_size more than 0", P, {"shm_size": 0}, "shm_size", ["not more than 0"]),
]


@pytest.mark.parametrize("row", WRONG, ids=[row[0] for row in WRONG])
def test_wrong_form_names_path_value_rule_and_choice(row: Row, catalog: Catalog) -> None:
    assert_wrong(row, catalog)
