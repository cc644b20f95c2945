"""A draft of a catalog from what the platform lists: pools, instances, images, volumes, datasets, models.

source: the vendor's Python SDK 0.2.9, `resources/{instances,volumes,datasets,models,images}.py`. It is a draft: what
one unit of an instance gives is in no call that is known, so that amounts are to be filled in, and the form's resource
types are taken from the words of the pools.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.platform.errors import NotFound, Refused
from siflow_provider.backends.platform.pace import Pace
from siflow_provider.backends.platform.place import open_place
from siflow_provider.backends.platform.quota import read_rows
from siflow_provider.errors import AccessDenied, BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siflow_provider.backends.platform.client import Client
    from siflow_provider.backends.platform.wire import InstanceRow
    from siflow_provider.backends.settings import Settings

__all__ = ["discover", "draft_of"]

_IMAGES = "/aiapi/v1/image-sync-server/images-management"
_UNREADABLE = (AccessDenied, BackendUnavailable, NotFound, Refused)
_AMOUNTS = {"cpu": "1", "memory": "1Gi"}
"""Stands for what one unit gives until an admin writes it down."""


async def discover(settings: Settings, pace: Pace | None = None) -> tuple[dict[str, Any], list[str]]:
    """Return a catalog as a mapping, ready for YAML, and what could not be read or has to be filled in.

    Args:
        settings: the connection's.
        pace: timeouts.

    Raises:
        BackendError: the pools can't be read.

    Example:
        draft, notes = await discover(settings)
    """
    notes: list[str] = []
    async with open_place(settings, pace or Pace()) as place:
        client = place.client
        rows = await read_rows(client, settings)
        lists = {
            "volumes": await _rows(client, "/resource-service/v1/volumes", notes),
            "datasets": await _rows(client, "/data-service/v1/datasets", notes, paged=False),
            "preset models": await _rows(client, "/model-service/v1/preset-models", notes, paged=False),
            "models": await _rows(client, "/model-service/v1/models", notes, paged=False),
            "images": await _rows(client, _IMAGES, notes, {"filter.major_category": "siflow"}, paged=False),
        }
    notes.append("instances: what one unit gives is not told by the platform; write its cpu, memory and GPUs down")
    return draft_of(settings, rows, lists), notes


async def _rows(
    client: Client, path: str, notes: list[str], params: Mapping[str, Any] | None = None, *, paged: bool = True
) -> list[dict[str, Any]]:
    try:
        return await client.rows(path, params) if paged else (await client.get(path, params)).rows
    except _UNREADABLE as error:
        notes.append(f"{path} can't be read: {error}")
        return []


def draft_of(settings: Settings, rows: list[InstanceRow], lists: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the catalog's sections from the lists. Pure."""
    return {
        "clusters": [{"region": settings.region, "cluster": settings.cluster}],
        "instances": {row.instance_name: {"resources": dict(_AMOUNTS)} for row in rows},
        "queues": [_queue(row) for row in rows],
        "images": {kind: _images(lists["images"], kind) for kind in ("preset", "custom")},
        "volumes": {str(one["name"]): _volume(one) for one in lists["volumes"] if one.get("name")},
        "datasets": _versions(lists["datasets"], _dataset),
        "models": _versions([*lists["preset models"], *lists["models"]], _model),
    }


def _queue(row: InstanceRow) -> dict[str, Any]:
    words = f"{row.resource_pool_name} {row.resource_pool_qos_type} {row.resource_pool_type}".lower()
    kind = next((kind for kind, word in _KINDS if word in words), "on_demand")
    entry = {
        "type": kind,
        "instance": row.instance_name,
        "queue": re.sub(r"[^a-z0-9-]+", "-", row.resource_pool_name.lower()).strip("-"),
        "resource_pool": row.resource_pool_name,
    }
    if kind == "reserved":
        entry["pool"] = "shared" if "shared" in words else row.resource_pool_name
    return entry


_KINDS = (("reserved", "reserved"), ("spot", "spot"), ("idle", "idle"), ("on_demand", "demand"))


def _images(rows: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row in rows:
        urls = row.get("cluster_images_url") or []
        if row.get("image_build_type") != kind or not urls or not row.get("name"):
            continue
        # an entry may be "text: url"
        url = str(urls[0]).rpartition(": ")[2]
        found.setdefault(str(row["name"]), {"versions": {}})["versions"][str(row.get("version"))] = url
    return found


def _volume(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"pvc": row["pvcName"]} if row.get("pvcName") else {}


def _dataset(row: Mapping[str, Any]) -> dict[str, Any]:
    return _given(pvc=row.get("pvc"), sub_path=row.get("subPath"))


def _model(row: Mapping[str, Any]) -> dict[str, Any]:
    place = row.get("pvc")
    return _given(pvc=place.get("name"), sub_path=place.get("path")) if isinstance(place, dict) else {}


def _given(**values: Any) -> dict[str, Any]:
    return {key: str(value).strip("/") for key, value in values.items() if value and str(value).strip("/")}


def _versions(rows: list[dict[str, Any]], place: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row in rows:
        if not row.get("name"):
            continue
        entry = found.setdefault(str(row["name"]), {})
        if row.get("version"):
            entry.setdefault("versions", {})[str(row["version"])] = place(row)
        else:
            entry.update(place(row))
    return found
