"""A namespace and queues of the test's own on the real control plane; pods are real processes on its real node.

Nothing asks for CPU, so that no replica is slowed down and tests run beside each other: what is scarce are GPUs, which
the real node claims to have. The queue has one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.backends.settings import Settings
from siflow_provider.core.identity import LABEL_PREFIX, Identity
from siflow_provider.core.protocol import RenderContext, TrainingBackend
from siflow_provider.core.status import JobRef, Kind
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor, Mount, ResolvedTask
from siflow_provider.spec.task import PyTorchJob, RayJob
from tests.contract.world import Size, World
from tests.control_plane.queues import GPU, Queues

_AMOUNTS: dict[Size, dict[str, str]] = {
    "small": {"memory": "64Mi"},
    "whole": {"memory": "64Mi", GPU: "1"},
    "impossible": {"memory": "64Mi", GPU: "64"},
}
_RAY_AMOUNTS = {"memory": "1Gi"}
_IN_FORM = {"cpu": "1", "memory": "1Gi"}
_IMAGES = {"PyTorchJob": "base:test", "RayJob": "ray:test"}
_PRIORITIES = {"low": 10, "medium": 20, "high": 30}
_NOWHERE = {"node_selector": {"siflow-test/place": "nowhere"}}
_VERSIONS = {"PyTorchJob": "kubeflow.org/v1", "RayJob": "ray.io/v1"}
_READABLE = {
    "Pod": "v1", "ConfigMap": "v1", "Event": "v1", "Service": "v1", "Job": "batch/v1", "PyTorchJob": "kubeflow.org/v1",
    "RayJob": "ray.io/v1", "RayCluster": "ray.io/v1", "Workload": "",
}  # fmt: skip


class KubernetesWorld:
    """Real pods behind real queues."""

    name = "kubernetes"
    patience_seconds = 90.0

    def __init__(self, kubeconfig: Path, queues: Queues) -> None:
        self._kubeconfig, self._queues, self._admin = kubeconfig, queues, queues.admin
        self._namespace = queues.namespace
        self._queue = queues.queue("real", GPU=1)
        self._priorities: dict[str, str] = {}

    def backend(self) -> TrainingBackend:
        options = {"kube_config_path": str(self._kubeconfig), "namespace": self._namespace}
        return KubernetesBackend(Settings(backend="kubernetes", kubernetes=options))

    def task(
        self,
        command: str,
        *,
        workers: int = 0,
        size: Size = "small",
        kind: Kind = "PyTorchJob",
        hidden: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        **form: Any,
    ) -> ResolvedTask:
        amounts = _RAY_AMOUNTS if kind == "RayJob" else _AMOUNTS[size]
        form_of = RayJob if kind == "RayJob" else PyTorchJob
        raw = {
            "image": _IMAGES[kind],
            "command": command,
            "workers": workers,
            "compute": {"type": "on_demand", "instances": [_IN_FORM]},
            **form,
        }
        mounts = (Mount("volume", "nowhere", "/mnt/nowhere"),) if "volumes" in raw else ()
        return ResolvedTask(
            task=form_of.model_validate(raw),
            image=_IMAGES[kind],
            env=env or {},
            hidden={name: Hidden(value) for name, value in (hidden or {}).items()},
            flavors=(Flavor(instance="in-place", resources=Resources.of(amounts), queue=self._queue),),
            mounts=mounts,
            labels=dict(raw.get("labels", {})),
            priority_class=self._priority(raw.get("priority")),
            org="acme",
            tenant="research",
        )

    def refused(self) -> Sequence[tuple[str, ResolvedTask]]:
        compute = {"type": "on_demand", "instances": [_IN_FORM]}
        mark = "app.kubernetes.io/managed-by"
        fields: list[tuple[str, dict[str, Any]]] = [
            ("command", {"command": "x" * 200_000}),
            ("volumes[0]", {"volumes": [{"name": "nowhere", "mount_path": "/mnt/nowhere"}]}),
            (f"labels.{mark}", {"labels": {mark: "me"}}),
            (f"kubernetes.annotations.{mark}", {"kubernetes": {"annotations": {mark: "me"}}}),
            ("kubernetes.node_selector.zone", {"kubernetes": {"node_selector": {"zone": "no label"}}}),
            ("compute.nodes.only[0]", {"compute": {**compute, "nodes": {"only": ["no label"]}}}),
            ("monitoring.port", {"monitoring": {"port": 23456}}),
            ("ray.autoscaling", {"kind": "RayJob", "ray": {"autoscaling": {"min_workers": 0, "max_workers": 2}}}),
        ]
        return [(path, self.task(form.pop("command", "true"), **form)) for path, form in fields]

    async def vanish(self, ref: JobRef) -> None:
        path = self._path(ref)
        await asyncio.to_thread(self._admin.delete, path)
        await asyncio.to_thread(self._admin.wait, path, lambda found: found is None, "gone")

    async def stuck_start(self, backend: TrainingBackend) -> JobRef:
        """Submit a run whose pods no node will ever take."""
        context = RenderContext(identity=Identity.random("stuck"))
        ref = await backend.submit(backend.render(self.task("sleep 600", kubernetes=_NOWHERE), context))
        async for status in backend.watch(ref):
            if status.admitted_at is not None:
                return ref
        raise AssertionError("the run ended before its queue let it go")

    async def still_running(self, ref: JobRef) -> list[str]:
        pods = await asyncio.to_thread(
            self._admin.items,
            self._admin.path("Pod", namespace=ref.namespace),
            labelSelector=f"{LABEL_PREFIX}run={ref.task_uuid},{LABEL_PREFIX}attempt={ref.attempt}",
        )
        return [
            f"{pod['metadata']['name']} ({pod['status'].get('phase')})"
            for pod in pods
            if pod["status"].get("phase") not in {"Succeeded", "Failed"}
        ]

    def visible_text(self) -> str:
        """Return all objects of the namespace but Secrets, and all command lines of this machine."""
        found = [
            self._admin.request("GET", self._admin.path(kind, namespace=self._namespace, version=version))
            for kind, version in _READABLE.items()
        ]
        return "\n".join([*map(str, found), *_command_lines()])

    async def close(self) -> None:
        """End all runs; namespace and queues are their fixtures' to remove."""
        for kind, version in _VERSIONS.items():
            path = self._admin.path(kind, namespace=self._namespace, version=version)
            await asyncio.to_thread(self._admin.request, "DELETE", path, params={"propagationPolicy": "Background"})

    def _path(self, ref: JobRef) -> str:
        return self._admin.path(ref.kind, ref.name, ref.namespace, _VERSIONS[ref.kind])

    def _priority(self, level: Any) -> str | None:
        if level is None:
            return None
        if level not in self._priorities:
            self._priorities[level] = self._queues.priority(_PRIORITIES[level])
        return self._priorities[level]


def _command_lines() -> list[str]:
    lines = []
    for process in psutil.process_iter():
        try:
            lines.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return lines


_: type[World] = KubernetesWorld
