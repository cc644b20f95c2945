"""`gc`: runs whose Airflow task instance is over, and ended runs that nobody needs any more."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siflow_provider.cli.connection import DEFAULT_CONNECTION, ConnOption, JsonOption, settings_of
from siflow_provider.cli.leftovers import UNASKED, Age, Instance, Verdict, decide, is_live, is_of_another
from siflow_provider.cli.output import print_json, print_table
from siflow_provider.errors import PartialAnswer, SiflowError, UsageError

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings
    from siflow_provider.cli.airflow_states import AirflowStates
    from siflow_provider.core.protocol import Backend
    from siflow_provider.core.status import Status

__all__ = ["gc"]

_AT_ONCE = 8
_DONE = {"stop": "stopped", "delete": "deleted"}
AirflowOption = Annotated[
    str | None,
    typer.Option("--airflow", envvar="SIFLOW_AIRFLOW_URL", help="Address of Airflow's API server.", metavar="URL"),
]
OlderOption = Annotated[
    str | None, typer.Option("--older-than", help="Delete runs that ended that long ago, such as 7d.", metavar="AGE")
]
MissingOption = Annotated[
    bool, typer.Option("--missing", help="A task instance that this Airflow does not know counts as over.")
]
InstallationOption = Annotated[
    str,
    typer.Option(
        "--installation",
        envvar="AIRFLOW__SIFLOW__INSTALLATION",
        help="The [siflow] installation of that Airflow: no run of another one is touched.",
        metavar="NAME",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do it; without, only say what would be done.")]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the command was asked for."""

    age: Age | None
    missing: bool
    installation: str
    airflow: AirflowStates | None
    at_work: frozenset[str]
    """Runs of which an attempt works: what an ended attempt of theirs left may be in use."""

    async def find(self, status: Status) -> _Found:
        """Ask Airflow about a run where its answer counts, and decide."""
        instance = UNASKED
        wanted = is_live(status) or (self.age is not None and self.age.reached_by(status))
        wanted = wanted and not is_of_another(status, self.installation)
        if self.airflow is not None and status.origin is not None and wanted:
            instance = await self.airflow.instance(status.origin)
        verdict = decide(
            status, instance, age=self.age, missing=self.missing, asked=self.airflow is not None,
            retried=status.ref.task_uuid in self.at_work, installation=self.installation,
        )  # fmt: skip
        return _Found(status, instance, verdict)


@dataclass(frozen=True, slots=True)
class _Found:
    """A run, and what becomes of it; `done` is None while nothing was done."""

    status: Status
    instance: Instance
    verdict: Verdict
    done: bool | None = None
    error: str = ""

    def data(self) -> dict[str, Any]:
        """Return it for a program."""
        status = self.status
        return {
            **{name: getattr(status.ref, name) for name in ("name", "kind", "context", "namespace", "uid")},
            "phase": str(status.phase),
            "ended_at": None if status.ended_at is None else status.ended_at.isoformat(),
            "task": None if status.origin is None else status.origin.model_dump(),
            "airflow": None if self.instance is UNASKED else str(self.instance),
            **asdict(self.verdict),
            "done": self.done,
            "error": self.error,
        }

    def row(self) -> tuple[str, ...]:
        """Return it for a person."""
        action = self.verdict.action
        word = action if self.done is None else _DONE[action] if self.done else f"{action} failed"
        task = "" if self.status.origin is None else str(self.status.origin)
        return word, self.status.ref.name, str(self.status.phase), task, self.error or self.verdict.why


