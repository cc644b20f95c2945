"""Queues of a test's own: flavors, cluster queues, local queues, priorities and cohorts, removed at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

from tests.control_plane.admin import Admin, Object, condition

Nodes = Literal["kwok", "real"]
"""The label `type` of the nodes: fake ones or the real one."""

API = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
Quota = Mapping[str, int | str]
"""Amounts by resource: {"cpu": 8, "memory": "64Gi", GPU: 8}."""


def unique(word: str) -> str:
    """Return a name that nothing else has."""
    return f"{word}-{uuid4().hex[:8]}"


def _flavor_quotas(name: str, quota: Quota, borrow: Quota, lend: Quota) -> Object:
    resources = []
    for resource, amount in quota.items():
        one: Object = {"name": resource, "nominalQuota": str(amount)}
        if resource in borrow:
            one["borrowingLimit"] = str(borrow[resource])
        if resource in lend:
            one["lendingLimit"] = str(lend[resource])
        resources.append(one)
    return {"name": name, "resources": resources}


@dataclass
class Queues:
    """Makes what a test needs of Kueue; all names are its own.

    `queue` does all in one call::

        queue = queues.queue(GPU=8)                          # on fake nodes
        queue = queues.queue("real", cpu=2, memory="8Gi")    # on the real node
    """

    admin: Admin
    namespace: str
    _made: list[str] = field(default_factory=list)

    def make(self, kind: str, name: str, spec: Object | None = None, namespace: str = "", **more: Any) -> str:
        """Create one of Kueue's objects and return its name."""
        meta: Object = {"name": name} | ({"namespace": namespace} if namespace else {})
        obj: Object = {"apiVersion": API, "kind": kind, "metadata": meta, **more}
        if spec is not None:
            obj["spec"] = spec
        self.admin.create(obj)
        self._made.append(self.admin.path_of(obj))
        return name

    def flavor(self, nodes: Nodes | None = "kwok", **spec: Any) -> str:
        """Make a ResourceFlavor of nodes with that label `type` (None: of any); spec: nodeTaints, tolerations."""
        labels = {"nodeLabels": {"type": nodes}} if nodes else {}
        return self.make("ResourceFlavor", unique("flavor"), {**labels, **spec})

    def cluster_queue(
        self,
        flavors: Mapping[str, Quota],
        *,
        cohort: str = "",
        borrow: Quota | None = None,
        lend: Quota | None = None,
        **spec: Any,
    ) -> str:
        """Make a ClusterQueue with quotas by flavor, all of the same resources, and wait until it is active.

        Args:
            flavors: Quota of each flavor, in the order in which Kueue tries them.
            cohort: Cohort to share with.
            borrow: Limits of what it may borrow from the cohort.
            lend: Limits of what it may lend.
            spec: More of the spec: preemption, queueingStrategy, flavorFungibility, stopPolicy.
        """
        name = unique("cq")
        covered = list(next(iter(flavors.values())))
        quotas = [_flavor_quotas(flavor, quota, borrow or {}, lend or {}) for flavor, quota in flavors.items()]
        body: Object = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": covered, "flavors": quotas}],
            **spec,
        }
        if cohort:
            body["cohortName"] = cohort
        self.make("ClusterQueue", name, body)
        if body.get("stopPolicy", "None") == "None":
            path = self.admin.path("ClusterQueue", name)
            self.admin.wait(path, lambda found: condition(found, "Active") == "True", "active")
        return name

    def local_queue(self, cluster_queue: str, namespace: str = "", name: str = "") -> str:
        """Make a LocalQueue, in the test's namespace where none is named."""
        return self.make(
            "LocalQueue", name or unique("queue"), {"clusterQueue": cluster_queue}, namespace or self.namespace
        )

    def queue(self, nodes: Nodes = "kwok", quota: Quota | None = None, **amounts: int | str) -> str:
        """Make a flavor, a ClusterQueue of that quota and a LocalQueue; return the LocalQueue's name.

        Amounts are by resource (cpu=8, memory="64Gi", GPU=8), or as a mapping; what is not named is plenty.
        """
        plenty: Quota = {"cpu": 1000, "memory": "4Ti", GPU: 1000}
        named = {GPU if name == "GPU" else name: amount for name, amount in amounts.items()}
        return self.local_queue(self.cluster_queue({self.flavor(nodes): {**plenty, **(quota or {}), **named}}))

    def priority(self, value: int, name: str = "") -> str:
        """Make a WorkloadPriorityClass."""
        return self.make("WorkloadPriorityClass", name or unique("priority"), value=value)

    def cohort(self, parent: str = "") -> str:
        """Make a Cohort."""
        return self.make("Cohort", unique("cohort"), {"parentName": parent} if parent else {})

    def change(self, cluster_queue: str, flavor_quotas: Sequence[Mapping[str, Any]]) -> None:
        """Give a ClusterQueue other quotas: the `flavors` of its one resource group."""
        path = self.admin.path("ClusterQueue", cluster_queue)
        covered = [resource["name"] for resource in flavor_quotas[0]["resources"]]
        group = {"coveredResources": covered, "flavors": list(flavor_quotas)}
        self.admin.patch(path, {"spec": {"resourceGroups": [group]}})

    def close(self) -> None:
        """Remove what was made, without waiting."""
        for path in reversed(self._made):
            self.admin.delete(path)


@contextmanager
def own_place(admin: Admin) -> Iterator[Queues]:
    """Make a namespace and give a maker of queues in it; both are removed at the end, without waiting."""
    name = unique("test")
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    queues = Queues(admin, name)
    try:
        yield queues
    finally:
        queues.close()
        admin.delete(admin.path("Namespace", name))
