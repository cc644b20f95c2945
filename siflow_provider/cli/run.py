"""`run`: submit a form and follow it to its end, as the operator does."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from siflow_provider.cli.connection import DEFAULT_CONNECTION, CatalogOption, ConnOption, JsonOption, settings_of
from siflow_provider.cli.forms import FileArgument, load_catalog_option
from siflow_provider.cli.output import print_json
from siflow_provider.cli.terminal import TerminalReporter
from siflow_provider.errors import UsageError

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings
    from siflow_provider.core.protocol import TrainingBackend
    from siflow_provider.core.run import RunEnd
    from siflow_provider.core.status import JobRef
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["load_task", "run"]

EXIT_CODES = {"succeeded": 0, "failed": 1, "lost": 1, "stopped": 3}
LogsOption = Annotated[str, typer.Option("--logs", help="Whose lines to show: master, all or none.")]


def run(
    file: FileArgument,
    conn: ConnOption = DEFAULT_CONNECTION,
    catalog: CatalogOption = None,
    logs: LogsOption = "master",
    json: JsonOption = False,
) -> None:
    """Run a task form and follow it. Ctrl-C stops the run. Exit code: 0 succeeded, 1 failed or lost, 3 stopped."""
    selection = _selection(logs)
    settings = settings_of(conn)
    task = load_task(file, settings, catalog)
    end = asyncio.run(_follow(settings, task, selection, quiet=json))
    outcome = end.outcome
    if json:
        print_json(end.summary())
    elif outcome.failure is not None:
        sys.stderr.write(outcome.failure.describe() + "\n")
    raise typer.Exit(EXIT_CODES[str(outcome.kind)])


def load_task(file: Path, settings: Settings, catalog: str | None) -> ResolvedTask:
    """Return the form of a file with all its names looked up; unrendered templates are refused by name."""
    from siflow_provider.spec.catalog import load_catalog
    from siflow_provider.spec.load import load
    from siflow_provider.spec.resolve import resolve

    known = load_catalog_option(catalog)
    if known is None and settings.catalog is not None:
        known = load_catalog(settings.catalog)
    return resolve(load(file, catalog=known), known, settings.defaults(), user=settings.login)


def _selection(logs: str) -> Literal["master", "all", "none"]:
    if logs in ("master", "all", "none"):
        return logs  # type: ignore[return-value]  # the test above is what the type says
    raise UsageError(f"--logs {logs!r} is not known.", hint="Choose master, all or none.")


async def _follow(
    settings: Settings, task: ResolvedTask, selection: Literal["master", "all", "none"], *, quiet: bool
) -> RunEnd:
    from siflow_provider.backends import make_backend
    from siflow_provider.core.identity import Identity
    from siflow_provider.core.policy import follow_policy
    from siflow_provider.core.protocol import RenderContext
    from siflow_provider.core.run import RunEnd
    from siflow_provider.core.run import run as run_to_end
    from siflow_provider.core.veil import Veil

    veil = Veil.of(value.reveal() for value in task.hidden.values())
    policy = follow_policy(task, logs="none" if quiet else selection, deadline=None)
    reporter = TerminalReporter(veil, timezone=policy.timezone)
    context = RenderContext(identity=Identity.random(), user_name=settings.login)
    async with make_backend(settings) as backend:
        stopper = Stopper(backend, reporter)
        with stopper.on_signals():
            end = await run_to_end(backend, task, context, policy, reporter, quota="require", on_ref=stopper.take)
    return RunEnd(veil.over_outcome(end.outcome), end.totals)


class Stopper:
    """Turns Ctrl-C into a stop of the run; the follower then sees the end and reports it as any other."""

    def __init__(self, backend: TrainingBackend, reporter: TerminalReporter) -> None:
        self._backend, self._reporter = backend, reporter
        self._ref: JobRef | None = None
        self._asked = False
        self._tasks: set[asyncio.Task[bool]] = set()

    def take(self, ref: JobRef) -> None:
        """Remember the attempt that a stop would end; end it at once when the stop came first."""
        self._ref = ref
        if self._asked:
            self._stop()

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Stop the run on SIGINT and SIGTERM while the block runs."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._ask)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _ask(self) -> None:
        self._asked = True
        sys.stderr.write("stopping the run\n")
        if self._ref is not None:
            self._stop()

    def _stop(self) -> None:
        from siflow_provider.core.expiry import stop_run

        if self._ref is None:
            return
        # the loop keeps only weak references to tasks
        task = asyncio.ensure_future(stop_run(self._backend, self._ref, self._reporter, by="Ctrl-C"))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
