"""Instances and queues: what a replica gets and where the task queues for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from siflow_provider.spec.base import is_template, is_unknown, known_items
from siflow_provider.spec.compute import InPlaceInstance, Reserved, Undecided
from siflow_provider.spec.quantity import Resources, accelerators
from siflow_provider.spec.resolve import Flavor
from siflow_provider.spec.wording import listed, suggest

if TYPE_CHECKING:
    from siflow_provider.spec.catalog_model import Catalog, InstanceEntry, QueueEntry
    from siflow_provider.spec.scope import Findings, Scope
    from siflow_provider.spec.task import Task

__all__ = ["flavor_of", "flavors_of"]

GPU_RESOURCE = "nvidia.com/gpu"
"""What `gpu` of an in-place instance means."""
IN_PLACE = "in-place"
_FLAGS = ("guarantee", "accept_idle", "prefer_idle")


def flavors_of(
    task: Task, catalog: Catalog | None, scope: Scope, default_queue: str | None, findings: Findings
) -> list[Flavor]:
    """Return one flavor per listed instance, best first; what can't be looked up goes to `findings`."""
    compute = task.compute
    if is_unknown(compute):
        return []
    pool_known = catalog is None or _is_pool(compute, catalog, scope, findings)
    out: list[Flavor] = []
    kinds: dict[str, str] = {}
    for path, instance in _instances(compute, final=findings.final):
        flavor = flavor_of(instance, compute.units_per_replica, catalog, path, findings, scope=scope)
        if flavor is None:
            continue
        if isinstance(instance, InPlaceInstance) or catalog is None or not catalog.queues:
            out.append(replace(flavor, queue=default_queue))
        elif not pool_known:
            out.append(flavor)
        else:
            out.append(_queued(flavor, compute, catalog, scope, findings))
        if not is_template(instance):
            kinds.setdefault(flavor.accelerator, path)
    in_place = all(isinstance(instance, InPlaceInstance) for _, instance in _instances(compute, final=False))
    if len(kinds) > 1 and not in_place:
        path = list(kinds.values())[-1]
        findings.wrong(path, "GPU and CPU instances are mixed; all must have one kind of accelerator")
    return out


def _instances(compute: Any, *, final: bool) -> Iterator[tuple[str, Any]]:
    """Yield path and instance; for good also those that are templates, which are shown as they are."""
    single = getattr(compute, "instance", None)
    if isinstance(compute, Reserved | Undecided) and single is not None and (final or not is_unknown(single)):
        yield "compute.instance", single
    if not isinstance(compute, Reserved):
        for index, instance in enumerate(compute.instances or ()) if final else known_items(compute.instances):
            yield f"compute.instances[{index}]", instance


def flavor_of(
    instance: Any, units: Any, catalog: Catalog | None, path: str, findings: Findings, *, scope: Scope
) -> Flavor | None:
    """Return what one replica gets from an instance, without its queue; None when that is not known."""
    if is_unknown(units):
        units = 1
    if isinstance(instance, InPlaceInstance):
        return _in_place(instance, units, final=findings.final)
    if is_template(instance):
        return Flavor(instance=str(instance), resources=Resources())
    if catalog is None:
        advice = "give a catalog, or write {cpu: .., memory: .., gpu: ..} in its place"
        findings.wrong(path, f"{instance!r} is a catalog name and there is no catalog; {advice}")
        return None
    entry = scope.find(instance, catalog.instances, "instance", path, findings)
    if entry is None:
        return None
    return Flavor(
        instance=instance,
        resources=Resources.of(entry.resources) * units,
        node_selector=entry.node_selector,
        tolerations=entry.tolerations,
        accelerator=_accelerator(entry),
    )


def _in_place(instance: InPlaceInstance, units: int, *, final: bool) -> Flavor | None:
    """Return the flavor; an amount that is a template is left out of it."""
    amounts: dict[str, str | float] = {"cpu": instance.cpu, "memory": instance.memory}
    if instance.gpu:
        amounts[GPU_RESOURCE] = instance.gpu
    known = {name: value for name, value in amounts.items() if not is_unknown(value)}
    if known != amounts and not final:
        return None
    accelerator = "gpu" if instance.gpu else "cpu"
    return Flavor(instance=IN_PLACE, resources=Resources.of(known) * units, accelerator=accelerator)


