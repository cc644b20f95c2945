"""Cuts an object down to what tells a run's state: with thousands of jobs the rest would fill the memory.

Who needs a whole object asks for it by `Api.get`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["trimmed"]

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_POD_SPEC = (
    "nodeName", "restartPolicy", "schedulingGates", "priorityClassName", "nodeSelector", "hostname", "subdomain",
    "terminationGracePeriodSeconds", "activeDeadlineSeconds",
)  # fmt: skip
_CONTAINER_LISTS = ("initContainers", "containers")
_CONTAINER = ("name", "image", "resources", "restartPolicy")
_LONG_TEXTS = ("runtimeEnvYAML", "entrypoint")


def trimmed(item: dict[str, Any]) -> dict[str, Any]:
    """Return the object without its managed fields and without what pod specs hold beside names and resources.

    Kept of a pod's spec, and of one in a template: node, scheduling gates, restart policy, node selector, and of each
    container its name, image and resources.
    """
    kept = {**item, "metadata": _metadata(item.get("metadata") or {})}
    if "spec" in item:
        kept["spec"] = _walk(item["spec"])
    return kept


def _metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in metadata.items() if name != "managedFields"}
    if _APPLIED in (kept.get("annotations") or {}):
        kept["annotations"] = {name: value for name, value in kept["annotations"].items() if name != _APPLIED}
    return kept


def _walk(node: Any) -> Any:
    if isinstance(node, list):
        return [_walk(item) for item in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("containers"), list):
        return _pod_spec(node)
    return {name: _walk(value) for name, value in node.items() if name not in _LONG_TEXTS}


def _pod_spec(spec: dict[str, Any]) -> dict[str, Any]:
    kept = {name: spec[name] for name in _POD_SPEC if name in spec}
    for name in _CONTAINER_LISTS:
        if name in spec:
            kept[name] = [{key: part[key] for key in _CONTAINER if key in part} for part in spec[name]]
    return kept
