"""What the cluster serves, judged: which kinds of job, whether there are queues, in which versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.cluster.resources import (
    PODMONITORS,
    PYTORCHJOBS,
    RAYJOBS,
    TRAINJOBS,
    WORKLOADS,
    Resource,
)
from siflow_provider.core.checkup import Check

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.features import Features

__all__ = ["served_checks"]

_TRAINING_OPERATOR = (
    "install the Kubeflow training operator: kubectl apply --server-side -k "
    '"github.com/kubeflow/training-operator.git/manifests/overlays/standalone?ref=v1.9.3"'
)
_TRAINER = (
    "install Kubeflow Trainer: kubectl apply --server-side -k "
    '"https://github.com/kubeflow/trainer.git/manifests/overlays/manager?ref=v2.2.0"'
)
_KUBERAY = (
    "install KubeRay: helm repo add kuberay https://ray-project.github.io/kuberay-helm/ && "
    "helm install kuberay-operator kuberay/kuberay-operator --version 1.6.0"
)
_QUEUES = (
    "install Kueue for queues and quota: kubectl apply --server-side -f "
    "https://github.com/kubernetes-sigs/kueue/releases/download/v0.17.0/manifests.yaml"
)
_MONITORS = "install the Prometheus operator; until then annotations on the pods say where metrics are"


def served_checks(features: Features, training_api: str = "auto", *, version: str = "") -> list[Check]:
    """Return a check of the API server and one of each kind that tasks use.

    Args:
        features: what the cluster has.
        training_api: the connection's word on what a form of kind PyTorchJob becomes.
        version: the API server's own; "" where it is not told.
    """
    trains = features.training_api(training_api) == "TrainJob"
    in_place, usual = (TRAINJOBS, features.trainjob, _TRAINER), (PYTORCHJOBS, features.pytorchjob, _TRAINING_OPERATOR)
    trainer = in_place if trains else usual
    can_run = trainer[1] or features.rayjob
    return [
        Check("API server", True, version or "its version is not told"),
        _kind(features, *trainer, needed=not can_run),
        _kind(features, RAYJOBS, features.rayjob, _KUBERAY, needed=not can_run),
        _kind(features, WORKLOADS, features.kueue, _QUEUES, lost="jobs start at once, without queue and quota"),
        _kind(features, PODMONITORS, features.podmonitor, _MONITORS, lost="`monitoring` falls back to annotations"),
    ]


def _kind(
    features: Features, resource: Resource, served: bool, mend: str, *, needed: bool = False, lost: str = ""
) -> Check:
    name = f"kind {resource.kind}"
    if served:
        return Check(name, True, resource.api_version, needed=needed)
    others = features.versions.get(resource.group, ())
    if others and resource.version not in others:
        found = f"{resource.group} is served as {', '.join(others)}, and this package speaks {resource.version}"
    else:
        found = f"the cluster does not know {resource.kind} ({resource.api_version})"
    return Check(name, False, f"{found}; {lost}" if lost else found, mend, needed)
