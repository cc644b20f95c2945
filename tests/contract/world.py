"""What the contract suite needs of a place where runs happen, beyond the backend under test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from siflow_provider.core.protocol import TrainingBackend
from siflow_provider.core.status import JobRef, Kind
from siflow_provider.spec.resolve import ResolvedTask

Size = Literal["small", "whole", "impossible"]
"""How much a task needs: many fit at once, only one fits at a time, none ever fits."""


class World(Protocol):
    """One backend with its machinery, all to itself.

    Commands of tasks are bash programs and really run; a world without code (simulated nodes) is no world for this
    suite.
    """

    name: str
    patience_seconds: float
    """How long anything that should happen may take here."""

    def backend(self) -> TrainingBackend:
        """Return a new backend object on the same machinery, not yet opened: another process, as it were."""
        ...

    def task(
        self,
        command: str,
        *,
        workers: int = 0,
        size: Size = "small",
        kind: Kind = "PyTorchJob",
        hidden: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        **form: object,
    ) -> ResolvedTask:
        """Return a task; `form` are further fields of the form.

        A PyTorchJob runs `command` on every replica, a RayJob as the one program of its cluster.
        """
        ...

    def refused(self) -> Sequence[tuple[str, ResolvedTask]]:
        """Return each field that the backend can't honour, and a task that uses it."""
        ...

    async def vanish(self, ref: JobRef) -> None:
        """Take the run away behind the backend's back, as an admin or a crash does."""
        ...

    async def stuck_start(self, backend: TrainingBackend) -> JobRef:
        """Submit a run that is admitted and whose replicas never all run; stopping it works."""
        ...

    async def still_running(self, ref: JobRef) -> list[str]:
        """Return what is left of the run's processes; [] when nothing runs."""
        ...

    def visible_text(self) -> str:
        """Return all that others may read: stored objects or files, command lines; no log of the user's own code."""
        ...

    async def close(self) -> None:
        """End and remove everything."""
        ...
