"""`run`: submit a form and follow it to its end, as the operator does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siflow_provider.cli.connection import DEFAULT_CONNECTION, CatalogOption, ConnOption, JsonOption, settings_of
from siflow_provider.cli.forms import FileArgument, load_catalog_option
from siflow_provider.cli.output import print_json
from siflow_provider.cli.stopper import GaveUp, Stopper
from siflow_provider.cli.terminal import TerminalReporter
from siflow_provider.errors import UsageError

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings
    from siflow_provider.core.launch import QuotaPolicy
    from siflow_provider.core.outcome import RunEnd
    from siflow_provider.core.status import LogSelection
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["load_task", "run"]

EXIT_CODES = {"succeeded": 0, "failed": 1, "lost": 1, "stopped": 3}
LOGS = ("master", "all", "none")
QUOTA = ("require", "warn", "ignore")
LogsOption = Annotated[str, typer.Option("--logs", help="Whose lines to show: master, all or none.")]
QuotaOption = Annotated[
    str, typer.Option("--quota", help="A task that can never be admitted: require (refuse), warn or ignore.")
]


def run(
    file: FileArgument,
    *,
    conn: ConnOption = DEFAULT_CONNECTION,
    catalog: CatalogOption = None,
    logs: LogsOption = "master",
    quota: QuotaOption = "require",
    json: JsonOption = False,
) -> None:
    """Run a task form and follow it. Ctrl-C stops the run. Exit code: 0 succeeded, 1 failed or lost, 3 stopped."""
    selection: LogSelection = _chosen("--logs", logs, LOGS)
    policy: QuotaPolicy = _chosen("--quota", quota, QUOTA)
    settings = settings_of(conn)
    task = load_task(file, settings, catalog)
    try:
        end = asyncio.run(_follow(settings, task, "none" if json else selection, policy))
    except GaveUp:
        raise typer.Exit(EXIT_CODES["stopped"]) from None
    outcome = end.outcome
    if json:
        print_json(end.summary())
    elif outcome.failure is not None:
        sys.stderr.write(outcome.failure.describe() + "\n")
    raise typer.Exit(EXIT_CODES[str(outcome.kind)])


def load_task(file: Path, settings: Settings, catalog: str | None) -> ResolvedTask:
    """Return the form of a file with all its names looked up; unrendered templates are refused by name."""
    from siflow_provider.spec.catalog import load_catalog
    from siflow_provider.spec.reading import load
    from siflow_provider.spec.resolve import resolve

    known = load_catalog_option(catalog)
    if known is None and settings.catalog is not None:
        known = load_catalog(settings.catalog)
    return resolve(load(file, catalog=known), known, settings.defaults(), user=settings.login)


def _chosen(option: str, value: str, choices: Sequence[str]) -> Any:
    if value in choices:
        return value
    raise UsageError(f"{option} {value!r} is not known.", hint=f"Choose {', '.join(choices[:-1])} or {choices[-1]}.")


async def _follow(settings: Settings, task: ResolvedTask, selection: LogSelection, quota: QuotaPolicy) -> RunEnd:
    from siflow_provider.backends import make_backend
    from siflow_provider.core.identity import Identity
    from siflow_provider.core.outcome import RunEnd
    from siflow_provider.core.policy import follow_policy
    from siflow_provider.core.protocol import RenderContext
    from siflow_provider.core.run import run as run_to_end
    from siflow_provider.core.veil import Veil

    veil = Veil.of(value.reveal() for value in task.hidden.values())
    policy = follow_policy(task, logs=selection, deadline=None)
    reporter = TerminalReporter(veil, timezone=policy.timezone)
    context = RenderContext(identity=Identity.random(), user_name=settings.login)
    async with make_backend(settings) as backend:
        stopper = Stopper(backend, reporter)
        async with stopper:
            end = await run_to_end(
                backend,
                task,
                context,
                policy,
                reporter,
                quota=quota,
                on_ref=stopper.take,
                stop_asked=stopper.asked,
            )
    return RunEnd(veil.over_outcome(end.outcome), end.totals)
