"""Where a run is looked for."""

from __future__ import annotations

from typing import Any

from siflow_provider.backends.kubernetes.life.places import Places
from siflow_provider.backends.settings import Settings
from tests.unit.backends.kubernetes.tasks import pytorch, resolved

CATALOG: dict[str, Any] = {
    "clusters": [
        {"region": "east", "cluster": "a"},
        {"region": "west", "cluster": "b", "context": "west-admin", "namespace": "jobs"},
    ],
    "project_groups": {"vision": {"namespace": "ml-vision"}, "speech": {}},
}


def read(catalog: dict[str, Any] | None) -> Places:
    places = Places()
    places.read(Settings(backend="kubernetes", catalog=catalog))
    return places


def test_without_a_catalog_it_is_the_connections_own_namespace() -> None:
    places = read(None)
    assert places.contexts() == [""]
    assert places.namespaces("", "default") == ["default"]


def test_a_catalog_names_contexts_and_namespaces() -> None:
    places = read(CATALOG)
    assert places.contexts() == ["", "west-admin"]
    assert places.namespaces("", "default") == ["default", "ml-vision"]
    assert places.namespaces("west-admin", "web") == ["web", "jobs", "ml-vision"]


def test_where_a_task_of_this_process_goes_is_looked_at_too() -> None:
    places = read(None)
    places.add_task(resolved(pytorch(), namespace="elsewhere", context="north"))
    assert places.namespaces("north", "default") == ["default", "elsewhere"]
