"""What was read of a cluster to answer for quota; None stands for what may not be read, and never for nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from siflow_provider.backends.kubernetes.queueing.machines import Machine
from siflow_provider.core.quota import Answer, Shortage, Verdict

__all__ = ["Counting", "Items", "Picture", "no", "unknown", "worst", "yes"]

Items = tuple[Mapping[str, Any], ...]
_ORDER = (Verdict.NO, Verdict.UNKNOWN, Verdict.YES)


@dataclass(frozen=True, slots=True)
class Counting:
    """What Kueue's configuration says about resources that it does not count as they are asked for.

    Attributes:
        left_out: prefixes of resources that it ignores.
        changed: resources that it counts as others.

    source: Kueue v0.17.0 apis/config/v1beta2, Resources
    """

    left_out: tuple[str, ...] = ()
    changed: frozenset[str] = frozenset()

    def counts(self, resource: str) -> bool:
        """Say whether a request for the resource needs quota of that very name."""
        return not resource.startswith(self.left_out) and resource not in self.changed


@dataclass(frozen=True, slots=True)
class Picture:
    """One moment of a cluster, as far as it may be read.

    Attributes:
        namespace: where the task would go.
        queue: the LocalQueue it would go to; None for none.
        kueue: the cluster has Kueue.
        local_queues: of the namespace.
        cluster_queues, flavors, cohorts: of the cluster.
        counting: Kueue's configuration.
        nodes_read: it was tried to read the nodes.
        machines: the nodes; None as well where it was not tried.
        static: it is known that nothing adds nodes by itself.
        resource_quotas, limit_ranges, namespace_labels: of the namespace.
    """

    namespace: str
    queue: str | None = None
    kueue: bool = True
    local_queues: Items | None = None
    cluster_queues: Items | None = None
    flavors: Items | None = None
    cohorts: Items | None = None
    counting: Counting | None = None
    nodes_read: bool = True
    machines: tuple[Machine, ...] | None = None
    static: bool = False
    resource_quotas: Items | None = None
    limit_ranges: Items | None = None
    namespace_labels: Mapping[str, str] | None = None


def yes(text: str) -> Answer:
    """Return an answer."""
    return Answer(Verdict.YES, text)


def no(text: str, *short: Shortage) -> Answer:
    """Return an answer, with what is short."""
    return Answer(Verdict.NO, text, short)


def unknown(text: str) -> Answer:
    """Return an answer that names what can't be read or decided."""
    return Answer(Verdict.UNKNOWN, text)


def worst(*answers: Answer) -> Answer:
    """Return one answer for several conditions that must all hold; it tells what decides it."""
    verdict = min((each.verdict for each in answers), key=_ORDER.index)
    deciding = [each for each in answers if each.verdict is verdict]
    text = "; ".join(dict.fromkeys(each.text for each in deciding if each.text))
    return Answer(verdict, text, tuple(short for each in deciding for short in each.short))
