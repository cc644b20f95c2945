"""Rules of the form's section "Environment" (mounts and their paths): what is wrong, where it is said, what is said."""

from __future__ import annotations

import pytest

from siflow_provider.spec import Catalog
from tests.unit.spec.forms import P, Row, assert_wrong

VOLUME = {"name": "team-data", "mount_path": "/volume/data"}
WRONG: list[Row] = [
    ("volume name is required", P, {"volumes": [{"mount_path": "/volume/a"}]}, "volumes[0].name", ["is required"]),
    ("volume path is required", P, {"volumes": [{"name": "team-data"}]}, "volumes[0].mount_path", ["is required"]),
    ("volumes is a list", P, {"volumes": VOLUME}, "volumes", ["must be a list, not a mapping"]),
    ("a volume is a mapping", P, {"volumes": ["team-data"]}, "volumes[0]", ["must be a mapping, not text"]),
    ("volume in the catalog", P, {"volumes": [VOLUME | {"name": "team-dat"}]}, "volumes[0].name", ["'team-data'"]),
    ("volume of another group", P, {"volumes": [VOLUME | {"name": "vision-data"}]}, "volumes[0].name", ["is not for"]),
    (
        "claim name",
        P,
        {"volumes": [VOLUME | {"name": "pvc:Team_Data"}]},
        "volumes[0].name",
        ["no name of a Kubernetes"],
    ),
    ("the same volume twice at one path", P, {"volumes": [VOLUME, VOLUME]}, "volumes[1].mount_path", ["mounted twice"]),
    (
        "two mounts at one path",
        P,
        {"volumes": [VOLUME], "datasets": [{"name": "imagenet", "mount_path": "/volume/data"}]},
        "datasets[0].mount_path",
        ["volumes[0] (team-data) is already mounted at /volume/data"],
    ),
    ("mount path absolute", P, {"volumes": [VOLUME | {"mount_path": "data/"}]}, "volumes[0].mount_path", ["'/data'"]),
    (
        "mount path normalised",
        P,
        {"volumes": [VOLUME | {"mount_path": "/mnt//a/"}]},
        "volumes[0].mount_path",
        ["'/mnt/a'"],
    ),
    ("mount path with ..", P, {"volumes": [VOLUME | {"mount_path": "/mnt/../etc"}]}, "volumes[0].mount_path", ["'..'"]),
    (
        "mount path with a colon",
        P,
        {"volumes": [VOLUME | {"mount_path": "/mnt/a:b"}]},
        "volumes[0].mount_path",
        ["colon"],
    ),
    *[
        (f"mount in {path}", P, {"volumes": [VOLUME | {"mount_path": path}]}, "volumes[0].mount_path", ["the system"])
        for path in ("/proc", "/sys/x", "/dev/shm", "/etc")
    ],
    ("sub path absolute", P, {"volumes": [VOLUME | {"sub_path": "/a"}]}, "volumes[0].sub_path", ["relative"]),
    ("sub path with ..", P, {"volumes": [VOLUME | {"sub_path": "a/../../b"}]}, "volumes[0].sub_path", ["without '..'"]),
    ("sub path placeholder", P, {"volumes": [VOLUME | {"sub_path": "{group}"}]}, "volumes[0].sub_path", ["{user}"]),
    (
        "dataset in the catalog",
        P,
        {"datasets": [{"name": "imagent", "mount_path": "/mnt/a"}]},
        "datasets[0].name",
        ["'imagenet'"],
    ),
    (
        "dataset version",
        P,
        {"datasets": [{"name": "imagenet", "version": "2013", "mount_path": "/mnt/a"}]},
        "datasets[0].version",
        ["'2013' is no version", "'2012'"],
    ),
    (
        "dataset version missing",
        P,
        {"datasets": [{"name": "corpus", "mount_path": "/mnt/a"}]},
        "datasets[0].version",
        ["1, 2"],
    ),
    (
        "dataset written to",
        P,
        {"datasets": [{"name": "imagenet", "mount_path": "/mnt/a", "read_only": False}]},
        "datasets[0].read_only",
        ["always read-only"],
    ),
    (
        "model in the catalog",
        P,
        {"models": [{"name": "llama", "mount_path": "/mnt/a"}]},
        "models[0].name",
        ["llama-8b"],
    ),
]


@pytest.mark.parametrize("row", WRONG, ids=[row[0] for row in WRONG])
def test_wrong_form_names_path_value_rule_and_choice(row: Row, catalog: Catalog) -> None:
    assert_wrong(row, catalog)
