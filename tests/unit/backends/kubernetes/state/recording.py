"""A run as a cluster showed it, step by step: how it is written down, and read again by tests.

A file holds the ref and steps; a step holds its moment, the objects that are new or changed (of a changed one only the
parts that did) and the uids of those that are gone. What tells nothing of a run's state is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from siflow_provider.backends.kubernetes.cluster.trim import trimmed
from siflow_provider.backends.kubernetes.state.objects import Seen
from siflow_provider.backends.kubernetes.state.queue import newest_workload
from siflow_provider.core.status import JobRef

FOLDER = Path(__file__).parent / "recorded"
_METADATA = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
)
_DULL = {
    "managedFields", "resourceVersion", "generation", "ownerReferences", "finalizers", "containerID", "imageID",
    "hostIP", "hostIPs", "podIP", "podIPs", "observedGeneration", "lastProbeTime", "nodeSelector", "selector",
    "source", "reportingComponent", "reportingInstance", "lastUpdateTime", "qosClass", "rayStartParams",
    "autoscalerOptions", "endpoints", "desiredCPU", "desiredMemory", "desiredGPU", "desiredTPU", "podSets",
    "resourceRequests", "podSetAssignments", "schedulerName",
}  # fmt: skip


@dataclass
class Recording:
    """One run, as it was seen."""

    ref: JobRef
    steps: list[dict[str, Any]] = field(default_factory=list)
    _known: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, time: datetime, objects: list[dict[str, Any]]) -> None:
        """Write down what changed since the last step; nothing when nothing did."""
        now = {each["metadata"]["uid"]: _short(each) for each in objects}
        changed = [
            _changes(self._known.get(uid, {}), each) for uid, each in now.items() if self._known.get(uid) != each
        ]
        gone = sorted(self._known.keys() - now.keys())
        if changed or gone:
            self.steps.append({"time": time.isoformat(timespec="milliseconds"), "put": changed, "gone": gone})
        self._known = now

    def write(self, name: str) -> None:
        """Write the file of that name."""
        lines = [json.dumps(step, sort_keys=True) for step in self.steps]
        text = f'{{"ref": {self.ref.model_dump_json()},\n"steps": [\n' + ",\n".join(lines) + "\n]}\n"
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")

    def seen(self) -> Iterator[tuple[datetime, Seen]]:
        """Yield what was seen at each step."""
        known: dict[str, dict[str, Any]] = {}
        gone: dict[str, dict[str, Any]] = {}
        for step in self.steps:
            for each in step["put"]:
                uid = each["metadata"]["uid"]
                before = known.get(uid, {})
                metadata = {**before.get("metadata", {}), **each["metadata"]}
                known[uid] = {**before, **each, "metadata": metadata}
            gone.update({uid: known.pop(uid) for uid in step["gone"]})
            yield datetime.fromisoformat(step["time"]), _seen(self.ref, known, gone)


def _changes(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Return the parts that differ, and the uid to know whose they are."""
    out = {key: value for key, value in now.items() if key != "metadata" and before.get(key) != value}
    metadata = now["metadata"]
    old = before.get("metadata", {})
    return {**out, "metadata": {key: value for key, value in metadata.items() if key == "uid" or old.get(key) != value}}


def read(name: str) -> Recording:
    """Return a recording."""
    raw = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return Recording(JobRef.model_validate(raw["ref"]), raw["steps"])


def _seen(ref: JobRef, known: dict[str, dict[str, Any]], gone: dict[str, dict[str, Any]]) -> Seen:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for each in known.values():
        kinds.setdefault(each["kind"], []).append(each)
    return Seen(
        job=known.get(ref.uid),
        gone=gone.get(ref.uid),
        workload=newest_workload(kinds.get("Workload", [])),
        clusters=tuple(kinds.get("RayCluster", [])),
        pods=tuple(kinds.get("Pod", [])),
        gone_pods=tuple(each for each in gone.values() if each["kind"] == "Pod"),
        events=tuple(kinds.get("Event", [])),
    )


def _short(obj: dict[str, Any]) -> dict[str, Any]:
    kept = trimmed(obj)
    names = _METADATA if kept["kind"] in {"PyTorchJob", "RayJob"} else _METADATA[:-1]
    metadata = {name: kept["metadata"][name] for name in names if name in kept["metadata"]}
    for template in _templates(kept.get("spec")):
        template.pop("metadata", None)
    body: dict[str, Any] = _walk(
        {name: value for name, value in kept.items() if name not in {"metadata", "apiVersion"}}
    )
    return {"metadata": metadata, **body}


def _templates(node: Any) -> Iterator[dict[str, Any]]:
    for name, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if name in {"template", "submitterPodTemplate"} and isinstance(value, dict):
            yield value
        else:
            yield from _templates(value)


def _walk(node: Any) -> Any:
    if isinstance(node, list):
        return [_walk(each) for each in node]
    if isinstance(node, dict):
        return {name: _walk(value) for name, value in node.items() if name not in _DULL and value is not None}
    return node
