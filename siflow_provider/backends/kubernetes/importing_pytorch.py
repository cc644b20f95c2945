"""A PyTorchJob object as a form. What is the same in both is read in silence; everything else is carried or said."""

from __future__ import annotations

import shlex
from typing import Any

from siflow_provider.backends.kubernetes.importing_env import Beside
from siflow_provider.backends.kubernetes.importing_form import Draft
from siflow_provider.backends.kubernetes.importing_parts import Part
from siflow_provider.backends.kubernetes.importing_pod import Pod, merged, read_pod
from siflow_provider.backends.kubernetes.importing_words import before, command_of
from siflow_provider.errors import Problem, SpecError
from siflow_provider.spec.base import is_template

__all__ = ["read_pytorchjob"]

_NO_RESTART = "nothing is restarted inside a run; fault_tolerance retries all of it"
_FIXED = "a run keeps its size: all replicas start together, and fault_tolerance starts all of them anew"


def read_pytorchjob(spec: Part, draft: Draft, beside: Beside) -> None:
    """Read the spec of a PyTorchJob into the draft."""
    _run_policy(spec.part("runPolicy"), draft)
    spec.drop("elasticPolicy", _FIXED)
    per_node = spec.text("nprocPerNode")
    per_node_path = spec.at("nprocPerNode")
    roles = spec.part("pytorchReplicaSpecs")
    spec.finish()
    pods, counts = _roles(roles, beside, draft)
    if not pods:
        raise SpecError([Problem(roles.path, "has neither a Master nor a Worker")], source="the PyTorchJob")
    first = pods.get("Master") or pods["Worker"]
    fields = draft.fields
    for pod in pods.values():
        fields = merged(fields, pod.fields, spec.notes, roles=pod is not first)
    draft.add(fields)
    draft.set("workers", _workers(roles, counts), roles.path)
    _size(pods, draft)
    _argv(pods, first, draft, (per_node, per_node_path))
    for role, patch in _patches(pods, counts).items():
        draft.patch({"spec": {"pytorchReplicaSpecs": {role: {"template": {"spec": patch}}}}})


def _run_policy(policy: Part, draft: Draft) -> None:
    policy.drop("backoffLimit", _NO_RESTART, fine=[0])
    policy.drop("suspend", "the provider does so itself where a queue is known", fine=[False])
    policy.drop("activeDeadlineSeconds", "it is the operator's `execution_timeout`")
    policy.drop("managedBy", "the provider works with the training operator")
    if policy.peek("cleanPodPolicy") == "Running":
        policy.skip("cleanPodPolicy")
    kept = policy.keep("cleanPodPolicy", "ttlSecondsAfterFinished", "schedulingPolicy")
    if kept:
        draft.patch({"spec": {"runPolicy": kept}})
    policy.finish()


def _roles(roles: Part, beside: Beside, draft: Draft) -> tuple[dict[str, Pod], dict[str, Any]]:
    pods: dict[str, Pod] = {}
    counts: dict[str, Any] = {}
    for role in ("Master", "Worker"):
        if role not in roles:
            continue
        part = roles.part(role)
        counts[role] = _count(part, draft)
        part.drop("restartPolicy", _NO_RESTART, fine=["Never"])
        pods[role] = read_pod(part.part("template"), beside, container="pytorch", patched=True)
        part.finish()
    roles.finish("a PyTorchJob has a Master and Workers")
    return pods, counts


def _count(part: Part, draft: Draft) -> Any:
    if draft.own and is_template(part.peek("replicas")):
        return part.take("replicas")
    found = part.number("replicas")
    return 1 if found is None else found


def _workers(roles: Part, counts: dict[str, Any]) -> Any:
    workers = counts.get("Worker", 0)
    if counts.get("Master", 1) != 1:
        roles.notes.say(roles.at("Master.replicas"), f"{counts['Master']}: the form has one master, always")
    if "Master" in counts or not isinstance(workers, int):
        return workers
    why = f"there is no Master; the form has one always, so the first of {workers} replicas is it, with rank 0"
    roles.notes.say(roles.at("Master"), why)
    return max(0, workers - 1)


def _size(pods: dict[str, Pod], draft: Draft) -> None:
    worker = pods.get("Worker") or pods["Master"]
    master = pods.get("Master") or worker
    draft.instance(worker.size)
    if not master.size.same(worker.size):
        why = f"differs from {worker.size.path}; the form's master has what a worker has"
        draft.notes.say(master.size.path, why)


def _argv(pods: dict[str, Pod], first: Pod, draft: Draft, per_node: tuple[str | None, str]) -> None:
    command = command_of(first.argv, draft.notes)
    number, path = per_node
    if number is not None:
        why = "is a line of `command` for torchrun; WORLD_SIZE counts machines in any case, and not processes"
        draft.notes.say(path, why)
        command = before(f"export PET_NPROC_PER_NODE={shlex.quote(number)}", command)
    draft.set("command", command, f"{first.argv.path}.command")
    for pod in pods.values():
        if (pod.argv.command, pod.argv.args, pod.argv.folder) != (
            first.argv.command,
            first.argv.args,
            first.argv.folder,
        ):
            why = f"differs from that of {first.argv.path}; the form has one command, which can look at $RANK"
            draft.notes.say(f"{pod.argv.path}.command", why)


def _patches(pods: dict[str, Pod], counts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the patch of each role that will be rendered; without a Master, a worker's is the master's too."""
    patches = {role: pod.patch for role, pod in pods.items() if pod.patch}
    if "Master" not in pods and patches:
        patches = {"Master": patches["Worker"], "Worker": patches["Worker"]}
        if counts["Worker"] <= 1:
            del patches["Worker"]
    elif counts.get("Worker") == 0:
        patches.pop("Worker", None)
    return patches
