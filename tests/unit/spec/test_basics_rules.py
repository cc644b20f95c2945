"""Rules of the form's section "Basics": what is wrong, where it is said, and what is said."""

from __future__ import annotations

import pytest

from siflow_provider.spec import Catalog
from tests.unit.spec.forms import DROP, P, R, Row, assert_wrong

SCALES = {"min_workers": 2, "max_workers": 8}
VOLUME = {"name": "team-data", "mount_path": "/volume/data"}
WRONG: list[Row] = [
    ("kind is required", P, {"kind": DROP}, "kind", ["is required", "PyTorchJob", "RayJob"]),
    ("kind is one of two", P, {"kind": "PytorchJob"}, "kind", ["'PytorchJob'", "did you mean 'PyTorchJob'?"]),
    ("kind is written out", P, {"kind": "{{ params.kind }}"}, "kind", ["decides which fields exist"]),
    ("a RayJob field on a PyTorchJob", P, {"ray": {}}, "ray", ["RayJob only", "PyTorchJob"]),
    ("a field of ray at the top", R, {"autoscaling": SCALES}, "autoscaling", ["did you mean 'ray.autoscaling'?"]),
    ("an unknown key", P, {"wrokers": 1}, "wrokers", ["unknown key", "did you mean 'workers'?"]),
    (
        "an unknown key deep down",
        P,
        {"volumes": [VOLUME | {"mountPath": "/x"}]},
        "volumes[0].mountPath",
        ["mount_path"],
    ),
    ("resources is called compute", P, {"resources": {}}, "resources", ["did you mean compute?"]),
    ("a key that is no text", P, {("labels",): {7: "x", "team": "nlp"}}, "labels.7", ["must be text"]),
    ("region in the catalog", P, {"region": "cn-eats"}, "region", ["'cn-eats'", "did you mean 'cn-east'?"]),
    ("cluster in the catalog", P, {"cluster": "alhpa"}, "cluster", ["'alhpa'", "did you mean 'alpha'?"]),
    ("cluster in its region", P, {"region": "cn-west", "cluster": "alpha"}, "cluster", ["not in the region", "gamma"]),
    ("project group in the catalog", P, {"project_group": "nlpp"}, "project_group", ["did you mean 'nlp'?"]),
    ("name prefix in lower case", P, {"name_prefix": "Bert_Tune"}, "name_prefix", ["'Bert_Tune'", "'bert-tune'"]),
    ("name prefix ends with a letter", P, {"name_prefix": "bert-"}, "name_prefix", ["did you mean 'bert'?"]),
    ("name prefix of 36 characters", P, {"name_prefix": "a" * 36}, "name_prefix", ["at most 35"]),
    ("name prefix of dashes alone", P, {"name_prefix": "---"}, "name_prefix", ["letter or digit at both ends"]),
    ("name prefix in unicode", P, {"name_prefix": "señal"}, "name_prefix", ["lower-case letters"]),
    ("name prefix ends in a line end", P, {"name_prefix": "bert\n"}, "name_prefix", ["is no name prefix"]),
    ("visible_in_group is a boolean", P, {"visible_in_group": "yes"}, "visible_in_group", ["'yes'", "true nor false"]),
    ("timezone in the tz database", P, {"timezone": "Asia/Shanghia"}, "timezone", ["did you mean 'Asia/Shanghai'?"]),
    ("timezone that leaves the database", P, {"timezone": "../etc/passwd"}, "timezone", ["tz database"]),
    ("label key", P, {("labels", "-a"): "x"}, "labels.-a", ["label key", "did you mean 'a'?"]),
    ("label key of 64 characters", P, {("labels", "a" * 64): "x"}, f"labels.{'a' * 64}", ["at most 63"]),
    ("label key with a bad prefix", P, {("labels", "A_b/c"): "x"}, "labels.A_b/c", ["DNS name"]),
    ("label key of ours", P, {("labels", "siflow-provider/run"): "x"}, "labels.siflow-provider/run", ["another key"]),
    ("label value", P, {("labels", "x"): "a b"}, "labels.x", ["'a b'", "label value", "did you mean 'a-b'?"]),
    ("label value of a wrong type", P, {("labels", "x"): ["a"]}, "labels.x", ["must be text, not a list"]),
    ("required label", P, {"labels": {}}, "labels.team", ["is required by the catalog", "nlp, vision"]),
    ("label value from the allowed set", P, {"labels.stage": "prd"}, "labels.stage", ["'prd'", "did you mean 'prod'?"]),
]


@pytest.mark.parametrize("row", WRONG, ids=[row[0] for row in WRONG])
def test_wrong_form_names_path_value_rule_and_choice(row: Row, catalog: Catalog) -> None:
    assert_wrong(row, catalog)
