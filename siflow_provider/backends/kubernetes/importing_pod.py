"""One role's pod template, read into fields of the form; what two roles say differently is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from siflow_provider.backends.kubernetes.importing_env import Beside, read_environment
from siflow_provider.backends.kubernetes.importing_parts import Field, Fields, Notes, Part, as_text
from siflow_provider.backends.kubernetes.importing_size import Size, read_size
from siflow_provider.backends.kubernetes.importing_storage import read_mounts
from siflow_provider.backends.kubernetes.importing_words import INJECTED, Argv
from siflow_provider.backends.kubernetes.pod import HOSTNAME
from siflow_provider.spec.base import is_template

__all__ = ["Pod", "merged", "read_marks", "read_pod"]

_ANYWHERE = frozenset({"labels", "annotations"})
_EVERY_POD = "only one role has it; the form gives it to every replica"
_SCRAPE = ("prometheus.io/scrape", "prometheus.io/port", "prometheus.io/path")
_OF_CONTROLLERS = {6379, 8265, 10001, 8080, 23456}
"""Ports that KubeRay and the training operator open by themselves."""
_PATCHED = (
    "affinity", "automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks", "hostAliases",
    "hostIPC", "hostNetwork", "hostPID", "priorityClassName", "runtimeClassName", "schedulerName", "securityContext",
    "shareProcessNamespace", "terminationGracePeriodSeconds", "topologySpreadConstraints",
)  # fmt: skip
"""Fields of a pod that nothing of ours writes, so that a merge patch can add them whole."""


@dataclass(slots=True)
class Pod:
    """What one role's template says.

    Attributes:
        path: where it stands.
        fields: what the form has a field for.
        argv: what its container starts.
        size: the resources of its container.
        patch: fields of the pod's spec that a patch can carry.
    """

    path: str
    fields: Fields
    argv: Argv
    size: Size
    patch: dict[str, Any] = field(default_factory=dict)


def read_pod(template: Part, beside: Beside, *, container: str | None, patched: bool) -> Pod:
    """Return what a pod template says.

    Args:
        template: the template.
        beside: Secrets and ConfigMaps of the same file.
        container: name of the main container; where none has it, the first counts.
        patched: fields of the pod without one in the form go into a patch, else they are noted.
    """
    fields: Fields = {}
    read_marks(template.part("metadata"), fields)
    spec = template.part("spec")
    template.finish()
    main = _main(spec, container)
    size = read_size(main.part("resources"))
    read_mounts(spec, main, fields, size)
    _options(spec, fields)
    argv = _container(main, beside, fields)
    _ports(main, fields)
    main.finish()
    patch = spec.keep(*_PATCHED) if patched else {}
    spec.drop("restartPolicy", "nothing is restarted inside a run; fault_tolerance retries all of it", fine=["Never"])
    spec.finish()
    return Pod(template.path, fields, argv, size, patch)


def read_marks(metadata: Part, fields: Fields) -> None:
    """Read labels and annotations; those of Prometheus are the form's `monitoring`."""
    for key, value in metadata.texts("labels").items():
        fields[("labels", key)] = Field(value, f"{metadata.path}.labels.{key}")
    notes = metadata.texts("annotations")
    path = f"{metadata.path}.annotations"
    port = notes.get("prometheus.io/port", "")
    if notes.get("prometheus.io/scrape") == "true" and (port.isdigit() or is_template(port)):
        page = notes.get("prometheus.io/path", "/metrics")
        fields[("monitoring",)] = Field(
            {"port": int(port) if port.isdigit() else port, "path": page}, f"{path}.prometheus.io/port"
        )
        notes = {key: value for key, value in notes.items() if key not in _SCRAPE}
    for key, value in notes.items():
        fields[("kubernetes", "annotations", key)] = Field(value, f"{path}.{key}")
    metadata.skip("creationTimestamp")
    metadata.finish()


