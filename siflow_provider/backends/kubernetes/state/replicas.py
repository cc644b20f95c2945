"""The run's replicas by name, each with its newest pod: `master-0`, `worker-1`, `head-0`, `submitter-0`.

A PyTorchJob's pods carry type and index, a TrainJob's the number of their rank. Ray's pods have names of chance: the
workers of the cluster that the job runs on now are numbered in the order in which they were made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.state.objects import (
    Object,
    Seen,
    dig,
    is_true,
    items,
    labels,
    moment,
    since,
    uid,
)
from siflow_provider.backends.kubernetes.state.pods import PodState, pod_state
from siflow_provider.core.status import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

Told = Mapping[str, list[Object]]
__all__ = ["MAIN_CONTAINERS", "Member", "fallen", "members", "replica_names"]

_TYPE = "training.kubeflow.org/replica-type"
_INDEX = "training.kubeflow.org/replica-index"
_COMPLETION = "batch.kubernetes.io/job-completion-index"
_CLUSTER = "ray.io/cluster"
_NODE_TYPE = "ray.io/node-type"
_GROUP = "ray.io/group"
_RAY_INDEX = "ray.io/worker-group-replica-index"
_JOB_NAME = "batch.kubernetes.io/job-name"
MAIN_CONTAINERS = {
    "master": "pytorch", "worker": "pytorch", "head": "ray-head", "submitter": "ray-job-submitter",
}  # fmt: skip
"""Role -> container; a TrainJob's is its pods' first."""


@dataclass(frozen=True, slots=True)
class Member:
    """One replica that the job asks for, or has.

    Attributes:
        name: `worker-1`.
        role: master, worker, head or submitter.
        rank: PyTorchJob only.
        pod: its newest pod; None while there is none.
    """

    name: str
    role: str
    rank: int | None
    pod: PodState | None

    @property
    def who(self) -> str:
        """The replica in words: `worker-1 (rank 2)`."""
        return self.name if self.rank is None else f"{self.name} (rank {self.rank})"


def replica_names(kind: Kind, job: Object, pods: Iterable[Object]) -> dict[str, str]:
    """Return pod uid -> replica name, for the pods that are the run's replicas now; older ones are left out.

    Example:
        >>> replica_names("PyTorchJob", job, pods)
        {'0b5c…': 'master-0', '77aa…': 'worker-0'}
    """
    return {uid(pod): name for name, pod in _by_name(kind, job, pods).items()}


def members(kind: Kind, job: Object, seen: Seen, told: Told, *, over: bool) -> tuple[Member, ...]:
    """Return the replicas in the order of their ranks; Ray's: submitter, head, workers.

    Args:
        kind: the job's kind.
        job: the job.
        seen: the run's objects.
        told: object uid -> the events about it.
        over: True when no pod is made any more: then those that were deleted tell how the replicas ended.
    """
    found = _by_name(kind, job, (*_of_this_stay(seen), *seen.pods) if over else seen.pods)
    names = list(dict.fromkeys([*_expected(kind, job), *sorted(found, key=_order)]))
    return tuple(_member(kind, name, found.get(name), told) for name in names)


def fallen(kind: Kind, job: Object, seen: Seen, told: Told) -> tuple[Member, ...]:
    """Return Ray's pods that failed and were replaced, under their role's name, or a worker's under the pod's own."""
    if kind != "RayJob":
        return ()
    there = [pod for pod in (*_of_this_stay(seen), *seen.pods) if not _is_of_before(pod, job)]
    pods = [pod for pod in there if dig(pod, "status", "phase") == "Failed"]
    cluster = _cluster_name(job, pods)
    out = []
    for pod in pods:
        role = labels(pod).get(_NODE_TYPE, "")
        if role and labels(pod).get(_CLUSTER) == cluster:
            name = "head-0" if role == "head" else str(dig(pod, "metadata", "name"))
            out.append(Member(name, role, None, pod_state(pod, f"ray-{role}", told.get(uid(pod), ()))))
    return tuple(out)


def _of_this_stay(seen: Seen) -> list[Object]:
    """Return the deleted pods that were made since the queue let the run go: earlier ones were put out by the queue."""
    began = since(seen.workload, "Admitted") if is_true(seen.workload, "Admitted") else None
    return [pod for pod in seen.gone_pods if began is None or _is_younger(pod, began)]


def _is_younger(pod: Object, than: datetime) -> bool:
    made = moment(pod, "metadata", "creationTimestamp")
    return made is not None and made >= than


def _member(kind: Kind, name: str, pod: Object | None, told: Told) -> Member:
    role, _, index = name.rpartition("-")
    rank = None if kind == "RayJob" else int(index) + (role == "worker")
    if pod is None:
        return Member(name, role, rank, None)
    container = "ray-worker" if kind == "RayJob" and role == "worker" else MAIN_CONTAINERS.get(role, "")
    return Member(name, role, rank, pod_state(pod, container, told.get(uid(pod), ())))


def _order(name: str) -> tuple[int, int]:
    role, _, index = name.rpartition("-")
    return ("master", "submitter", "head", "worker").index(role), int(index)


def _by_name(kind: Kind, job: Object, pods: Iterable[Object]) -> Mapping[str, Object]:
    own = [pod for pod in pods if not _is_of_before(pod, job)]
    return _ray_pods(job, own) if kind == "RayJob" else _pytorch_pods(own)


def _is_of_before(pod: Object, job: Object) -> bool:
    """Say whether the pod was there before the job: what a deleted job of the same run left, on its way out."""
    made = moment(job, "metadata", "creationTimestamp")
    return made is not None and not _is_younger(pod, made)


def _made(pod: Object) -> str:
    return f"{dig(pod, 'metadata', 'creationTimestamp') or ''} {dig(pod, 'metadata', 'name') or ''}"


def _pytorch_pods(pods: Iterable[Object]) -> dict[str, Object]:
    out: dict[str, Object] = {}
    for pod in sorted(pods, key=_made):
        name = _by_type(pod) or _by_rank(pod)
        if name is not None:
            out[name] = pod
    return out


def _by_type(pod: Object) -> str | None:
    role, index = labels(pod).get(_TYPE), labels(pod).get(_INDEX, "")
    return f"{role}-{index}" if role in {"master", "worker"} and index.isdigit() else None


def _by_rank(pod: Object) -> str | None:
    rank = labels(pod).get(_COMPLETION, "")
    if not rank.isdigit():
        return None
    return f"worker-{int(rank) - 1}" if int(rank) else "master-0"


def _ray_pods(job: Object, pods: Iterable[Object]) -> dict[str, Object]:
    out: dict[str, Object] = {}
    workers: list[Object] = []
    cluster = _cluster_name(job, pods)
    for pod in sorted(pods, key=_made):
        if labels(pod).get(_JOB_NAME) is not None and labels(pod).get(_CLUSTER) is None:
            out["submitter-0"] = pod
        elif labels(pod).get(_CLUSTER) != cluster:
            continue
        elif labels(pod).get(_NODE_TYPE) == "head":
            out["head-0"] = pod
        elif labels(pod).get(_NODE_TYPE) == "worker":
            workers.append(pod)
    groups = [str(group.get("groupName")) for group in items(job, "spec", "rayClusterSpec", "workerGroupSpecs")]
    workers.sort(key=lambda pod: _worker_order(pod, groups))
    return out | {f"worker-{index}": pod for index, pod in enumerate(workers)}


def _cluster_name(job: Object, pods: Iterable[Object]) -> str | None:
    """Return the cluster that the job runs on, or, once its status names none, the one whose pods are newest."""
    named = dig(job, "status", "rayClusterName")
    if named:
        return str(named)
    newest = max((pod for pod in pods if labels(pod).get(_CLUSTER)), key=_made, default=None)
    return labels(newest).get(_CLUSTER) if newest is not None else None


def _worker_order(pod: Object, groups: list[str]) -> tuple[int, int, str]:
    group, index = labels(pod).get(_GROUP, ""), labels(pod).get(_RAY_INDEX, "")
    place = groups.index(group) if group in groups else len(groups)
    return place, int(index) if index.isdigit() else 0, _made(pod)


def _expected(kind: Kind, job: Object) -> list[str]:
    if kind == "PyTorchJob":
        machines = dig(job, "spec", "trainer", "numNodes")
        if machines is not None:
            return ["master-0", *(f"worker-{index}" for index in range(int(machines) - 1))]
        specs = dig(job, "spec", "pytorchReplicaSpecs") or {}
        counts = {role: int(dig(specs, role.title(), "replicas") or 0) for role in ("master", "worker")}
        return [f"{role}-{index}" for role, count in counts.items() for index in range(count)]
    workers = sum(int(group.get("replicas") or 0) for group in items(job, "spec", "rayClusterSpec", "workerGroupSpecs"))
    if dig(job, "spec", "rayClusterSpec", "enableInTreeAutoscaling"):
        workers = sum(int(g.get("minReplicas") or 0) for g in items(job, "spec", "rayClusterSpec", "workerGroupSpecs"))
    submitter = ["submitter-0"] if (dig(job, "spec", "submissionMode") or "K8sJobMode") == "K8sJobMode" else []
    return [*submitter, "head-0", *(f"worker-{index}" for index in range(workers))]