def gc(
    *,
    conn: ConnOption = DEFAULT_CONNECTION,
    airflow: AirflowOption = None,
    older_than: OlderOption = None,
    missing: MissingOption = False,
    installation: InstallationOption = "",
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Stop runs whose Airflow task is over (--airflow) and delete ended ones (--older-than); --yes does it."""
    if airflow is None and older_than is None:
        raise UsageError(
            "nothing tells which runs are left over.",
            hint="Give --airflow URL (runs whose task is over), --older-than AGE (ended runs) or both.",
        )
    if missing and airflow is None:
        raise UsageError("--missing is about what Airflow answers.", hint="Give --airflow URL as well.")
    asked = _Asked(_age(older_than), missing, installation.strip(), None, frozenset())
    found, silent = asyncio.run(_sweep(settings_of(conn), airflow, asked, yes=yes))
    if json:
        print_json([each.data() for each in found])
    else:
        print_table(
            ("action", "name", "phase", "task", "why"),
            [each.row() for each in found if each.verdict.action != "keep" or each.verdict.unsure],
        )
    sys.stderr.write(_summary(found, yes=yes) + "\n")
    if silent is not None:
        raise silent
    if any(each.done is False for each in found):
        raise typer.Exit(1)


async def _sweep(
    settings: Settings, url: str | None, wanted: _Asked, *, yes: bool
) -> tuple[list[_Found], PartialAnswer | None]:
    from siflow_provider.backends import make_backend
    from siflow_provider.cli.runs import answered

    async with AsyncExitStack() as stack:
        airflow = None if url is None else await stack.enter_async_context(_airflow(url))
        backend = await stack.enter_async_context(make_backend(settings))
        runs, silent = await answered(backend.runs())
        at_work = frozenset(status.ref.task_uuid for status in runs if is_live(status))
        asked = replace(wanted, airflow=airflow, at_work=at_work)
        seen = [status for status in runs if status.visible_to(settings.login)]
        found: Sequence[_Found] = await asyncio.gather(*map(asked.find, seen))
        if yes:
            at_once = asyncio.Semaphore(_AT_ONCE)
            found = await asyncio.gather(*(_act(backend, asked, each, at_once) for each in found))
        return list(found), silent


def _airflow(url: str) -> AirflowStates:
    from siflow_provider.cli.airflow_states import TOKEN_VARIABLE, AirflowStates
    from siflow_provider.spec.hidden import Hidden

    token = os.environ.get(TOKEN_VARIABLE)
    return AirflowStates(url, Hidden(token) if token else None)


async def _act(backend: Backend, asked: _Asked, found: _Found, at_once: asyncio.Semaphore) -> _Found:
    """Do what was decided, if it still holds: the stops before this one took their time."""
    if found.verdict.action == "keep":
        return found
    async with at_once:
        ref = found.status.ref
        try:
            now = await asked.find(await backend.status(ref))
            match now.verdict.action:
                case "stop":
                    await backend.stop(ref, by=f"siflow-provider gc: {now.verdict.why}")
                    await backend.finish(ref)
                case "delete":
                    await backend.finish(ref)  # nobody may have been there at its end
                    await backend.delete(ref)
                case "keep":
                    return now
        except SiflowError as error:  # of one run alone, also a token that ends: what the others do is not cut off
            return replace(found, done=False, error=str(error))
        return replace(now, done=True)


def _age(text: str | None) -> Age | None:
    from siflow_provider.spec.duration import parse_duration

    if text is None:
        return None
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--older-than {text!r}: {error}.") from None
    if seconds < 0:
        raise UsageError(f"--older-than {text!r}: an age is not negative.")
    return Age(seconds, datetime.now(UTC))


def _summary(found: Sequence[_Found], *, yes: bool) -> str:
    """Return one line: what was or would be done, and what is left because it can't be known."""
    count = {action: sum(each.verdict.action == action for each in found) for action in ("stop", "delete", "keep")}
    unsure = sum(each.verdict.unsure for each in found)
    failed = sum(each.done is False for each in found)
    parts = [f"{count['stop']} to stop, {count['delete']} to delete, {count['keep']} left as they are"]
    if unsure:
        parts.append(f"of {unsure} of these it is not known whether their task is over")
    if failed:
        parts.append(f"{failed} could not be done")
    if not yes and count["stop"] + count["delete"]:
        parts.append("nothing was done, --yes does it")
    return "; ".join(parts)
