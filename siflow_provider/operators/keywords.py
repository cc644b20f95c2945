"""Keywords that an operator does not have: told by name with the nearest right one, never with their values.

Airflow's own refusal prints what was passed, into the import error and so into its database: also the hidden value
behind a misspelt `env`. It also ends the check of everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, get_args

from siflow_provider.core.launch import QuotaPolicy
from siflow_provider.errors import Problem, SpecError
from siflow_provider.spec.unknown_keys import explain
from siflow_provider.spec.wording import quote, suggest
from siflow_provider.triggers.killed import KillAction

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

__all__ = ["refuse", "refuse_unknown", "unknown_keywords", "without", "wrong_arguments", "wrong_logs", "wrong_waits"]

_CHOICES = {"quota": get_args(QuotaPolicy), "on_kill_action": get_args(KillAction)}
_LOGS = ("master", "all", "none")
_AIRFLOWS_OWN = {"_airflow_from_mapped", "_airflow_mapped_validation_only", "on_failure_fail_dagrun"}
"""What Airflow itself passes beside the parameters of `__init__`."""


def unknown_keywords(operator: type[BaseOperator], names: Iterable[str]) -> tuple[Problem, ...]:
    """Return a problem for each name that is no keyword of the operator class.

    Example:
        >>> [str(problem) for problem in unknown_keywords(PyTorchJobOperator, {"comand": "x"})]
        ["comand: unknown keyword; did you mean 'command'?"]
    """
    known = _keywords(operator)
    return tuple(
        Problem(name, _explained(name, operator, known))
        for name in names
        if name not in known and name not in _AIRFLOWS_OWN
    )


def wrong_waits(operator: Any) -> Iterator[Problem]:
    """Yield a problem for an `execution_timeout` that leaves no time, and a `deferrable` that is neither yes nor no."""
    if operator.execution_timeout is not None and operator.execution_timeout <= timedelta():
        text = f"{operator.execution_timeout} is too short; more than 0; leave it out for no limit"
        yield Problem("execution_timeout", text)
    if not isinstance(operator.deferrable, bool):
        yield Problem("deferrable", f"{quote(operator.deferrable)} is neither True nor False")


def wrong_logs(logs: Any) -> Iterator[Problem]:
    """Yield a problem for a `logs` that names neither a choice nor replicas."""
    listed = isinstance(logs, (list, tuple)) and all(isinstance(each, str) for each in logs)
    if not listed and logs not in _LOGS:
        names = "or a list of replicas such as ['worker-1']"
        yield Problem("logs", f"{quote(logs)} is none of {', '.join(_LOGS)}, {names}")


def wrong_arguments(operator: Any) -> Iterator[Problem]:
    """Yield all that is wrong with the arguments of an operator that are no form fields.

    Also of a task that was made of a mapped one: a wrong `on_kill_action` would be found once the run is submitted.
    """
    yield from wrong_waits(operator)
    for name, choices in _CHOICES.items():
        value = getattr(operator, name)
        if value not in choices:
            yield Problem(name, f"{quote(value)} is none of {', '.join(choices)}")
    yield from wrong_logs(operator.logs)


def without(arguments: Mapping[str, Any], unknown: Iterable[Problem]) -> dict[str, Any]:
    """Return the keyword arguments without the unknown ones."""
    names = {problem.path for problem in unknown}
    return {name: value for name, value in arguments.items() if name not in names}


def refuse(problems: Sequence[Problem], *, task_id: object) -> None:
    """Raise SpecError where there are problems."""
    if problems:
        raise SpecError(problems, source=f"task {task_id!r}")


def refuse_unknown(operator: type[BaseOperator], names: Iterable[str], *, task_id: object) -> None:
    """Raise SpecError where a name is no keyword of the class; for tasks that are made without its `__init__`."""
    refuse(unknown_keywords(operator, names), task_id=task_id)


@lru_cache
def _keywords(operator: type[BaseOperator]) -> dict[str, None]:
    """Return all keywords, those of the class itself before those of its bases."""
    named = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    inits = [vars(base)["__init__"] for base in operator.__mro__ if "__init__" in vars(base)]
    parameters = [one for init in inits for one in signature(init).parameters.values()]
    return {one.name: None for one in parameters if one.kind in named and one.name != "self"}


def _explained(name: str, operator: type[BaseOperator], known: Iterable[str]) -> str:
    model = getattr(operator, "model", None)
    if model is not None and name == "kind":
        return f"is no keyword: the operator's class says it, here {model.__name__}; leave it out"
    said = explain(name, (), (), model) if model is not None else None
    return said or f"unknown keyword; {suggest(name, known, what='keywords')}"
