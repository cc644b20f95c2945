"""What a cluster has: Kueue, the training operators, in which versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

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

__all__ = ["Features", "TrainingApi", "discover", "server_version"]

TrainingApi = Literal["PyTorchJob", "TrainJob"]
"""The kinds of object that a form of kind PyTorchJob can become."""

Served = dict[str, dict[str, frozenset[str]]]
"""Group -> version, the preferred one first -> plural names."""
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
# source: Kubernetes 1.30 "Aggregated Discovery"; who does not know it gives the plain list of groups


@dataclass(frozen=True)
class Features:
    """What a cluster has.

    Attributes:
        kueue, pytorchjob, rayjob, trainjob, podmonitor: the kind is served, in the version that this package speaks.
        versions: API group -> versions served, the preferred one first.
    """

    kueue: bool
    pytorchjob: bool
    rayjob: bool
    trainjob: bool
    podmonitor: bool
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def training_api(self, wanted: str) -> TrainingApi:
        """Return what a form of kind PyTorchJob becomes here.

        Args:
            wanted: the connection's word: `pytorchjob`, `trainjob`, or `auto`, which takes a TrainJob only where the
                cluster has no PyTorchJob.
        """
        if wanted == "auto":
            return "TrainJob" if self.trainjob and not self.pytorchjob else "PyTorchJob"
        return "TrainJob" if wanted == "trainjob" else "PyTorchJob"


async def discover(api: Api) -> Features:
    """Ask what the cluster has, in one request; a server before Kubernetes 1.27 is asked group by group."""
    answer = await api.get("/apis", accept=_AGGREGATED)
    aggregated = answer.get("kind") == "APIGroupDiscoveryList"
    served = _of_aggregated(answer) if aggregated else await _of_groups(api, answer)

    def has(resource: Resource) -> bool:
        return resource.plural in served.get(resource.group, {}).get(resource.version, ())

    return Features(
        kueue=has(WORKLOADS),
        pytorchjob=has(PYTORCHJOBS),
        rayjob=has(RAYJOBS),
        trainjob=has(TRAINJOBS),
        podmonitor=has(PODMONITORS),
        versions={group: tuple(versions) for group, versions in served.items()},
    )


async def server_version(api: Api) -> str:
    """Return the API server's own version, such as `v1.36.3`."""
    return str((await api.get("/version")).get("gitVersion") or "")


def _of_aggregated(answer: Mapping[str, Any]) -> Served:
    """Read all groups, versions and kinds from one answer, which has the preferred version of a group first."""
    return {
        str(group["metadata"]["name"]): {
            str(version["version"]): frozenset(str(each["resource"]) for each in version.get("resources") or [])
            for version in group.get("versions") or []
        }
        for group in answer.get("items") or []
    }


async def _of_groups(api: Api, answer: Mapping[str, Any]) -> Served:
    """Ask for the kinds of those groups and versions that matter."""
    served: Served = {}
    wanted = {resource.api_version for resource in (WORKLOADS, PYTORCHJOBS, RAYJOBS, TRAINJOBS, PODMONITORS)}
    for group in answer.get("groups") or []:
        name = str(group["name"])
        served[name] = {}
        for version in _versions(group):
            kinds = await _kinds(api, f"{name}/{version}") if f"{name}/{version}" in wanted else frozenset()
            served[name][version] = kinds
    return served


async def _kinds(api: Api, api_version: str) -> frozenset[str]:
    try:
        answer = await api.get(f"/apis/{api_version}")
    except NotFound:  # taken away in between
        return frozenset()
    return frozenset(str(item.get("name")) for item in answer.get("resources") or [])


def _versions(group: Mapping[str, Any]) -> tuple[str, ...]:
    preferred = str((group.get("preferredVersion") or {}).get("version") or "")
    served = [str(item["version"]) for item in group.get("versions") or []]
    return tuple(sorted(served, key=lambda version: version != preferred))
