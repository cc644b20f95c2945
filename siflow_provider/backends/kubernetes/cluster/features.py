"""What a cluster has: Kueue, the training operators, in which versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.kubernetes.cluster.errors import NotFound
from siflow_provider.backends.kubernetes.cluster.resources import (
    PODMONITORS,
    PYTORCHJOBS,
    RAYJOBS,
    TRAINJOBS,
    WORKLOADS,
    Resource,
)

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.api import Api

__all__ = ["Features", "discover"]


@dataclass(frozen=True)
class Features:
    """What a cluster has.

    Attributes:
        kueue, pytorchjob, rayjob, trainjob, podmonitor: the kind is served, in the version that this package speaks.
        versions: API group -> versions served, the preferred one first.
        server: the API server's own version, such as `v1.36.3`.
    """

    kueue: bool
    pytorchjob: bool
    rayjob: bool
    trainjob: bool
    podmonitor: bool
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    server: str = ""


async def discover(api: Api) -> Features:
    """Ask what the cluster has: the groups, and of those that matter which kinds are among them."""
    groups = (await api.get("/apis")).get("groups") or []
    versions = {str(group["name"]): _versions(group) for group in groups}

    async def has(resource: Resource) -> bool:
        if resource.version not in versions.get(resource.group, ()):
            return False
        try:
            served = await api.get(f"/apis/{resource.api_version}")
        except NotFound:  # taken away in between
            return False
        return any(item.get("name") == resource.plural for item in served.get("resources") or [])

    return Features(
        kueue=await has(WORKLOADS),
        pytorchjob=await has(PYTORCHJOBS),
        rayjob=await has(RAYJOBS),
        trainjob=await has(TRAINJOBS),
        podmonitor=await has(PODMONITORS),
        versions=versions,
        server=str((await api.get("/version")).get("gitVersion") or ""),
    )


def _versions(group: Mapping[str, Any]) -> tuple[str, ...]:
    preferred = str((group.get("preferredVersion") or {}).get("version") or "")
    served = [str(item["version"]) for item in group.get("versions") or []]
    return tuple(sorted(served, key=lambda version: version != preferred))
