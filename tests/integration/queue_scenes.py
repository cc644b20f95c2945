"""Random queues and random tasks, as data, and what makes them real."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from siflow_provider.backends.kubernetes.queueing.podsets import PodSet, task_pod_sets
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.ray import Head, RaySection
from siflow_provider.spec.resolve import Flavor, ResolvedTask
from tests.control_plane.queues import API, GPU, unique
from tests.unit.backends.kubernetes.tasks import pytorch, ray, resolved

LABEL = "siflow-test/kind"
TAINT = {"key": "siflow-test/taint", "value": "yes", "effect": "NoSchedule"}
TOLERATION = {"key": "siflow-test/taint", "operator": "Equal", "value": "yes"}
CPU, MEMORY = "cpu", "memory"
_PREEMPTION = {
    "withinClusterQueue": "LowerPriority",
    "reclaimWithinCohort": "Any",
    "borrowWithinCohort": {"policy": "LowerPriority"},
}

Object = dict[str, Any]


@dataclass(frozen=True)
class Amount:
    """Quota of one resource in one flavor; the limits count within a cohort only."""

    nominal: int
    borrow: int | None = None
    lend: int | None = None

    def entry(self, resource: str, *, limited: bool) -> Object:
        found: Object = {"name": resource, "nominalQuota": str(self.nominal)}
        if limited and self.borrow is not None:
            found["borrowingLimit"] = str(self.borrow)
        if limited and self.lend is not None:
            found["lendingLimit"] = str(min(self.lend, self.nominal))
        return found


@dataclass(frozen=True)
class Ask:
    """A task of the form, small enough to be drawn at random."""

    kind: str
    cpu: int
    gpu: int
    workers: int
    tolerates: bool = False
    wants: str | None = None

    def task(self, queue: str, namespace: str) -> ResolvedTask:
        amounts: dict[str, str | float] = {CPU: self.cpu, MEMORY: "1Gi", **({GPU: self.gpu} if self.gpu else {})}
        place = Flavor(
            instance="drawn",
            resources=Resources.of(amounts),
            queue=queue,
            node_selector={LABEL: self.wants} if self.wants else {},
            tolerations=(TOLERATION,) if self.tolerates else (),
        )
        if self.kind == "PyTorchJob":
            return resolved(pytorch(workers=self.workers), flavors=(place,), namespace=namespace)
        small = Flavor(instance="small", resources=Resources.of({CPU: 1, MEMORY: "1Gi"}), tolerations=place.tolerations)
        form = ray(RaySection(head=Head(instance="small")), workers=self.workers)
        return resolved(form, flavors=(place,), head=small, namespace=namespace)


@dataclass(frozen=True)
class Scene:
    """A queue, what stands around it, what is in it already, and a task before it.

    Attributes:
        kinds: label of each flavor, "" for none, with whether it is tainted, or tainted and tolerated by itself.
        split: GPUs have a resource group and flavors of their own.
        covers: resources that the queue has quota for.
        own, other: quotas by flavor of the queue and of its neighbour.
        shape: alone, in a cohort, or in a tree of cohorts.
        pool: what the parent cohort has by itself, by flavor.
        before: what is held already, at priority 0.
        holder: whose queue holds it: the neighbour's, or the task's own.
        ask: the task.
        priority: the task's.
        preempts: the queue may take quota back from those of lower priority.
    """

    kinds: tuple[tuple[str, str], ...]
    split: bool
    covers: tuple[str, ...]
    own: tuple[Amount, ...]
    other: tuple[Amount, ...]
    shape: str
    pool: tuple[Amount, ...]
    before: Ask | None
    ask: Ask
    priority: int = 0
    preempts: bool = False
    holder: str = "other"
    names: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def name(self, word: str) -> str:
        """Return a name that only this scene has."""
        return self.names.setdefault(word, unique(f"scene-{word}"))

    def objects(self, namespace: str) -> Iterator[Object]:
        """Yield what must exist, in the order of creation."""
        for index, (kind, tainted) in enumerate(self.kinds):
            for part in ("f", "g") if self.split else ("f",):
                spec: Object = {"nodeLabels": {LABEL: kind}} if kind else {}
                spec |= {"nodeTaints": [TAINT]} if tainted else {}
                spec |= {"tolerations": [TOLERATION]} if tainted == "tolerated" else {}
                yield _kueue("ResourceFlavor", self.name(f"{part}{index}"), spec)
        if self.shape == "tree":
            yield _kueue("Cohort", self.name("root"), {"resourceGroups": self._groups(self.pool, limited=False)})
            yield _kueue("Cohort", self.name("team"), {"parentName": self.name("root")})
        for word, amounts, cohort in (("mine", self.own, "team"), ("other", self.other, self._home)):
            alone = self.shape == "alone"
            spec = {"namespaceSelector": {}, "resourceGroups": self._groups(amounts, limited=not alone)}
            spec |= {} if alone else {"cohortName": self.name(cohort)}
            spec |= {"preemption": _PREEMPTION} if self.preempts else {}
            yield _kueue("ClusterQueue", self.name(word), spec)
            yield _kueue("LocalQueue", self.name(word), {"clusterQueue": self.name(word)}, namespace)

    @property
    def _home(self) -> str:
        return "root" if self.shape == "tree" else "team"

    def _groups(self, amounts: tuple[Amount, ...], *, limited: bool) -> list[Object]:
        parts = (("f", (CPU, MEMORY)), ("g", (GPU,))) if self.split else (("f", (CPU, MEMORY, GPU)),)
        return [
            {
                "coveredResources": [name for name in resources if name in self.covers],
                "flavors": [
                    {
                        "name": self.name(f"{part}{index}"),
                        "resources": [_quota(amount, name, limited) for name in resources if name in self.covers],
                    }
                    for index, amount in enumerate(amounts[: len(self.kinds)])
                ],
            }
            for part, resources in parts
            if set(resources) & set(self.covers)
        ]


def _quota(amount: Amount, resource: str, limited: bool) -> Object:
    if resource == MEMORY:
        return {"name": resource, "nominalQuota": "1Ti"}
    return amount.entry(resource, limited=limited)


def _kueue(kind: str, name: str, spec: Object, namespace: str = "") -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}


def workload(name: str, namespace: str, queue: str, sets: tuple[PodSet, ...], priority: int = 0) -> Object:
    """Return a Workload as Kueue would make it of the job, without a job: no pods come of it."""
    pod_sets = [{"name": one.name, "count": one.count, "template": {"spec": _plain(one.spec)}} for one in sets]
    return _kueue("Workload", name, {"queueName": queue, "priority": priority, "podSets": pod_sets}, namespace)


def asked(ask: Ask, queue: str, namespace: str) -> tuple[ResolvedTask, tuple[PodSet, ...]]:
    """Return a task and its pod sets."""
    task = ask.task(queue, namespace)
    return task, task_pod_sets(task)


def _plain(spec: Mapping[str, Any]) -> Object:
    return dict(spec)


_small = st.integers(0, 12)
_limit = st.none() | st.integers(0, 6)
_kind = st.tuples(st.sampled_from(["", "", "a", "b"]), st.sampled_from(["", "", "", "tainted", "tainted", "tolerated"]))
_kinds = st.just((("", ""), ("", ""))) | st.lists(_kind, min_size=1, max_size=2).map(tuple)
asks = st.builds(
    Ask,
    st.sampled_from(["PyTorchJob", "RayJob"]),
    cpu=st.integers(1, 3),
    gpu=st.integers(0, 3),
    workers=st.integers(0, 3),
    tolerates=st.sampled_from([True, True, False]),
    wants=st.sampled_from([None, None, None, None, "a", "b"]),
)


def _amounts(nominal: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[Amount, Amount]]:
    one = st.builds(Amount, nominal, _limit, _limit)
    return st.tuples(one, one)


def _scene(ask: Ask) -> st.SearchStrategy[Scene]:
    """Return scenes before which the task stands; every other quota is what it needs, or one less."""
    needs = st.sampled_from([pods * each for pods in (ask.workers + 1, ask.workers) for each in (ask.cpu, ask.gpu)])
    return st.builds(
        Scene,
        kinds=_kinds,
        split=st.booleans(),
        covers=st.sampled_from([(CPU, MEMORY, GPU), (CPU, MEMORY, GPU), (CPU, MEMORY, GPU), (CPU, MEMORY)]),
        own=_amounts(needs | needs.map(lambda need: max(0, need - 1)) | _small | _small),
        other=_amounts(_small),
        shape=st.sampled_from(["alone", "cohort", "tree"]),
        pool=_amounts(_small),
        before=st.none() | asks | asks,
        ask=st.just(ask),
        priority=st.sampled_from([0, 100]),
        preempts=st.booleans(),
        holder=st.sampled_from(["other", "mine"]),
    )


scenes = asks.flatmap(_scene)
