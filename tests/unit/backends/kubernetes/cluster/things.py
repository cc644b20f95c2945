"""Objects of a kind that only the tests know."""

from __future__ import annotations

from typing import Any

from siflow_provider.backends.kubernetes.cluster.resources import Resource

THINGS = Resource("example.com", "v1", "things", "Thing")
PATH = THINGS.path("ml")


def thing(name: str, phase: str = "new", key: str | None = None) -> dict[str, Any]:
    """An object that is found by its label `key`."""
    return {"metadata": {"name": name, "labels": {"key": key or name}}, "status": {"phase": phase}}


def label(item: dict[str, Any]) -> str | None:
    """The key of a thing."""
    return str(item["metadata"]["labels"]["key"])
