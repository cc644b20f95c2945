"""A manifest that `render` made, without what rendering added: what is left reads as anybody's.

The inverse of this package's rendering, so it changes with it; a test holds render -> import -> render together. What
rendering adds by itself (a submitter, its own volumes and variables) is taken away unread, also where a hand or a patch
has changed it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from copy import deepcopy
from typing import Any

from siflow_provider.backends.kubernetes.importing_env import Beside, content
from siflow_provider.backends.kubernetes.importing_form import Draft
from siflow_provider.backends.kubernetes.importing_words import expanded
from siflow_provider.backends.kubernetes.literal import DOLLAR_ENV, TICK_ENV
from siflow_provider.backends.kubernetes.names import (
    ANNOTATION_CLEAN_UP,
    ELASTIC_JOB,
    KEYS_DIR,
    LABEL_GROUP,
    LABEL_MANAGED_BY,
    LABEL_VISIBLE,
    MANAGED_BY,
    RUN_DIR,
    SCRIPTS_DIR,
    files_config,
)
from siflow_provider.backends.kubernetes.pod import HOSTFILE_ENV, UNBUFFERED
from siflow_provider.backends.kubernetes.storage import HOSTFILES
from siflow_provider.core.environment import INJECTED_NAMES
from siflow_provider.core.identity import LABEL_PREFIX
from siflow_provider.core.results import RESULTS_ENV
from siflow_provider.errors import Problem, SpecError
from siflow_provider.spec.base import is_template
from siflow_provider.spec.mount_paths import RAY_FOLDER
from siflow_provider.spec.task import known_timezone

__all__ = ["is_own", "without_marks"]

_TAIL = re.compile(r"-?[a-z2-7]{7}(?:-\d+)?$")
_OWN_PATHS = {RUN_DIR, SCRIPTS_DIR, KEYS_DIR, *HOSTFILES.values()}
_OWN_PORTS = {"siflow-metrics", "metrics"}
_PLACES = {"X_REGION": "region", "X_CLUSTER": "cluster"}


def is_own(job: Mapping[str, Any]) -> bool:
    """Say whether `render` made the job."""
    metadata = job.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return isinstance(labels, Mapping) and labels.get(LABEL_MANAGED_BY) == MANAGED_BY


def without_marks(job: Mapping[str, Any], draft: Draft, beside: Beside) -> dict[str, Any]:
    """Return a copy of the job without what rendering added; what that says of the form is set in the draft.

    Raises:
        SpecError: the job bears the mark of this provider and has not the shape that rendering gives.
    """
    try:
        return _stripped(job, draft, beside)
    except (AttributeError, KeyError, TypeError):
        why = "says that this provider made the job, which has not its shape; remove the label"
        raise SpecError([Problem(f"metadata.labels.{LABEL_MANAGED_BY}", why)], source=f"the {draft.kind}") from None


def _stripped(job: Mapping[str, Any], draft: Draft, beside: Beside) -> dict[str, Any]:
    own: dict[str, Any] = deepcopy(dict(job))
    metadata, spec = own["metadata"], own["spec"]
    metadata.pop("finalizers", None)  # KubeRay's own
    name = str(metadata.get("name", ""))
    metadata["name"] = _TAIL.sub("", name)
    if re.match(r"j-\d", metadata["name"]):
        metadata["name"] = metadata["name"][2:]
    clean_up = ANNOTATION_CLEAN_UP in (metadata.get("annotations") or {})
    _marks(metadata, draft)
    pods = list(_pods(spec))
    if own.get("kind") == "RayJob":
        _ray(spec, name, draft, beside)
        for template in pods:
            _shared_storage(template["spec"], name, draft, clean_up=clean_up)
    else:
        _pytorch(spec)
    for template in pods:
        _marks(template.get("metadata") or {}, None)
        for container in (template.get("spec") or {}).get("containers") or []:
            _container(container, template["spec"], draft)
    return own


def _pods(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    roles = spec.get("pytorchReplicaSpecs") or {}
    for role in ("Master", "Worker"):
        if role in roles:
            yield roles[role]["template"]
    cluster = spec.get("rayClusterSpec") or {}
    for group in [cluster.get("headGroupSpec"), *(cluster.get("workerGroupSpecs") or [])]:
        if group:
            yield group["template"]


def _marks(metadata: MutableMapping[str, Any], draft: Draft | None) -> None:
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    both = {**annotations, **labels}
    if draft is not None:
        if both.get(LABEL_VISIBLE) == "true":
            draft.set("visible_in_group", True, f"metadata.labels.{LABEL_VISIBLE}")
        if both.get(LABEL_GROUP):
            draft.set("project_group", both[LABEL_GROUP], f"metadata.labels.{LABEL_GROUP}")
    for marks in (labels, annotations):
        for key in [key for key in marks if key.startswith(LABEL_PREFIX) or key in (LABEL_MANAGED_BY, ELASTIC_JOB)]:
            del marks[key]


def _pytorch(spec: MutableMapping[str, Any]) -> None:
    (spec.get("runPolicy") or {}).pop("suspend", None)
    for template in _pods(spec):
        for container in template["spec"]["containers"]:
            if (container.get("command") or [])[-1:] == ["siflow"]:
                container["command"] = container.pop("args")


def _ray(spec: MutableMapping[str, Any], name: str, draft: Draft, beside: Beside) -> None:
    for key in ("suspend", "submitterPodTemplate"):
        spec.pop(key, None)
    files = content(beside.get(("ConfigMap", files_config(name))), "data")
    if "command" in files:
        spec["entrypoint"] = files["command"]
    else:
        draft.notes.say("spec.entrypoint", f"the command is in the ConfigMap {files_config(name)!r}, not in this file")
    if "runtimeEnvYAML" in spec:
        spec["runtimeEnvYAML"] = (
            spec["runtimeEnvYAML"].replace(f"${{{DOLLAR_ENV}}}", "$").replace(f"${{{TICK_ENV}}}", "`")
        )
    cluster = spec.get("rayClusterSpec") or {}
    for group in [cluster.get("headGroupSpec") or {}, *(cluster.get("workerGroupSpecs") or [])]:
        (group.get("rayStartParams") or {}).pop("temp-dir", None)
    for key in ("env", "volumeMounts"):
        (cluster.get("autoscalerOptions") or {}).pop(key, None)


def _shared_storage(pod: MutableMapping[str, Any], name: str, draft: Draft, *, clean_up: bool) -> None:
    """Take the run's own part of a claim from the mounts: it is the form's `ray.shared_storage`."""
    first = re.sub(r"-\d+$", "", name)
    claims = {volume["name"]: volume.get("persistentVolumeClaim") for volume in pod.get("volumes") or []}
    for container in pod["containers"]:
        container.pop("command", None)
        for index, mount in enumerate(container.get("volumeMounts") or []):
            folder, _, run = str(mount.get("subPath", "")).rpartition("/")
            claim = claims.get(mount["name"])
            if mount["mountPath"] == RAY_FOLDER and run in (name, first) and folder.endswith("siflow-ray") and claim:
                container["volumeMounts"][index] = None
                section = {"volume": f"pvc:{claim['claimName']}", **({"clean_up": True} if clean_up else {})}
                draft.set("ray.shared_storage", section, "spec.rayClusterSpec")
                if folder != "siflow-ray":
                    draft.notes.say(
                        "spec.rayClusterSpec", f"shared storage is in {folder!r} of the claim, not at its top"
                    )


def _container(container: MutableMapping[str, Any], pod: MutableMapping[str, Any], draft: Draft) -> None:
    """Take from a container what rendering added; a null stands in its place, so that the rest keeps its number."""
    mounts = container.get("volumeMounts") or []
    if any(mount and mount["mountPath"] == KEYS_DIR for mount in mounts):
        draft.set("ssh", True, "spec")
    left = [mount if mount and mount["mountPath"] not in _OWN_PATHS else None for mount in mounts]
    names = {mount["name"] for mount in left if mount}
    container["volumeMounts"] = left
    pod["volumes"] = [volume if volume["name"] in names else None for volume in pod.get("volumes") or []]
    container["env"] = [None if _is_added(entry, draft) else entry for entry in container.get("env") or []]
    ports = container.get("ports") or []
    container["ports"] = [None if port.get("name") in _OWN_PORTS else port for port in ports]


def _is_added(entry: Mapping[str, Any], draft: Draft) -> bool:
    """Say whether rendering added the variable, by itself or for a field of the form, which is then set."""
    name, value = entry["name"], entry.get("value")
    if value is not None:
        value = expanded(value, lambda _: None)
    if name in _PLACES and value:
        draft.set(_PLACES[name], value, "spec")
    if name == "TZ" and value and (is_template(value) or _is_timezone(value)):
        draft.set("timezone", value, "spec")
        return True
    if name == "RAY_TMPDIR":
        return value == RUN_DIR
    return name in (*INJECTED_NAMES, RESULTS_ENV, HOSTFILE_ENV) or (draft.kind == "RayJob" and name == UNBUFFERED)


def _is_timezone(name: str) -> bool:
    try:
        known_timezone(name)
    except ValueError:
        return False
    return True
