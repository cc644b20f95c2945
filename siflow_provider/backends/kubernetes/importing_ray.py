"""A RayJob object as a form. What is the same in both is read in silence; everything else is carried or said.

source: KubeRay v1.6.0 ray-operator/apis/ray/v1/rayjob_types.go, raycluster_types.go
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from siflow_provider.backends.kubernetes.importing_env import Beside
from siflow_provider.backends.kubernetes.importing_form import Draft
from siflow_provider.backends.kubernetes.importing_parts import Part
from siflow_provider.backends.kubernetes.importing_pod import Pod, merged, read_pod
from siflow_provider.backends.kubernetes.importing_words import ENTRYPOINT
from siflow_provider.spec.base import is_template

__all__ = ["read_rayjob"]

_ENTRY = ("entrypointNumCpus", "entrypointNumGpus", "entrypointResources")
_UPSCALING = {"Default": "default", "Conservative": "conservative", "Aggressive": "aggressive"}
_OWN_START = {"dashboard-host": "0.0.0.0"}
"""What KubeRay sets by itself."""


def read_rayjob(spec: Part, draft: Draft, beside: Beside) -> None:
    """Read the spec of a RayJob into the draft."""
    _job(spec, draft)
    cluster = spec.part("rayClusterSpec")
    spec.finish()
    head_part = cluster.part("headGroupSpec")
    head = read_pod(head_part.part("template"), beside, container=None, patched=False)
    groups = cluster.parts("workerGroupSpecs")
    worker = _workers(groups, cluster, draft, beside) if groups else None
    fields = merged(draft.fields, head.fields, spec.notes, roles=False)
    draft.add(fields if worker is None else merged(fields, worker.fields, spec.notes))
    for pod in (head, worker):
        if pod is not None:
            _own_argv(pod, draft)
    draft.instance((worker or head).size)
    if worker is not None and not head.size.same(worker.size):
        draft.set("ray.head", {"instance": head.size.instance(draft.notes, "head_")}, head.size.path)
    _cluster(cluster, head_part, draft)


def _job(spec: Part, draft: Draft) -> None:
    _entrypoint(spec, draft)
    _runtime_env(spec, draft)
    spec.drop(
        "submissionMode", "the provider submits in K8sJobMode, whose log outlives the cluster", fine=["K8sJobMode"]
    )
    spec.drop("suspend", "the provider does so itself where a queue is known", fine=[False])
    spec.drop("backoffLimit", "nothing is restarted inside a run; fault_tolerance retries all of it", fine=[0])
    spec.drop("activeDeadlineSeconds", "it is the operator's `execution_timeout`")
    spec.drop("preRunningDeadlineSeconds", "it is the form's `start_timeout`, which counts from admission: choose one")
    spec.drop("clusterSelector", "a run has a Ray cluster of its own")
    spec.drop("jobId", "Ray's own id is the run's, and new for every attempt")
    spec.drop("submitterPodTemplate", "the provider makes the submitter: small, with the head's image")
    spec.drop(
        "submitterConfig", "the provider makes the submitter, which is not started anew", fine=[{"backoffLimit": 0}]
    )
    shutdown, keep = spec.take("shutdownAfterJobFinishes"), spec.number("ttlSecondsAfterFinished")
    if shutdown is not True:
        why = "the Ray cluster goes with the run; ray.debug keeps it for a while, such as {keep_seconds: 600}"
        draft.notes.say(spec.at("shutdownAfterJobFinishes"), why)
    elif keep is not None:
        draft.set("ray.debug", {"keep_seconds": keep}, spec.at("ttlSecondsAfterFinished"))
    entry = spec.keep(*_ENTRY)
    if entry:
        draft.patch({"spec": entry})


def _entrypoint(spec: Part, draft: Draft) -> None:
    text = spec.text("entrypoint")
    path = spec.at("entrypoint")
    if not text or not text.strip():
        draft.notes.say(path, f"there is none: write it in place of {ENTRYPOINT}")
        text = ENTRYPOINT
    elif not draft.own and any(char in text for char in "$`"):
        draft.notes.say(path, "what a shell expands in it, the submitter's did; here it is the head's")
    draft.set("command", text, path)


def _runtime_env(spec: Part, draft: Draft) -> None:
    for key in ("runtimeEnvYAML", "runtimeEnv"):
        text = spec.text(key)
        if text is None or not text.strip():
            continue
        if key == "runtimeEnv":
            try:
                text = base64.b64decode(text, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                draft.notes.say(spec.at(key), "is no base64 of a text")
                continue
        value: Any = draft.runtime_env(text, spec.at(key))
        if value:
            draft.set("ray.runtime_env", value, spec.at(key))


def _workers(groups: list[Part], cluster: Part, draft: Draft, beside: Beside) -> Pod:
    first = groups[0]
    for other in groups[1:]:
        draft.notes.say(other.path, "the form has one group of workers, the first")
    replicas = first.take("replicas")
    least, most = first.number("minReplicas"), first.number("maxReplicas")
    name = first.text("groupName")
    if name is not None and not draft.own:
        draft.notes.say(first.at("groupName"), f"{name}: the form's one group is called `workers`")
    first.drop("numOfHosts", "a worker of the form is one host", fine=[1])
    _start_params(first, draft)
    pod = read_pod(first.part("template"), beside, container=None, patched=False)
    if cluster.take("enableInTreeAutoscaling") is True:
        _autoscaling(cluster.part("autoscalerOptions"), first, draft, (replicas, least, most))
    else:
        _fixed(first, draft, (replicas, least, most))
    first.finish()
    return pod


def _fixed(group: Part, draft: Draft, counts: tuple[Any, int | None, int | None]) -> None:
    """Set the workers of a cluster that nothing scales: KubeRay keeps the number between the bounds."""
    replicas, least, most = counts
    if draft.own and is_template(replicas):
        draft.set("workers", replicas, group.at("replicas"))
        return
    number = _whole(replicas, group, least or 0)
    number = max(number, least or 0) if most is None else min(max(number, least or 0), max(most, least or 0))
    draft.set("workers", number, group.at("replicas"))
    for key, bound in (("minReplicas", least), ("maxReplicas", most)):
        if bound is not None and bound != number:
            draft.notes.say(group.at(key), f"{bound}: no autoscaler is on that would use it; ray.autoscaling is one")


def _autoscaling(options: Part, group: Part, draft: Draft, counts: tuple[Any, int | None, int | None]) -> None:
    replicas, least, most = counts
    minimum = least or 0
    number = max(_whole(replicas, group, minimum), minimum)
    if most is None:
        draft.notes.say(group.at("maxReplicas"), f"it is not said; the form asks for it, and has {number} now")
    maximum = max(number if most is None else most, minimum)
    draft.set("workers", min(number, maximum), group.at("replicas"))
    section: dict[str, Any] = {"min_workers": minimum, "max_workers": maximum}
    idle = options.number("idleTimeoutSeconds")
    if idle is not None:
        section["idle_timeout"] = idle
    mode = options.text("upscalingMode")
    if mode in _UPSCALING:
        section["upscaling_mode"] = _UPSCALING[mode]
    elif mode is not None:
        draft.notes.say(options.at("upscalingMode"), f"{mode!r} is none of {', '.join(_UPSCALING)}")
    options.finish()
    draft.set("ray.autoscaling", section, options.path)


def _whole(value: Any, group: Part, otherwise: int) -> int:
    if value is None:
        return otherwise
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    group.notes.say(group.at("replicas"), f"{value!r} is no whole number")
    return otherwise


def _cluster(cluster: Part, head: Part, draft: Draft) -> None:
    start = head.texts("rayStartParams")
    own = {key: value for key, value in start.items() if _OWN_START.get(key) != value}
    patch: dict[str, Any] = {"headGroupSpec": {"rayStartParams": own}} if own else {}
    patch |= cluster.keep("rayVersion")
    if patch:
        draft.patch({"spec": {"rayClusterSpec": patch}})
    head.finish()
    cluster.drop("enableInTreeAutoscaling", "there are no workers to add", fine=[False])
    cluster.drop("autoscalerOptions", "no autoscaler is on that would use it")
    cluster.finish()


def _start_params(group: Part, draft: Draft) -> None:
    for key, value in group.texts("rayStartParams").items():
        if _OWN_START.get(key) != value:
            draft.notes.say(f"{group.path}.rayStartParams.{key}", "a patch can't reach into the list of worker groups")


def _own_argv(pod: Pod, draft: Draft) -> None:
    """Note what a Ray container starts by itself: KubeRay adds `ray start` to it, and the form has no place for it."""
    for key, value in (("command", pod.argv.command), ("args", pod.argv.args), ("workingDir", pod.argv.folder)):
        if value:
            draft.notes.say(
                f"{pod.argv.path}.{key}", "KubeRay starts Ray in the container; the form adds nothing to that"
            )