def _accelerator(entry: InstanceEntry) -> str:
    if entry.accelerator is not None:
        return entry.accelerator
    return "gpu" if accelerators(entry.resources) else "cpu"


def _is_pool(compute: Any, catalog: Catalog, scope: Scope, findings: Findings) -> bool:
    """Say whether the pool may be one of the user's; where it is none, `findings` say so, whatever the instance is."""
    if not isinstance(compute, Reserved) or not catalog.queues or is_unknown(compute.pool):
        return True
    if isinstance(compute.instance, InPlaceInstance):  # it goes to the default queue
        return True
    pools = list(dict.fromkeys(one.pool for one in catalog.queues if one.pool and scope.admits(one) is not False))
    if compute.pool in pools:
        return True
    hint = suggest(compute.pool, pools, what="pools")
    findings.wrong("compute.pool", f"{compute.pool!r} is no pool of the catalog for you; {hint}")
    return False


def _queued(flavor: Flavor, compute: Any, catalog: Catalog, scope: Scope, findings: Findings) -> Flavor:
    """Return the flavor with the first queue that takes the task; without one when that is not known yet."""
    if isinstance(compute, Undecided):
        return flavor
    for entry in catalog.queues:
        matches = _matches(entry, compute, flavor.instance, scope)
        if matches is None:
            return flavor
        if matches:
            return replace(flavor, queue=entry.queue, resource_pool=entry.resource_pool)
    findings.wrong("compute", _no_queue(compute, flavor.instance, catalog, scope))
    return flavor


def _matches(entry: QueueEntry, compute: Any, instance: str, scope: Scope) -> bool | None:
    """Say whether a queue takes the task; None when that is decided by something not known yet."""
    wanted = {"type": compute.type, "instance": instance, "pool": getattr(compute, "pool", None)}
    flags = {flag: getattr(compute, flag, False) for flag in _FLAGS}
    stability = _stability(compute)
    maybe = isinstance(compute, Reserved) and not compute.accept_idle and bool(stability or compute.prefer_idle)
    if not maybe:  # else they contradict each other, which the rules of the form tell
        wanted |= flags
    for name, value in wanted.items():
        if is_unknown(value):
            maybe = True
        elif getattr(entry, name) != value:
            return False
    if stability is not None and is_unknown(stability):
        maybe = True
    elif not maybe and stability is not None and stability not in entry.stability:
        return False
    admitted = scope.admits(entry)
    if admitted is False:
        return False
    return None if maybe or admitted is None else True


def _stability(compute: Any) -> Any:
    return getattr(compute, "stability", None) or getattr(compute, "idle_stability", None)


def _no_queue(compute: Any, instance: str, catalog: Catalog, scope: Scope) -> str:
    asked = [f"type {compute.type}", f"instance {instance}"]
    asked += [f"{name} {value}" for name in ("pool",) if isinstance(value := getattr(compute, name, None), str)]
    asked += [f"{flag}: true" for flag in _FLAGS if getattr(compute, flag, False) is True]
    asked += [f"stability {stability}"] if isinstance(stability := _stability(compute), str) else []
    usable = [entry for entry in catalog.queues if scope.admits(entry) is not False]
    same = [_told(entry) for entry in usable if entry.instance == instance]
    message = f"no queue of the catalog takes {', '.join(asked)}"
    if same:
        return f"{message}; queues for {instance} are for: {listed(same)}"
    others = list(dict.fromkeys(entry.instance for entry in usable if entry.type == compute.type))
    return f"{message}; instances with a queue for {compute.type}: {listed(others)}"


def _told(entry: QueueEntry) -> str:
    parts: list[str] = [entry.type]
    parts += [f"pool {entry.pool}"] if entry.pool else []
    parts += [flag for flag in _FLAGS if getattr(entry, flag)]
    parts += [f"stability {'/'.join(entry.stability)}"] if entry.stability else []
    return " ".join(parts)
