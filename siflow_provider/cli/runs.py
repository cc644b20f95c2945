"""Commands about runs: `ps`, `show`, `logs`, `stop`.

A private run (`visible_in_group: false`) is there for its owner only: the login of the connection that the command
uses. A connection without a login sees all runs, and a run without an owner is seen by all.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer

from siflow_provider.cli.connection import DEFAULT_CONNECTION, ConnOption, JsonOption, settings_of
from siflow_provider.cli.output import print_json, print_table, status_data, write
from siflow_provider.core.status import LogCursor, Phase, Status
from siflow_provider.errors import PartialAnswer, UsageError

if TYPE_CHECKING:
    from siflow_provider.core.protocol import TrainingBackend
    from siflow_provider.core.status import LogSelection

__all__ = ["answered", "logs", "ps", "show", "stop"]

MOMENTS = ("submitted_at", "admitted_at", "running_at", "ended_at")
NameArgument = Annotated[str, typer.Argument(help="The run's full name, as `ps` lists it.", metavar="NAME")]


def _with_backend(conn: str, work: Callable[[TrainingBackend, str], Awaitable[None]]) -> None:
    """Open the backend of `--conn` and do the work with it and the user's name ("" where the connection has none)."""
    from siflow_provider.backends import make_backend

    settings = settings_of(conn)

    async def opened() -> None:
        async with make_backend(settings) as backend:
            await work(backend, settings.login)

    asyncio.run(opened())


async def find_run(backend: TrainingBackend, name: str, user: str) -> Status:
    """Return the newest run of that name or uid, if `user` may see it.

    Raises:
        UsageError: there is none; the nearest names are given.
        PartialAnswer: none was found, and not everybody was there to answer.
    """
    for status in (await answered(backend.find_named(name)))[0]:
        if status.visible_to(user):
            return status
    runs, silent = await _visible(backend, user)
    for status in runs:
        if status.ref.uid == name:
            return status
    if silent is not None:
        raise PartialAnswer(f"no run {name!r} was found, and there is {silent.message}", hint=silent.hint)
    names = [status.ref.name for status in runs]
    begun = [each for each in names if name and each.startswith(f"{name}-")]  # the form's prefix alone
    near = begun[:3] or difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names[:5]
    raise UsageError(
        f"there is no run {name!r} on this backend.",
        hint=f"Nearest: {', '.join(near)}." if near else "There are no runs at all: see `siflow-provider run --help`.",
    )


async def answered(asking: Awaitable[list[Status]]) -> tuple[list[Status], PartialAnswer | None]:
    """Return the runs that are told, and the error where not everybody answered."""
    try:
        return await asking, None
    except PartialAnswer as error:
        return list(error.found), error


async def _visible(backend: TrainingBackend, user: str) -> tuple[list[Status], PartialAnswer | None]:
    runs, silent = await answered(backend.runs())
    return [status for status in runs if status.visible_to(user)], silent


def ps(
    conn: ConnOption = DEFAULT_CONNECTION,
    all_: Annotated[bool, typer.Option("--all", help="Ended runs too.")] = False,
    json: JsonOption = False,
) -> None:
    """List runs, newest first: those that have not ended, or all."""

    async def work(backend: TrainingBackend, user: str) -> None:
        seen, silent = await _visible(backend, user)
        runs = [status for status in seen if all_ or not status.phase.terminal]
        now = datetime.now(UTC)
        if json:
            print_json([status_data(status, now) for status in runs])
        else:
            print_table(("name", "kind", "phase", "queued", "running", "why"), [_row(status, now) for status in runs])
        if silent is not None:
            raise silent

    _with_backend(conn, work)


def _row(status: Status, now: datetime) -> tuple[str, ...]:
    lengths = (f"{status.queued_seconds:.0f} s", f"{status.running_seconds(now):.0f} s")
    return status.ref.name, status.ref.kind, str(status.phase), *lengths, status.veil.over(_why(status))


def _why(status: Status) -> str:
    if status.failure is not None:
        return status.failure.summary
    if status.queue is not None and not status.phase.terminal and status.queue.position is not None:
        return status.queue.told()
    return status.reason


def show(name: NameArgument, conn: ConnOption = DEFAULT_CONNECTION, json: JsonOption = False) -> None:
    """Show one run: phase, times (in the form's time zone), replicas, events, failure."""

    async def work(backend: TrainingBackend, user: str) -> None:
        status = await find_run(backend, name, user)
        data = status_data(status, datetime.now(UTC))
        if json:
            print_json(data)
            return
        over, zone = status.veil.over, ZoneInfo(status.timezone)
        data |= {name: _local(getattr(status, name), zone) for name in MOMENTS}
        facts = ("name", "kind", "owner", "phase", "reason", "attempt", "task_uuid")
        totals = ("queued_seconds", "running_seconds", "gpu_hours", "stopped_by")
        fields = (*facts, *MOMENTS, *totals)
        print_table(("field", "value"), [(key, data[key]) for key in fields if data[key] not in (None, "")])
        print_table(
            ("replica", "phase", "node", "exit code", "reason"),
            [
                (replica.name, replica.phase, replica.node or "", _text(replica.exit_code), over(replica.reason))
                for replica in status.replicas
            ],
        )
        for event in status.events:
            write(f"{_local(event.time, zone)} {over(event.text)}\n")
        if status.failure is not None:
            write(over(status.failure.describe()) + "\n")

    _with_backend(conn, work)


def _local(moment: datetime | None, zone: ZoneInfo) -> str:
    """Return a moment for people, in the run's own time zone, to the second."""
    return "" if moment is None else moment.astimezone(zone).isoformat(" ", "seconds")


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def logs(
    name: NameArgument,
    conn: ConnOption = DEFAULT_CONNECTION,
    replica: Annotated[list[str] | None, typer.Option("--replica", help="Only this replica; may be repeated.")] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run has ended.")] = False,
) -> None:
    """Print a run's lines, of all replicas or of some, each with its replica's name; hidden values are masked."""
    from siflow_provider.core.pump import closing_stream

    selection: LogSelection = tuple(replica) if replica else "all"

    async def work(backend: TrainingBackend, user: str) -> None:
        status = await find_run(backend, name, user)
        async with closing_stream(backend.logs(status.ref, selection, LogCursor(), follow=follow)) as lines:
            async for line in lines:
                if not write(f"[{line.replica}] {status.veil.over(line.text)}\n"):
                    return

    _with_backend(conn, work)


def stop(name: NameArgument, conn: ConnOption = DEFAULT_CONNECTION) -> None:
    """Stop a run; one that has ended already is left as it is."""
    from siflow_provider.core.clocks import expiry_of_stop

    async def work(backend: TrainingBackend, user: str) -> None:
        status = await find_run(backend, name, user)
        await backend.stop(status.ref, by="siflow-provider stop")
        after = await backend.status(status.ref)
        if after.phase is Phase.STOPPED and expiry_of_stop(after.stopped_by) is None:
            await backend.finish(status.ref)  # of any other end its task may go on with a further attempt
        write(f"{name}: {after.phase}\n")

    _with_backend(conn, work)
