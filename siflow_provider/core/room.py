"""Whether a whole task fits, what is needed to ask that, and what is worth saying while it does not.

`Demand` carries what the question needs and no more: sizes, queues and counts. Image, command, environment, mounts and
all else of the form stay behind, hidden values with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from siflow_provider.core.frozen import Frozen
from siflow_provider.core.placement import Offer, ask_offers, choose
from siflow_provider.spec.kube_objects import sizing_patch
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.reading import KINDS
from siflow_provider.spec.resolve import Flavor, ResolvedTask
from siflow_provider.spec.writing import to_data

if TYPE_CHECKING:
    from siflow_provider.core.protocol import TrainingBackend
    from siflow_provider.errors import BackendUnavailable

__all__ = ["REPEAT_SECONDS", "Demand", "News", "Room", "look_for_room"]

REPEAT_SECONDS = 900.0
"""An unchanged reason is said again after this long, so that a log of a long wait shows that somebody still looks."""

_ASKED = ("kind", "region", "cluster", "project_group", "compute", "workers", "priority")
_ASKED_OF = {"ray": ("head", "autoscaling"), "kubernetes": ("node_selector", "tolerations")}


class _Place(Frozen):
    """A `Flavor` in JSON types."""

    instance: str
    resources: dict[str, str]
    queue: str | None = None
    resource_pool: str | None = None
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    accelerator: str = "cpu"

    @classmethod
    def of(cls, flavor: Flavor) -> _Place:
        return cls(
            instance=flavor.instance,
            resources=flavor.resources.rendered(),
            queue=flavor.queue,
            resource_pool=flavor.resource_pool,
            node_selector=dict(flavor.node_selector),
            tolerations=tuple(dict(each) for each in flavor.tolerations),
            accelerator=flavor.accelerator,
        )

    def flavor(self) -> Flavor:
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return Flavor(**{**values, "resources": Resources.of(self.resources)})


class Demand(Frozen):
    """The part of a resolved task that decides whether it fits. Airflow stores it in clear.

    Attributes:
        form: the fields of the form that a queue looks at.
        flavors: listed instances with their queues, best first.
        head: the Ray head's, where it differs.
        namespace, context, priority_class: as in `ResolvedTask`.
    """

    form: dict[str, Any]
    flavors: tuple[_Place, ...]
    head: _Place | None = None
    namespace: str | None = None
    context: str | None = None
    priority_class: str | None = None

    @classmethod
    def of(cls, task: ResolvedTask) -> Demand:
        """Return what `task` asks for."""
        data = to_data(task.task)
        form = {name: data[name] for name in _ASKED if name in data}
        for section, names in _ASKED_OF.items():
            kept = {name: value for name, value in data.get(section, {}).items() if name in names}
            if kept:
                form[section] = kept
        patch = sizing_patch(data.get("kubernetes", {}).get("patch", {}))
        if patch:
            form["kubernetes"] = {**form.get("kubernetes", {}), "patch": patch}
        return cls(
            form={"kind": task.task.kind, **form},
            flavors=tuple(map(_Place.of, task.flavors)),
            head=None if task.head is None else _Place.of(task.head),
            namespace=task.namespace,
            context=task.context,
            priority_class=task.priority_class,
        )

    def resolved(self) -> ResolvedTask:
        """Return a task of the same demand, good for asking for quota and for nothing else."""
        task = KINDS[self.form["kind"]].model_validate({"image": "unused", "command": "unused", **self.form})
        return ResolvedTask(
            task=task,
            image="",
            env={},
            hidden={},
            flavors=tuple(place.flavor() for place in self.flavors),
            head=None if self.head is None else self.head.flavor(),
            namespace=self.namespace,
            context=self.context,
            priority_class=self.priority_class,
        )


@dataclass(frozen=True, slots=True)
class Room:
    """Whether a whole task fits.

    Attributes:
        fits: one of its listed instances can take all of it now.
        never: it is proven that none of them ever could.
        text: why not, with the numbers that are short; where, when it fits.
        instance: the instance that it fits on, or that comes nearest.
        queue: the queue that leads there.
    """

    fits: bool
    never: bool
    text: str
    instance: str = ""
    queue: str = ""

    @classmethod
    def unknown(cls, error: BackendUnavailable) -> Room:
        """Return what a backend without an answer leaves open."""
        return cls(False, False, f"quota is not known: {error}")

    def summary(self) -> dict[str, str]:
        """Return what a sensor pushes."""
        return {"instance": self.instance, "queue": self.queue}


async def look_for_room(backend: TrainingBackend, task: ResolvedTask) -> Room:
    """Ask the backend once. What it can't answer is neither yes nor no."""
    offers = await ask_offers(backend, task)
    best = choose(offers)
    flavor = task.flavors[best.flavor]
    report = best.report
    queue = report.queue if report is not None else flavor.queue or ""
    if best.fits_now:
        where = f" on {flavor.instance}" if len(task.flavors) > 1 else ""
        return Room(True, False, f"the whole task fits now{where} (queue: {queue})", flavor.instance, queue)
    several = len(offers) > 1
    texts = [f"{task.flavors[each.flavor].instance}: {_why(each)}" if several else _why(each) for each in offers]
    return Room(False, all(each.never for each in offers), "; ".join(texts), flavor.instance, queue)


def _why(offer: Offer) -> str:
    if offer.report is None:
        return f"quota is not known: {offer.trouble}"
    return offer.report.why_not().rstrip(".")


class News:
    """Decides what is worth saying while somebody waits: a new reason, or an old one once more after a long time.

    Args:
        repeat_seconds: after how long an unchanged reason is said again.
        clock: seconds, only ever rising.
    """

    def __init__(self, repeat_seconds: float = REPEAT_SECONDS, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._repeat = repeat_seconds
        self._clock = clock
        self._said: tuple[str, float] | None = None

    def is_new(self, text: str) -> bool:
        """Say whether to say `text`, and take it as said."""
        now = self._clock()
        if self._said is not None and self._said[0] == text and now - self._said[1] < self._repeat:
            return False
        self._said = (text, now)
        return True
