"""A draft of a catalog from what the platform lists: pools, instances, images, volumes, datasets, models.

source: the vendor's Python SDK 0.2.9, `resources/{instances,volumes,datasets,models,images}.py`. It is a draft: the
form's resource types are taken from the words of the pools, and what one unit of an instance gives from rows of the
shape that the SDK has for it (`types/instance.py`, ConfigMapInstanceInfo) in `/instance/quota`, whose content is not
documented; where they are not there, amounts are to be filled in.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.platform.pace import Pace
from siflow_provider.backends.platform.place import open_place
from siflow_provider.backends.platform.quota import UNREADABLE, read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siflow_provider.backends.platform.client import Client
    from siflow_provider.backends.platform.wire import InstanceRow
    from siflow_provider.backends.settings import Settings

__all__ = ["discover", "draft_of"]

_IMAGES = "/aiapi/v1/image-sync-server/images-management"
_SIZES = "/resource-service/v1/instance/quota"
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
            "datasets": await _rows(client, "/data-service/v1/datasets", notes),
            "preset models": await _rows(client, "/model-service/v1/preset-models", notes),
            "models": await _rows(client, "/model-service/v1/models", notes),
            "images": await _rows(client, _IMAGES, notes, {"filter.major_category": "siflow"}),
            "sizes": await _sizes(client),
        }
    told = {str(one["showname"]) for one in lists["sizes"]}
    untold = sorted({row.instance_name for row in rows} - told)
    if untold:
        notes.append(
            f"instances: the platform does not tell what one unit of {', '.join(untold)} gives; write its cpu, memory "
            "and GPUs down"
        )
    return draft_of(settings, rows, lists), [*notes, *_unplaced(lists)]


async def _rows(
    client: Client, path: str, notes: list[str], params: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    try:
        return await client.rows(path, params)
    except UNREADABLE as error:
        notes.append(f"{path} can't be read: {error}")
        return []


async def _sizes(client: Client) -> list[dict[str, Any]]:
    """Return the rows that say what one unit of an instance gives; [] where there are none of that shape."""
    try:
        rows = (await client.get(_SIZES)).rows
    except UNREADABLE:
        return []
    return [row for row in rows if all(row.get(key) for key in ("showname", "cpu", "memory"))]


def draft_of(settings: Settings, rows: list[InstanceRow], lists: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the catalog's sections from the lists. Pure."""
    sizes = {str(one["showname"]): _amounts(one) for one in lists["sizes"]}
    images = lists["images"]
    return {
        "clusters": [{"region": settings.region, "cluster": settings.cluster}],
        "instances": {row.instance_name: {"resources": sizes.get(row.instance_name, dict(_AMOUNTS))} for row in rows},
        "queues": [_queue(row) for row in rows],
        "images": {kind: _images(images, kind, settings) for kind in ("preset", "custom")},
        "volumes": {
            str(one["name"]): {"pvc": str(one["pvcName"])} for one in lists["volumes"] if _placed(one, "pvcName")
        },
        "datasets": _versions([one for one in lists["datasets"] if _placed(one, "pvc")], _dataset),
        "models": _versions([one for one in _all_models(lists) if _placed(one, "pvc")], _model),
    }


def _all_models(lists: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [*lists["preset models"], *lists["models"]]


def _placed(row: Mapping[str, Any], key: str) -> bool:
    place = row.get(key)
    return bool(row.get("name") and (place.get("name") if isinstance(place, dict) else place))


def _unplaced(lists: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    kinds = (
        ("volumes", lists["volumes"], "pvcName"),
        ("datasets", lists["datasets"], "pvc"),
        ("models", _all_models(lists), "pvc"),
    )
    return [
        f"{kind}: {one.get('name')} is left out, the platform does not say in which claim it lies"
        for kind, rows, key in kinds
        for one in rows
        if not _placed(one, key)
    ]


def _amounts(row: Mapping[str, Any]) -> dict[str, str]:
    gpus = str(row.get("gpu-num") or "0")
    return {"cpu": str(row["cpu"]), "memory": str(row["memory"]), **({"gpu": gpus} if gpus != "0" else {})}


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


def _images(rows: list[dict[str, Any]], kind: str, settings: Settings) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row in rows:
        listed = row.get("cluster_images_url")
        urls = [str(url) for url in listed] if isinstance(listed, list) else []
        if row.get("image_build_type") != kind or not urls or not row.get("name"):
            continue
        url = _url_here(urls, settings)
        found.setdefault(str(row["name"]), {"versions": {}})["versions"][str(row.get("version"))] = url
    return found


def _url_here(urls: list[str], settings: Settings) -> str:
    """Return the URL of this cluster, else of this region, else the first: an entry may be `text: url`."""
    for here in (settings.cluster, settings.region):
        for url in urls:
            if here and here in re.split(r"[^\w-]+", url.rpartition(": ")[0]):
                return url.rpartition(": ")[2]
    return urls[0].rpartition(": ")[2]


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
