"""`partial().expand()` without leaks: Airflow makes mapped tasks without `__init__` and serializes what it is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.mappedoperator import MappedOperator, OperatorPartial

from siflow_provider.operators.form import SOURCES, conceal, hide
from siflow_provider.operators.keywords import refuse_unknown
from siflow_provider.operators.upstream import come_after

if TYPE_CHECKING:
    from airflow.sdk import XComArg

__all__ = ["HidingPartial", "hide_arguments"]


def hide_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments with hidden values wrapped; what is not a mapping or a list stays the same object."""
    return {name: conceal(value) if name in SOURCES else hide(value) for name, value in arguments.items()}


class HidingPartial(OperatorPartial):
    """Airflow's half-made mapped task, with hidden values wrapped in what is mapped over."""

    __slots__ = ()

    @classmethod
    def of(cls, made: OperatorPartial) -> HidingPartial:
        """Take the place of Airflow's own; it is marked as used, so that it does not warn when it goes."""
        made._expand_called = True
        return cls(operator_class=made.operator_class, kwargs=made.kwargs, params=made.params)

    def expand(self, **mapped_kwargs: Any) -> MappedOperator:
        """Map over lists, mappings or another task's output, one task instance a value."""
        self._refuse_unknown(mapped_kwargs)
        return _in_order(super().expand(**hide_arguments(mapped_kwargs)))

    def expand_kwargs(
        self, kwargs: Sequence[XComArg | Mapping[str, Any]] | XComArg, *, strict: bool = True
    ) -> MappedOperator:
        """Map over whole sets of keyword arguments."""
        if isinstance(kwargs, Sequence):
            self._refuse_unknown(dict.fromkeys(name for each in kwargs if isinstance(each, Mapping) for name in each))
        values: Any = (
            [hide_arguments(one) if isinstance(one, Mapping) else one for one in kwargs]
            if isinstance(kwargs, Sequence)
            else kwargs
        )
        return _in_order(super().expand_kwargs(values, strict=strict))

    def _refuse_unknown(self, names: Iterable[str]) -> None:
        self._expand_called = True  # or Airflow warns of a task that was never mapped, beside the error
        refuse_unknown(self.operator_class, names, task_id=self.kwargs["task_id"])


def _in_order(task: MappedOperator) -> MappedOperator:
    come_after(task)
    return task
