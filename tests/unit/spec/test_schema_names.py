"""With a catalog the schema completes its names in an editor, and refuses those that are not there."""

from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped] # its types are another distribution
import pytest

from siflow_provider.spec.catalog import load_catalog
from siflow_provider.spec.schema import TEMPLATE, json_schema
from siflow_provider.spec.schema_names import with_names

CATALOG = load_catalog(
    {
        "clusters": [{"region": "cn-east", "cluster": "alpha"}],
        "instances": {"gpu.demo-1": {"resources": {"cpu": 8, "memory": "64Gi", "gpu": 1}}},
        "queues": [
            {"type": "on_demand", "instance": "gpu.demo-1", "queue": "q", "resource_pool": "p"},
            {"type": "reserved", "pool": "vision", "instance": "gpu.demo-1", "queue": "q", "resource_pool": "r"},
        ],
        "images": {"custom": {"trainer": {"versions": {"7": "registry.example.test/trainer:7"}}}},
        "volumes": {"team-data": {"pvc": "a"}},
        "datasets": {"corpus": {"pvc": "a"}},
        "models": {"bert": {"pvc": "a"}},
    }
)
SCHEMA = with_names(json_schema(), CATALOG, TEMPLATE)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
FORM: dict[str, Any] = {
    "kind": "PyTorchJob",
    "region": "cn-east",
    "image": {"custom": "trainer", "version": "7"},
    "command": "true",
    "compute": {"type": "reserved", "pool": "vision", "instance": "gpu.demo-1"},
    "volumes": [{"name": "team-data", "mount_path": "/mnt/a"}, {"name": "pvc:own", "mount_path": "/mnt/b"}],
    "datasets": [{"name": "corpus", "mount_path": "/mnt/c"}],
    "models": [{"name": "{{ params.model }}", "mount_path": "/mnt/d"}],
}
PLACE = {"cpu": 1, "memory": "1Gi"}


def test_the_schema_with_names_is_a_schema_and_takes_what_the_catalog_has() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    VALIDATOR.validate(FORM)
    VALIDATOR.validate({**FORM, "compute": {"type": "on_demand", "instances": ["gpu.demo-1", PLACE]}})
    VALIDATOR.validate({**FORM, "image": "registry.example.test/other:1"})


@pytest.mark.parametrize(
    "change",
    [
        {"region": "cn-west"},
        {"image": {"custom": "trianer", "version": "7"}},
        {"compute": {"type": "reserved", "pool": "vison", "instance": "gpu.demo-1"}},
        {"compute": {"type": "on_demand", "instances": ["gpu.demo-2"]}},
        {"volumes": [{"name": "team-dta", "mount_path": "/mnt/a"}]},
        {"datasets": [{"name": "corps", "mount_path": "/mnt/a"}]},
        {"models": [{"name": "brt", "mount_path": "/mnt/a"}]},
    ],
    ids=str,
)
def test_a_name_that_is_not_in_the_catalog_is_marked_by_the_editor(change: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid({**FORM, **change})


def test_what_a_catalog_does_not_list_stays_free() -> None:
    free = with_names(json_schema(), load_catalog({}), TEMPLATE)
    assert free == json_schema()
