"""Any right form renders to a manifest that the CRDs know and a pod can hold."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from siflow_provider.backends.kubernetes.rendering import render, unsupported
from siflow_provider.core.identity import MAX_NAME
from siflow_provider.spec.reading import load
from siflow_provider.spec.resolve import resolve
from tests.drawing import examples
from tests.golden.crds import faults
from tests.unit.backends.kubernetes.tasks import context, pods
from tests.unit.spec.strategies import forms

IN_PLACE = {"cpu": "2", "memory": "3Gi", "gpu": 1}


def without_catalog(form: dict[str, Any]) -> dict[str, Any]:
    """Return the form with every name that a catalog would have to know written out."""
    compute = dict(form["compute"])
    compute.update({"instance": IN_PLACE} if "instance" in compute else {"instances": [IN_PLACE]})
    out = {**form, "image": "registry.example/a:1", "compute": compute}
    out["volumes"] = [{**mount, "name": f"pvc:claim-{n % 2}"} for n, mount in enumerate(form.get("volumes", []))]
    ray = dict(form.get("ray", {}))
    if "head" in ray:
        ray["head"] = {**ray["head"], "instance": {"cpu": "500m", "memory": "1.5Gi"}}
    if "shared_storage" in ray:
        ray["shared_storage"] = {**ray["shared_storage"], "volume": "pvc:shared"}
    return {**out, "ray": ray} if ray else out


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(forms, st.booleans(), st.sampled_from([1, 2, 100]))
def test_any_form_renders_to_what_a_cluster_takes(form: dict[str, Any], queued: bool, attempt: int) -> None:
    task = resolve(load(without_catalog(form)), user="ada")
    if unsupported(task):
        assert all(reason.path and reason.message for reason in unsupported(task))
        return
    patched = bool(task.task.kubernetes.patch)
    manifest = render(task, context(queued=queued, attempt=attempt))
    assert json.dumps(manifest.documents) == json.dumps(render(task, context(queued=queued, attempt=attempt)).documents)
    assert len(manifest.name) <= MAX_NAME
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", manifest.name)
    if patched:
        return
    assert faults(manifest.documents[0]) == []
    for pod in pods(manifest).values():
        container = pod["spec"]["containers"][0]
        for items, key in ((container.get("env", []), "name"), (container.get("volumeMounts", []), "mountPath")):
            assert len(items) == len({item[key] for item in items})
        volumes = {volume["name"] for volume in pod["spec"].get("volumes", [])}
        assert {mount["name"] for mount in container.get("volumeMounts", [])} == volumes
        assert all(re.fullmatch(r"[A-Za-z0-9._-]{0,63}", value) for value in pod["metadata"]["labels"].values())
