"""A catalog drafted from what a cluster has. What a cluster does not say is left out, with a comment that says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from siflow_provider.backends.kubernetes.queueing.amounts import read_amount
from siflow_provider.backends.kubernetes.queueing.instance_draft import InstanceDraft, flavor_instances
from siflow_provider.backends.kubernetes.queueing.machines import Machine
from siflow_provider.backends.kubernetes.queueing.picture import Items
from siflow_provider.spec.writing import write_yaml

__all__ = ["Found", "draft"]

_LEVELS = ("high", "medium", "low")
_ACCESS = ("ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod")
"""Which mode counts where a claim has several: what lets most pods write comes first."""
_HEADER = """\
A draft from what this cluster has. Read every line before you use it; `siflow-provider catalog check FILE` checks it.
Images, datasets, models, alert channels and the label policy are nothing that a cluster has: add yours."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was read of a cluster; None is what may not be read.

    Attributes:
        context: of the kubeconfig; "" for the connection's own.
        local_queues, claims: of all namespaces, or of the only one that may be read.
        cluster_queues, flavors, priorities, machines: of the cluster.
        daemons: node -> what DaemonSets hold there.
    """

    context: str = ""
    local_queues: Items | None = None
    cluster_queues: Items | None = None
    flavors: Items | None = None
    priorities: Items | None = None
    claims: Items | None = None
    machines: tuple[Machine, ...] | None = None
    daemons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(slots=True)
class _Section:
    name: str
    data: Any = None
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the section as YAML, its notes above it."""
        notes = "".join(f"# {line}\n" for note in self.notes for line in note.splitlines())
        return notes + (write_yaml({self.name: self.data}) if self.data else "")


def draft(found: Found) -> str:
    """Return the text of a catalog, comments included; it is valid whatever was found.

    Example:
        >>> draft(Found()).startswith("# A draft from what this cluster has.")
        True
    """
    instances = flavor_instances(found.flavors, found.cluster_queues, found.machines, found.daemons)
    queues = _queues(found, instances)
    sections = [
        _Section("", notes=[_HEADER]),
        _clusters(found),
        _groups(found),
        _instances(instances, queues),
        queues,
        _default_queue(found),
        _priorities(found),
        _volumes(found),
    ]
    if not any(section.data for section in sections):
        return "\n".join([*(section.text() for section in sections if section.notes), "instances: {}\n"])
    return "\n".join(text for section in sections if (text := section.text()))


def _clusters(found: Found) -> _Section:
    context = f", context: {found.context}" if found.context else ""
    note = "A cluster does not know its own name, nor its region; fill in and uncomment:\n"
    return _Section("clusters", notes=[f"{note}clusters: [{{region: REGION, cluster: CLUSTER{context}}}]"])


def _namespaces(found: Found) -> list[str]:
    return sorted({item["metadata"]["namespace"] for item in found.local_queues or ()})


def _groups(found: Found) -> _Section:
    section = _Section("project_groups", {name: {"namespace": name} for name in _namespaces(found)})
    if found.local_queues is None:
        section.notes.append("project_groups: the LocalQueues can't be read, so it is not known who has one.")
    elif section.data:
        section.notes.append("One group for each namespace that has a LocalQueue; `owner` may be added.")
    return section


def _instances(drafts: Iterable[InstanceDraft], queues: _Section) -> _Section:
    """Return the instances; those that no queue leads to are named, where queues are known."""
    section = _Section("instances", {})
    for each in drafts:
        section.data |= each.entries
        section.notes += each.notes
    led_to = {entry["instance"] for entry in queues.data or ()}
    lonely = [] if queues.data is None else [name for name in section.data if name not in led_to]
    if lonely:
        section.notes.append(
            f"instances: no LocalQueue with quota for all that they hold leads to {', '.join(lonely)}: remove them,\n"
            "or give their flavor quota and a queue."
        )
    return section


