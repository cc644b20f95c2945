"""What a form may write of Kubernetes' own objects: tolerations, and a merge patch on the rendered one.

source: Kubernetes API, core/v1 Toleration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, ValidationInfo

from siflow_provider.spec.base import Mode, is_unknown, mode_of
from siflow_provider.spec.containers import STRUCTURE
from siflow_provider.spec.plain_data import plain_faults
from siflow_provider.spec.scalars import whole
from siflow_provider.spec.wording import kind_of, none_of, suggest
from siflow_provider.spec.wrongs import Wrong, Wrongs

__all__ = ["Toleration", "checked_patch", "sizing_patch"]

_KEYS = ("key", "operator", "value", "effect", "tolerationSeconds")
_WORDS = {"operator": ("Exists", "Equal"), "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute")}


def _checked_toleration(value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    mode = mode_of(info)
    wrongs = [(f".{key}", f"unknown key; {suggest(key, _KEYS)}") for key in value if key not in _KEYS]
    for key in _KEYS[:4]:
        wrongs.extend(_word_faults(key, value.get(key), mode))
    seconds = value.get("tolerationSeconds")
    if seconds is not None and not is_unknown(seconds):
        try:
            value = {**value, "tolerationSeconds": whole(seconds)}  # a rendered template is the text of one
        except Wrong as error:
            wrongs.append((".tolerationSeconds", str(error)))
    if value.get("operator") == "Exists" and value.get("value"):
        wrongs.append((".value", "must be left out with operator Exists"))
    if wrongs := wrongs or _only_pods_refuse(value):
        raise Wrongs(wrongs)
    return value


def _only_pods_refuse(value: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the API server would refuse in the pods alone, where a job's owner never sees it.

    source: Kubernetes pkg/apis/core/validation, ValidateTolerations
    """
    found, effect = [], value.get("effect")
    if not value.get("key") and value.get("operator", "Equal") in (None, "Equal"):
        found.append((".operator", "must be Exists where no key is named: all taints are tolerated then"))
    if value.get("tolerationSeconds") is not None and effect != "NoExecute" and not is_unknown(effect):
        found.append((".effect", "must be NoExecute beside tolerationSeconds"))
    return found


def _word_faults(key: str, value: Any, mode: Mode) -> list[tuple[str, str]]:
    if value is None or mode.is_open(value):
        return []
    if not isinstance(value, str):
        return [(f".{key}", f"must be text, not {kind_of(value)}; write it in quotes")]
    words = _WORDS.get(key)
    if words and value not in words:
        return [(f".{key}", none_of(value, words))]
    return []


Toleration: TypeAlias = Annotated[dict[str, Any], STRUCTURE, AfterValidator(_checked_toleration)]
"""key, operator, value, effect, tolerationSeconds."""

_OURS = {
    ("apiVersion",): "the kind of object decides it",
    ("kind",): "the form's `kind` decides it",
    ("status",): "the cluster writes it",
    ("metadata", "name"): "it identifies the run; use `name_prefix`",
    ("metadata", "namespace"): "the project group decides it",
    ("metadata", "uid"): "the cluster writes it",
    ("metadata", "ownerReferences"): "it would let somebody else delete the run",
}


def checked_patch(patch: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    """Return the patch when it is plain data and leaves alone what identifies the run.

    Raises:
        ValueError: it does not; every problem is named.
    """
    mode = mode_of(info)
    wrongs = [(f".{'.'.join(path)}", f"may not be patched: {why}") for path, why in _OURS.items() if _has(patch, path)]
    wrongs.extend(plain_faults(patch, mode))
    if wrongs:
        raise Wrongs(wrongs)
    return patch


def _has(patch: Any, path: tuple[str, ...]) -> bool:
    for part in path:
        if not isinstance(patch, Mapping) or part not in patch:
            return False
        patch = patch[part]
    return True


_SIZES = frozenset({"resources", "overhead", "tolerations", "affinity", "nodeSelector", "resourcesPerNode"})
_COUNTS = frozenset({
    "replicas", "minReplicas", "maxReplicas", "numOfHosts", "numNodes", "groupName", "name", "restartPolicy",
})  # fmt: skip
_STEPS = frozenset({
    "spec", "pytorchReplicaSpecs", "Master", "Worker", "rayClusterSpec", "headGroupSpec", "workerGroupSpecs",
    "submitterPodTemplate", "trainer", "template", "containers", "initContainers",
})  # fmt: skip


def sizing_patch(patch: Any) -> Any:
    """Return the part of a patch that changes how much a job asks for and where it may run; nothing else of it.

    Example:
        >>> sizing_patch({"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}, "runPolicy": {}}})
        {'spec': {'pytorchReplicaSpecs': {'Worker': {'replicas': 3}}}}
    """
    if isinstance(patch, list | tuple):
        return [sizing_patch(item) for item in patch]
    if not isinstance(patch, Mapping):
        return patch
    return {
        key: value if key in _SIZES | _COUNTS else sizing_patch(value)
        for key, value in patch.items()
        if key in _SIZES | _COUNTS | _STEPS
    }
