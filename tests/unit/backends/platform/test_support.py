"""What the platform can't carry is refused where a task asks for it, with the reason, and never guessed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from siflow_provider.backends.platform.backend import PlatformBackend
from siflow_provider.backends.platform.fields import UNSPELT
from siflow_provider.backends.platform.overrides import ALWAYS, FIELDS
from siflow_provider.backends.settings import Settings
from siflow_provider.errors import UnsupportedError
from siflow_provider.spec.catalog import load_catalog
from siflow_provider.spec.reading import load
from siflow_provider.spec.resolve import ResolvedTask, resolve
from tests.golden.manifests import CATALOG
from tests.platform.client import connection
from tests.unit.backends.platform.tasks import context, task

URL = "https://console.example.test/sfapi"
COMPUTE = {"type": "on_demand", "instances": ["cpu.demo-1"]}
RESERVED = {"type": "reserved", "pool": "shared", "instance": "cpu.demo-1"}
WORKERS = {"min_workers": 1, "max_workers": 2}
ASKS: dict[str, tuple[dict[str, Any], Any]] = {
    "kind": ({"ray": {}}, "RayJob"),
    "project_group": ({"project_group": "nlp"}, "nlp"),
    "visible_in_group": ({"visible_in_group": True}, True),
    "shm_size": ({"shm_size": "1Gi"}, "1Gi"),
    "monitoring": ({"monitoring": {"port": 9000}}, {"port": 9000, "path": "/metrics"}),
    "image_pull_retries": ({"image_pull_retries": 0}, 0),
    "ssh": ({"ssh": True}, True),
    "compute.type": ({"compute": {**COMPUTE, "type": "spot"}}, "spot"),
    "compute.stability": ({"compute": {**COMPUTE, "type": "idle", "stability": "high"}}, "high"),
    "compute.accept_idle": ({"compute": {**RESERVED, "accept_idle": True}}, True),
    "compute.prefer_idle": ({"compute": {**RESERVED, "accept_idle": True, "prefer_idle": True}}, True),
    "compute.idle_stability": ({"compute": {**RESERVED, "accept_idle": True, "idle_stability": "low"}}, "low"),
    "compute.nodes": ({"compute": {**COMPUTE, "nodes": {"only": ["n1"]}}}, {"only": ["n1"], "exclude": []}),
    "ray.head": ({"ray": {"head": {"instance": "cpu.demo-1"}}}, None),
    "ray.runtime_env": ({"ray": {"runtime_env": {"pip": ["a"]}}}, {"pip": ["a"]}),
    "ray.shared_storage": ({"ray": {"shared_storage": {"volume": "team"}}}, {"volume": "team", "clean_up": False}),
    "ray.autoscaling": ({"workers": 1, "ray": {"autoscaling": WORKERS}}, None),
}
"""Field -> a task that uses it, and its value; None where only a part of the value is looked at."""


def backend(**overrides: Any) -> PlatformBackend:
    return PlatformBackend(connection(URL, **overrides))


def test_every_field_without_a_known_spelling_is_tried_and_can_be_spelt() -> None:
    assert set(ASKS) == {field.path for field in UNSPELT}
    assert {*ASKS, ALWAYS} == set(FIELDS)


@pytest.mark.parametrize("field", UNSPELT, ids=lambda field: field.path)
def test_a_field_without_a_known_spelling_is_refused_until_the_connection_spells_it(field: Any) -> None:
    form, value = ASKS[field.path]
    asked = task(**form)
    others: dict[str, Any] = {name: {} for name in ASKS if name != field.path}
    plain = backend(body_overrides=others)
    (reason,) = plain.unsupported(asked)
    assert (reason.path, reason.code) == (field.path, "UnknownSpelling")
    assert f"no public source tells {field.why}" in reason.message
    assert f"body_overrides['{field.path}']" in reason.message
    with pytest.raises(UnsupportedError, match=field.why):
        plain.render(asked, context())
    spelt = backend(body_overrides={**others, field.path: {"spelt": {"value": "{value}"}}})
    assert spelt.unsupported(asked) == []
    (body,) = spelt.render(asked, context()).documents
    assert body["spelt"]["value"] == value or (value is None and body["spelt"]["value"])
    assert "spelt" not in spelt.render(task(), context()).documents[0]  # nor is it in a body that does not ask for it


@pytest.mark.parametrize(
    ("change", "form", "path", "code"),
    [
        ({}, {"fault_tolerance": {"hang_timeout": "15m"}}, "fault_tolerance.hang_timeout", "NoLogs"),
        ({"instance": "in-place"}, {}, "compute.instances", "NamedOnly"),
        ({"instance": "in-place"}, {"compute": RESERVED}, "compute.instance", "NamedOnly"),
        ({"resource_pool": None}, {}, "compute.instances", "NoPool"),
    ],
)
def test_what_can_not_be_placed_or_watched_is_refused(
    change: dict[str, Any], form: dict[str, Any], path: str, code: str
) -> None:
    asked = task(**form)
    asked = replace(asked, flavors=(replace(asked.flavors[0], **change),))
    found = backend(api_overrides={}).unsupported(asked)
    assert [(reason.path, reason.code) for reason in found] == [(path, code)]


def by_catalog(settings: Settings, catalog: Path | dict[str, Any] = CATALOG, **form: Any) -> ResolvedTask:
    names = load_catalog(catalog)
    raw = {
        "kind": "PyTorchJob", "image": {"preset": "pytorch", "version": "2.9-cuda12"}, "command": "true",
        "labels": {"team": "nlp"}, "compute": {"type": "on_demand", "instances": ["gpu.h100-8"]}, **form,
    }  # fmt: skip
    return resolve(load(raw, catalog=names), names, settings.defaults())


def test_a_catalogs_defaults_refuse_no_task_and_what_is_not_carried_is_said_once() -> None:
    settings = connection(URL)
    opened, asked = PlatformBackend(settings), by_catalog(settings)
    assert (asked.task.image_pull_retries, asked.task.project_group) == (3, "nlp")
    assert opened.unsupported(asked) == []
    assert [line.partition(":")[0] for line in opened.warnings(asked)] == ["project_group", "image_pull_retries"]
    own = by_catalog(settings, image_pull_retries=3, project_group="nlp")
    assert [reason.path for reason in opened.unsupported(own)] == ["project_group", "image_pull_retries"]
    assert opened.warnings(own) == []


def test_a_catalogs_default_goes_where_the_connection_spells_it() -> None:
    settings = connection(URL, body_overrides={"image_pull_retries": {"pulls": "{value}"}, "project_group": {}})
    opened, asked = PlatformBackend(settings), by_catalog(settings)
    assert opened.render(asked, context()).documents[0]["pulls"] == 3
    assert opened.warnings(asked) == []


def test_a_catalogs_default_place_refuses_no_task_of_a_connection_to_another_one() -> None:
    settings = connection(URL).model_copy(update={"cluster": "beta"})
    opened, asked = PlatformBackend(settings), by_catalog(settings)
    assert asked.task.cluster == "alpha"
    assert opened.unsupported(asked) == []
    assert "cluster: the catalog's default is 'alpha'" in opened.warnings(asked)[-1]
    (reason,) = opened.unsupported(by_catalog(settings, region="cn-east", cluster="alpha"))
    assert (reason.path, reason.code) == ("cluster", "OtherConnection")