def _queues(found: Found, drafts: Iterable[InstanceDraft]) -> _Section:
    section = _Section("queues")
    if found.local_queues is None or found.cluster_queues is None:
        section.notes.append(
            "queues: LocalQueues or ClusterQueues can't be read, so nothing is known of their flavors."
        )
        return section
    by_flavor = {each.flavor: each for each in drafts}
    clusters = {item["metadata"]["name"]: item for item in found.cluster_queues}
    section.data = [
        entry
        for local in sorted(found.local_queues, key=lambda item: (item["metadata"]["namespace"], _name(item)))
        for entry in _entries(local, clusters.get(local["spec"]["clusterQueue"]), by_flavor)
    ]
    if section.data:
        section.notes.append(
            "A cluster does not say for which resource type a queue is: on_demand is assumed (spot where the nodes\n"
            "say so). reserved needs `pool`, idle needs `stability`. The first entry that matches wins."
        )
    return section


def _entries(
    local: Mapping[str, Any], cluster: Mapping[str, Any] | None, by_flavor: Mapping[str, InstanceDraft]
) -> Iterator[dict[str, Any]]:
    groups = ((cluster or {}).get("spec") or {}).get("resourceGroups") or ()
    covered = {name for group in groups for name in group["coveredResources"]}
    empty = set() if cluster is None or cluster["spec"].get("cohortName") else _without_quota(groups)
    for flavor in dict.fromkeys(each["name"] for group in groups for each in group["flavors"]):
        known = by_flavor.get(flavor)
        for name, entry in (known.entries if known is not None else {}).items():
            resources = set(entry["resources"])
            if resources <= covered and not any((flavor, resource) in empty for resource in resources):
                assert known is not None
                yield {
                    "type": known.type,
                    "instance": name,
                    "queue": _name(local),
                    "project_groups": [local["metadata"]["namespace"]],
                }


def _without_quota(groups: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Return each (flavor, resource) of which a queue has nothing; one of a cohort may borrow all the same."""
    return {
        (flavor["name"], resource["name"])
        for group in groups
        for flavor in group["flavors"]
        for resource in flavor["resources"]
        if not read_amount(resource["name"], resource.get("nominalQuota", 0))
    }


def _default_queue(found: Found) -> _Section:
    names = sorted({_name(item) for item in found.local_queues or ()})
    section = _Section("default_queue", names[0] if len(names) == 1 else None)
    if len(names) > 1:
        section.notes.append(
            f"default_queue: the queue of tasks whose instance is written in the form; one of {', '.join(names)}."
        )
    return section


def _priorities(found: Found) -> _Section:
    section = _Section("priorities", {})
    if found.priorities is None:
        section.notes.append("priorities: the WorkloadPriorityClasses can't be read.")
        return section
    classes = sorted(found.priorities, key=lambda item: -item.get("value", 0))
    names = [_name(item) for item in classes]
    for level in _LEVELS:
        named = [name for name in names if level in name.lower().replace("_", "-").split("-")]
        if len(named) == 1:
            section.data[level] = named[0]
    if not section.data and len(names) == len(_LEVELS):
        section.data = dict(zip(_LEVELS, names, strict=True))
        section.notes.append("By their values, highest first.")
    left = [f"{_name(item)} ({item.get('value', 0)})" for item in classes if _name(item) not in section.data.values()]
    if left:
        section.notes.append(f"priorities: WorkloadPriorityClasses without a level of the form: {', '.join(left)}")
    return section


def _volumes(found: Found) -> _Section:
    section = _Section("volumes", {})
    if found.claims is None:
        section.notes.append("volumes: the PersistentVolumeClaims can't be read; a form may still say `pvc:NAME`.")
        return section
    groups = _namespaces(found)
    claims = [item for item in found.claims if not groups or item["metadata"]["namespace"] in groups]
    names = [_name(item) for item in claims]
    for item in sorted(claims, key=lambda each: (_name(each), each["metadata"]["namespace"])):
        name, namespace = _name(item), item["metadata"]["namespace"]
        modes = (item.get("spec") or {}).get("accessModes") or ()
        entry: dict[str, Any] = {"pvc": name}
        entry |= {"access": next(mode for mode in _ACCESS if mode in modes)} if modes else {}
        entry |= {"project_groups": [namespace]} if groups else {}
        section.data[name if names.count(name) == 1 else f"{namespace}.{name}"] = entry
    return section


def _name(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["name"])
