"""Every error of the provider, so that one `except` at a boundary catches what a user can mend.

    SiflowError
    ├── SpecError               a form, catalog or file is wrong; carries every problem at once
    ├── UsageError              a command or call is wrong (unknown run, option that contradicts)
    │   └── ConnectionMissing   Airflow answers that this process has no such connection
    ├── UnsupportedError        this backend can't carry these fields; carries every reason
    ├── NeverAdmissibleError    the task could not be admitted even in an empty cluster
    ├── BackendError            the backend answered with an error that waiting will not cure
    │   ├── AccessDenied        the credentials may not do this
    │   ├── NameTaken           an object of that name belongs to somebody else
    │   └── BackendUnavailable  no answer now; worth another try
    │       ├── PartialAnswer   some clusters gave none; carries what the others say
    │       └── NoRoomYet       refused for want of room; worth another try once others have ended
    └── RunFailed               the run ended without success; carries the failure and the result

Above `hooks` these become Airflow's own exceptions (`siflow_provider.operators.outcome`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siflow_provider.core.status import Failure, Status

__all__ = [
    "AccessDenied",
    "BackendError",
    "BackendUnavailable",
    "ConnectionMissing",
    "NameTaken",
    "NeverAdmissibleError",
    "NoRoomYet",
    "PartialAnswer",
    "Problem",
    "Reason",
    "RunFailed",
    "SiflowError",
    "SpecError",
    "UnsupportedError",
    "UsageError",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong (or, as a warning, doubtful) in a form, and where.

    Attributes:
        path: the field's path, such as `env.KUBERNETES_X` or `volumes[1].mount_path`; "" for the whole form.
        message: value, rule and the nearest valid choice, in one sentence.
        line: line in the file, from 1; None when the form did not come from a file.
        column: column in the file, from 1.
    """

    path: str
    message: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = f" (line {self.line}, column {self.column})" if self.line is not None else ""
        return f"{self.path or 'form'}{place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a backend can't honour one field of a task.

    Attributes:
        path: the field's path, such as `compute.nodes`.
        code: a stable word in CamelCase for programs, such as `NoClaim`.
        message: the reason for people, with what to do instead.
    """

    path: str
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class SiflowError(Exception):
    """The root: what went wrong in a sentence, and what to do about it in `hint`."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class SpecError(SiflowError):
    """A form, a catalog or a YAML file that can't be used; `problems` holds all that is wrong with it."""

    def __init__(self, problems: Sequence[Problem], *, source: str = "task") -> None:
        self.problems = tuple(problems)
        self.source = source
        count = len(self.problems)
        head = f"{source} has {count} problem{'' if count == 1 else 's'}:"
        super().__init__("\n".join([head, *(f"  - {problem}" for problem in self.problems)]))


class UsageError(SiflowError):
    """A command, call or name that can't be understood or does not exist."""


class ConnectionMissing(UsageError):
    """Airflow says for certain that there is no such connection in the process that asks."""


class UnsupportedError(SiflowError):
    """The chosen backend can't carry this task; `reasons` names each field."""

    def __init__(self, reasons: Sequence[Reason], *, backend: str) -> None:
        self.reasons = tuple(reasons)
        lines = "\n".join(f"  - {reason}" for reason in self.reasons)
        super().__init__(f"the backend {backend!r} can't run this task:\n{lines}")


class NeverAdmissibleError(SiflowError):
    """No queue could ever admit the task, whatever ends before it; the message holds the proof."""


class BackendError(SiflowError):
    """The backend refused or failed; `detail` is its own words, without secrets."""

    def __init__(self, message: str, *, hint: str = "", detail: str = "") -> None:
        super().__init__(message, hint=hint)
        self.detail = detail


class AccessDenied(BackendError):
    """The credentials of the connection may not do this."""


class NameTaken(BackendError):
    """An object of this name exists and its labels say that it is not ours."""


class BackendUnavailable(BackendError):
    """No usable answer now (connection lost, 429, 5xx); the run itself is untouched."""


class PartialAnswer(BackendUnavailable):
    """Some of the clusters that a connection leads to gave no answer; `found` is what the others say."""

    def __init__(self, message: str, *, found: Sequence[Status] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.found = tuple(found)


class NoRoomYet(BackendUnavailable):
    """The backend keeps no more objects or runs of this kind until others have ended, such as a ResourceQuota."""


class RunFailed(SiflowError):
    """A run that ended without success.

    Attributes:
        failure: class, evidence and what to do.
        summary: the run's result, as the operator pushes it (`return_value` in JSON form).
    """

    def __init__(self, failure: Failure, *, summary: dict[str, object]) -> None:
        super().__init__(failure.describe())
        self.failure = failure
        self.summary = summary
