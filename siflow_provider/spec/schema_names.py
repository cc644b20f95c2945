"""The names of a catalog in the form's JSON Schema, so that an editor completes and checks them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siflow_provider.spec.catalog_model import Catalog

__all__ = ["with_names"]

_CLAIM = {"type": "string", "pattern": "^pvc:", "description": "A PersistentVolumeClaim of the cluster."}


def with_names(schema: dict[str, Any], catalog: Catalog, free: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with the catalog's names where the form takes names; what it does not list stays free.

    Args:
        schema: of the form.
        catalog: whose names.
        free: the schema of a template, which may stand in the place of each name.

    Example:
        with_names(json_schema(), load_catalog("catalog.yaml"), TEMPLATE)
    """
    definitions = dict(schema["$defs"])
    for (model, field), names in _names(catalog).items():
        properties = definitions[model]["properties"]
        if names and field in properties:
            others = [_CLAIM, free] if (model, field) == ("VolumeMount", "name") else [free]
            choice = {"anyOf": [{"enum": sorted(names)}, *others]}
            definitions[model] = {
                **definitions[model],
                "properties": {**properties, field: _replaced(properties[field], choice)},
            }
    return {**schema, "$defs": definitions}


def _names(catalog: Catalog) -> dict[tuple[str, str], set[str]]:
    instances = set(catalog.instances)
    pools = {entry.pool for entry in catalog.queues if entry.pool}
    found = {
        ("VolumeMount", "name"): set(catalog.volumes),
        ("SharedStorage", "volume"): set(catalog.volumes),
        ("DatasetMount", "name"): set(catalog.datasets),
        ("ModelMount", "name"): set(catalog.models),
        ("CatalogImage", "preset"): set(catalog.images.preset),
        ("CatalogImage", "custom"): set(catalog.images.custom),
        ("Reserved", "instance"): instances,
        ("Head", "instance"): instances,
        ("Reserved", "pool"): pools and {"shared", *pools},
    }
    found |= {(kind, "instances"): instances for kind in ("OnDemand", "Spot", "Idle")}
    for kind in ("PyTorchJob", "RayJob"):
        found[kind, "region"] = {entry.region for entry in catalog.clusters}
        found[kind, "cluster"] = {entry.cluster for entry in catalog.clusters}
        found[kind, "project_group"] = set(catalog.project_groups)
    return found


def _replaced(schema: Any, choice: dict[str, Any]) -> Any:
    """Return the schema with the choice in the place of each free text in it."""
    if isinstance(schema, list):
        return [_replaced(item, choice) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "string" and "pattern" not in schema:
        return {**{key: value for key, value in schema.items() if key != "type"}, **choice}
    return {key: _replaced(value, choice) for key, value in schema.items()}
