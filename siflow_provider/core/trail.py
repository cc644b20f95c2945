"""What leads to a run beside its labels, for who knows its task: a login may not be allowed to search by those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siflow_provider.core.identity import default_prefix

if TYPE_CHECKING:
    from siflow_provider.core.identity import Identity
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["LONG_GAP", "Trail"]

_MOVES = 20
"""How many moves in a row are reckoned with: each leaves a number without a run behind."""
LONG_GAP = 32
"""For who does not know the form."""


@dataclass(frozen=True, slots=True)
class Trail:
    """Where a run may be, and how it may be called.

    Attributes:
        prefix: the prefix of its name.
        context: kubeconfig context that its task goes to, "" for the connection's own: that one must answer before the
            run counts as not there, others are asked as far as they do. None: all must answer.
        kind: the form's kind, where only runs of that kind are looked for; None = every kind.
        gap: how many numbers in a row may have no run before one that has: attempts that were moved or stopped.
    """

    prefix: str
    context: str | None = None
    kind: str | None = None
    gap: int = 1

    @classmethod
    def of(cls, task: ResolvedTask, identity: Identity, *, every_kind: bool = False) -> Trail:
        """Return what leads to the runs of a task.

        Args:
            task: the resolved task.
            identity: of any attempt.
            every_kind: its form may have been of another kind when the run was submitted.
        """
        form = task.task
        retries = 0 if form.fault_tolerance is None else form.fault_tolerance.max_retries
        return cls(
            prefix=form.name_prefix or default_prefix(identity.dag_id, identity.task_id),
            context=task.context or "",
            kind=None if every_kind else form.kind,
            gap=1 + retries + (_MOVES if len(task.flavors) > 1 else 0),
        )
