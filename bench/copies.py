"""Copies of an object as a cluster holds it, by the thousand: by requests, or straight into a control plane's store.

Ten thousand jobs take an hour by requests on two cores: each has a dozen writes of controllers and their webhooks.
"""

from __future__ import annotations

import base64
import copy
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from siflow_provider.backends.kubernetes.cluster.shared import JOB_UID
from siflow_provider.backends.kubernetes.life.marks import LABEL_RUN
from tests.control_plane.admin import Object
from tests.control_plane.plane import ControlPlane, run

_AT_ONCE = 100
"""What etcd takes in one transaction is 128 writes."""
_KEYS = {"PyTorchJob": "kubeflow.org/pytorchjobs", "Workload": "kueue.x-k8s.io/workloads", "Job": "jobs", "Pod": "pods"}


def copied(patterns: Sequence[Object], number: int) -> list[Object]:
    """Return a copy of an object, as if it were another run's, and of what belongs to it."""
    first, *others = (copy.deepcopy(one) for one in patterns)
    owner = _renamed(first, number)
    if LABEL_RUN in owner.get("labels", {}):
        owner["labels"][LABEL_RUN] = str(uuid4())
    for each in others:
        metadata = _renamed(each, number)
        metadata["labels"][JOB_UID] = owner["uid"]
        metadata["ownerReferences"][0] |= {"name": owner["name"], "uid": owner["uid"]}
    return [first, *others]


def _renamed(one: Object, number: int) -> dict[str, Any]:
    metadata: dict[str, Any] = one["metadata"]
    for name in ("resourceVersion", "managedFields"):
        metadata.pop(name, None)
    metadata |= {"name": f"{metadata['name']}-{number}", "uid": str(uuid4())}
    return metadata


def as_new(one: Object) -> Object:
    """Return the object as it is asked for: without what a server or a controller adds."""
    metadata = {
        name: one["metadata"][name]
        for name in ("name", "namespace", "labels", "annotations")
        if name in one["metadata"]
    }
    spec = {name: value for name, value in one["spec"].items() if name != "selector"}
    if one["kind"] == "Job":
        metadata.pop("labels", None)
        spec["template"] = {"spec": spec["template"]["spec"]}
    return {"apiVersion": one["apiVersion"], "kind": one["kind"], "metadata": metadata, "spec": spec}


def fill(plane: ControlPlane, objects: Sequence[Object]) -> None:
    """Write objects into the store of a control plane that we started; nobody is asked, watches tell of them."""
    puts = [{"requestPut": {"key": _text(_key(one)), "value": _text(json.dumps(one))}} for one in objects]
    lines = [json.dumps({"success": puts[start : start + _AT_ONCE]}) for start in range(0, len(puts), _AT_ONCE)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "writes")
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        run("fill", plane.folder, file)


def _key(one: Object) -> str:
    return f"/registry/{_KEYS[one['kind']]}/{one['metadata']['namespace']}/{one['metadata']['name']}"


def _text(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
