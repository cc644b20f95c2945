"""Every right that the backend uses, once: `doctor` asks for these, and `deploy/rbac.yaml` gives just these."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.features import Features

__all__ = ["RULES", "Reach", "Rule", "rules_for"]


class Reach(StrEnum):
    """Where a right is needed: where tasks go, in the whole cluster, or in one namespace of the system."""

    TASKS = "tasks"
    CLUSTER = "cluster"
    KUBE_SYSTEM = "kube-system"
    KUEUE_SYSTEM = "kueue-system"


@dataclass(frozen=True)
class Rule:
    """One right.

    Attributes:
        group: API group; "" for the core group.
        resource: the word in the path, with its subresource: `pods/log`.
        verbs: what is done.
        use: what for.
        lost: what is lost without it; "" for a right without which no task can do.
        reach: where.
        names: only these objects; none for all.
        feature: the attribute of `Features` without which it is not used; "" for always.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    use: str
    lost: str = ""
    reach: Reach = Reach.TASKS
    names: tuple[str, ...] = ()
    feature: str = ""

    @property
    def needed(self) -> bool:
        """Whether no task can do without it."""
        return not self.lost


_JOB = ("create", "get", "list", "watch", "patch", "delete")
_OWNED = ("create", "get", "delete")
_SEEN = ("list", "watch")
_QUOTA = "quota is unknown, and a task that can never be admitted is not refused"
_TRAINER = "trainer.kubeflow.org"
_KUEUE, _VISIBILITY = "kueue.x-k8s.io", "visibility.kueue.x-k8s.io"

RULES = (
    Rule("kubeflow.org", "pytorchjobs", _JOB, "the job itself", feature="pytorchjob"),
    Rule(
        _TRAINER, "trainjobs", _JOB, "the job itself, on a cluster with Kubeflow Trainer and without PyTorchJob",
        feature="trainjob",
    ),
    Rule(
        _TRAINER, "trainingruntimes", ("create", "get", "patch", "delete"), "what the pods of a TrainJob are",
        feature="trainjob",
    ),
    Rule("ray.io", "rayjobs", _JOB, "the job itself", feature="rayjob"),
    Rule("", "secrets", _OWNED, "hidden variables and SSH keys of a job"),
    Rule("", "configmaps", _OWNED, "scripts and hostfiles of a job"),
    Rule("", "pods", ("get", "list", "watch"), "replicas, why they do not start, how they ended"),
    Rule("", "pods/log", ("get",), "logs, and the last lines of a failure"),
    Rule(
        "ray.io", "rayclusters", _SEEN, "the Ray cluster of a RayJob",
        "what keeps a Ray cluster from starting is not told", feature="rayjob",
    ),
    Rule(
        "", "events", _SEEN, "why pods wait",
        "why a pod can't be placed is not told in the server's words, and `image_pull_retries` counts what it sees "
        "while somebody follows the run",
    ),
    Rule(
        _KUEUE, "workloads", _SEEN, "the queue's word on a job",
        "why a job waits in its queue, and how often it was requeued, is not told", feature="kueue",
    ),
    Rule(_KUEUE, "localqueues", ("list",), "the queues of a namespace", _QUOTA, feature="kueue"),
    Rule(
        _VISIBILITY, "localqueues/pendingworkloads", ("get",), "a task's place in its queue",
        "the place in the queue is not told", feature="kueue",
    ),
    Rule("", "resourcequotas", ("list",), "quota of the namespace", "the namespace's own quota is not counted"),
    Rule("", "limitranges", ("list",), "limits of the namespace", "the namespace's limits are not counted"),
    Rule(
        "", "namespaces", ("get",), "the labels by which ClusterQueues choose namespaces",
        "a queue that leaves out the namespace is not told before submission",
    ),
    Rule(
        "", "persistentvolumeclaims", ("list",), "claims that the catalog names",
        "`doctor` can't compare the catalog's claims, and `catalog discover` drafts no volumes",
    ),
    Rule(
        "", "pods/exec", ("create", "get"), "stack dumps of a run that hangs (py-spy)",
        "a run that hangs is told without the stacks of its processes",
    ),
    Rule(
        "batch", "jobs", ("create",), "clean-up of shared storage",
        "`clean_up` of `ray.shared_storage` fails, and the data stays", feature="rayjob",
    ),
    Rule(
        "monitoring.coreos.com", "podmonitors", _OWNED, "`monitoring` of a task",
        "tasks with `monitoring` are refused; others run", feature="podmonitor",
    ),
    Rule(_KUEUE, "clusterqueues", ("list",), "quota of the pools", _QUOTA, Reach.CLUSTER, feature="kueue"),
    Rule(_KUEUE, "resourceflavors", ("list",), "kinds of capacity", _QUOTA, Reach.CLUSTER, feature="kueue"),
    Rule(_KUEUE, "cohorts", ("list",), "what pools share", _QUOTA, Reach.CLUSTER, feature="kueue"),
    Rule(
        _KUEUE, "workloadpriorityclasses", ("list",), "priorities that the catalog names",
        "`doctor` can't compare the catalog's priorities", Reach.CLUSTER, feature="kueue",
    ),
    Rule(
        "", "nodes", ("list",), "sizes and taints of the machines",
        "what lies idle is unknown, and a replica larger than every node is not refused", Reach.CLUSTER,
    ),
    Rule("", "pods", ("list",), "what the machines hold", "what lies idle is unknown", Reach.CLUSTER),
    Rule(
        "", "configmaps", ("get",), "whether nodes are added by themselves",
        "the sizes of nodes are a doubt and no proof", Reach.KUBE_SYSTEM, ("cluster-autoscaler-status",),
    ),
    Rule(
        "", "configmaps", ("get",), "which resources Kueue counts",
        "a resource without quota is a doubt and no proof", Reach.KUEUE_SYSTEM, ("kueue-manager-config",), "kueue",
    ),
)  # fmt: skip
"""In the order of `deploy/rbac.yaml`."""


def rules_for(features: Features, training_api: str = "auto") -> tuple[Rule, ...]:
    """Return the rights that are of use on a cluster that has this.

    Args:
        features: what it has.
        training_api: the connection's word on what a form of kind PyTorchJob becomes.
    """
    unused = "pytorchjob" if features.training_api(training_api) == "TrainJob" else "trainjob"
    used = [rule for rule in RULES if rule.feature != unused]
    return tuple(rule for rule in used if not rule.feature or getattr(features, rule.feature))
