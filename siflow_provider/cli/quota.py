"""`quota`: the four answers to "can this task fit?", without submitting it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from siflow_provider.cli.connection import DEFAULT_CONNECTION, CatalogOption, ConnOption, JsonOption, settings_of
from siflow_provider.cli.forms import FileArgument
from siflow_provider.cli.output import print_json, print_table, write
from siflow_provider.cli.run import load_task
from siflow_provider.errors import BackendError

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings
    from siflow_provider.core.quota import Answer, QuotaReport
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["quota"]


def quota(
    file: FileArgument, conn: ConnOption = DEFAULT_CONNECTION, catalog: CatalogOption = None, json: JsonOption = False
) -> None:
    """Say whether a task fits, with the numbers. Exit code: 1 when it could never be admitted."""
    settings = settings_of(conn)
    report = asyncio.run(_ask(settings, load_task(file, settings, catalog)))
    if json:
        print_json({**asdict(report), "fits_now": report.fits_now, "never": report.never})
    else:
        _show(report)
    if report.never:
        raise typer.Exit(1)


def _show(report: QuotaReport) -> None:
    write(f"queue {report.queue}: {'fits now' if report.fits_now else report.why_not()}\n")
    answers: tuple[tuple[str, Answer], ...] = (
        ("your remaining quota", report.remaining),
        ("the pool now", report.available),
        ("idle in the cohort", report.idle),
        ("could ever be admitted", report.ever),
    )
    print_table(
        ("question", "answer", "numbers"),
        [(name, answer.verdict, "; ".join([answer.text, *map(str, answer.short)])) for name, answer in answers],
    )


async def _ask(settings: Settings, task: ResolvedTask) -> QuotaReport:
    """Return the answers of the listed instance that a submission would choose now."""
    from siflow_provider.backends import make_backend
    from siflow_provider.core.placement import ask_offers, choose

    async with make_backend(settings) as backend:
        offer = choose(await ask_offers(backend, task, idle=True))
    if offer.report is None:
        raise BackendError(f"quota is not known: {offer.trouble}")
    return offer.report