def merged(first: Mapping[tuple[str, ...], Field], other: Fields, notes: Notes, *, roles: bool = True) -> Fields:
    """Return two sets of fields as one; the first one's value counts where they differ.

    Args:
        first: what counts.
        other: what is added.
        notes: where differences are said.
        roles: both are roles, so that what only one of them has is said too; False where `first` is the job.
    """
    out: Fields = dict(first)
    for key, found in other.items():
        same = out.setdefault(key, found)
        if same.value != found.value:
            notes.say(found.path, f"differs from {same.path}; the form has one for all replicas, and takes that one")
    for key, found in out.items():
        if roles and (key in first) != (key in other) and not _ANYWHERE & set(key):
            notes.say(found.path, _EVERY_POD)
    return out


def _main(spec: Part, name: str | None) -> Part:
    containers = spec.items("containers")
    names = [item.get("name") if isinstance(item, Mapping) else None for item in containers]
    at = names.index(name) if name in names else 0
    for kind, items in (("containers", containers), ("initContainers", spec.items("initContainers"))):
        for index, _ in enumerate(items):
            if (kind, index) != ("containers", at):
                spec.notes.say(f"{spec.path}.{kind}[{index}]", "a replica of the form is one container")
    main = Part(containers[at] if containers else None, f"{spec.path}.containers[{at}]", spec.notes)
    main.skip("name")
    return main


def _container(main: Part, beside: Beside, fields: Fields) -> Argv:
    image = main.text("image")
    if image is not None:
        fields[("image",)] = Field(image, main.at("image"))
    env = read_environment(main, beside)
    for name, value in env.values.items():
        fields[("env", name)] = Field(value, env.paths[name])
    command, args = ([as_text(word) for word in main.items(key)] for key in ("command", "args"))
    return Argv(main.path, command, args, {**dict.fromkeys(INJECTED), **env.known}, main.text("workingDir"))


def _ports(main: Part, fields: Fields) -> None:
    monitoring = fields.get(("monitoring",))
    known: set[Any] = {monitoring.value["port"]} if monitoring is not None else set()
    for part in main.parts("ports"):
        if part.number("containerPort") not in _OF_CONTROLLERS | known:
            part.notes.say(part.path, "the form opens a port for `monitoring` only; others answer without being named")
            continue
        part.skip("name", "protocol")
        part.finish()


def _options(spec: Part, fields: Fields) -> None:
    """Read what the form's `kubernetes` section and its node rule hold."""

    def put(name: str, value: Any, key: str) -> None:
        if value:
            fields[("kubernetes", name)] = Field(value, spec.at(key))

    account = spec.text("serviceAccountName")
    old = spec.text("serviceAccount")
    put("service_account", account or old, "serviceAccountName" if account else "serviceAccount")
    secrets = []
    for part in spec.parts("imagePullSecrets"):
        secrets.append(part.text("name"))
        part.finish()
    put("image_pull_secrets", [name for name in secrets if name], "imagePullSecrets")
    put("node_selector", spec.texts("nodeSelector"), "nodeSelector")
    put("tolerations", [item for item in spec.items("tolerations") if isinstance(item, Mapping)], "tolerations")
    nodes = _node_rule(spec.peek("affinity"))
    if nodes:
        spec.skip("affinity")
        fields[("compute", "nodes")] = Field(nodes, spec.at("affinity"))


def _node_rule(affinity: Any) -> dict[str, list[str]] | None:
    """Return the affinity as the form's node rule, when it is one: names of nodes, in or not in a list."""
    match affinity:
        case {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}:
            expressions = term.get("matchExpressions") if isinstance(term, Mapping) else None
        case _:
            return None
    rule: dict[str, list[str]] = {}
    for expression in expressions if isinstance(expressions, list) else []:
        match expression:
            case {"key": key, "operator": "In" | "NotIn" as operator, "values": [*values]} if key == HOSTNAME:
                name = "only" if operator == "In" else "exclude"
                if name in rule:
                    return None
                rule[name] = [as_text(value) for value in values]
            case _:
                return None
    return rule if affinity == _affinity(expressions) else None


def _affinity(expressions: Any) -> dict[str, Any]:
    """Return the affinity that rendering writes for a node rule, so that one with anything else in it is none."""
    plain = [{key: item.get(key) for key in ("key", "operator", "values")} for item in expressions or []]
    terms = {"nodeSelectorTerms": [{"matchExpressions": plain}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
