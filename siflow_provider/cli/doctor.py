"""`doctor`: what works here and what does not, each with its mend."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from siflow_provider.cli.connection import (
    DEFAULT_CONNECTION,
    CatalogOption,
    ConnOption,
    JsonOption,
    is_text,
    settings_of,
)
from siflow_provider.cli.output import print_json, print_table
from siflow_provider.core.checkup import Check
from siflow_provider.errors import SiflowError

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings

__all__ = ["doctor"]


def doctor(conn: ConnOption = DEFAULT_CONNECTION, catalog: CatalogOption = None, json: JsonOption = False) -> None:
    """Check connection, backend, catalog and optional packages. Exit code 1 when something is broken."""
    findings = list(_examine(conn, catalog))
    if json:
        print_json([asdict(finding) for finding in findings])
    else:
        print_table(
            ("", "what", "found", "mend"),
            [(_word(one), one.name, one.found, "" if one.ok else one.mend) for one in findings],
        )
    if any(not finding.ok and finding.needed for finding in findings):
        raise typer.Exit(1)


def _word(finding: Check) -> str:
    if finding.ok:
        return "ok"
    return "fail" if finding.needed else "warn"


def _examine(conn: str, catalog: str | None) -> Iterator[Check]:
    yield _package("apache-airflow", "install Airflow 3.1 or later beside this package")
    try:
        settings = settings_of(conn)
    except SiflowError as error:
        yield Check("connection", False, error.message, error.hint or f"correct {_source(conn)}")
        return
    yield Check("connection", True, f"backend {settings.backend}")
    checked = _catalog(settings, catalog)
    yield checked
    if catalog and checked.ok:
        settings = settings.model_copy(update={"catalog": catalog})
    yield from asyncio.run(_backend(settings))
    if settings.backend == "local":
        yield from _local()


def _source(conn: str) -> str:
    """Say where a connection's content stands."""
    if is_text(conn):
        return "the text given with --conn"
    variable = f"AIRFLOW_CONN_{conn.upper()}"
    return f"{variable} in the environment" if variable in os.environ else f"the connection {conn!r} in Airflow"


def _package(name: str, mend: str, *, needed: bool = True) -> Check:
    try:
        return Check(name, True, version(name), needed=needed)
    except PackageNotFoundError:
        return Check(name, False, "not installed", mend, needed)


def _catalog(settings: Settings, option: str | None) -> Check:
    from siflow_provider.spec.catalog import load_catalog
    from siflow_provider.spec.document import is_file_name

    source = Path(option) if option else settings.catalog
    if source is None:
        return Check("catalog", True, "none: image URLs, pvc:NAME volumes and in-place instances only")
    try:
        load_catalog(source)
    except SiflowError as error:
        return Check("catalog", False, str(error), "siflow-provider catalog check FILE shows each problem")
    is_file = isinstance(source, Path) or (isinstance(source, str) and is_file_name(source))
    return Check("catalog", True, str(source) if is_file else "in the connection")


async def _backend(settings: Settings) -> list[Check]:
    """Return what the backend itself looks at; for one without such checks, whether it answers."""
    if settings.backend == "kubernetes":
        from siflow_provider.backends.kubernetes.checkup.examine import check_kubernetes

        return await check_kubernetes(settings)
    if settings.backend == "platform":
        from siflow_provider.backends.platform.checks import check_platform

        return [await _answers(settings), *await check_platform(settings)]
    from siflow_provider.backends.local.checks import check_local

    return [await _answers(settings), *await check_local(settings)]


async def _answers(settings: Settings) -> Check:
    from siflow_provider.backends import make_backend

    try:
        async with make_backend(settings) as backend:
            count = len(await backend.runs())
    except SiflowError as error:
        return Check(f"backend {settings.backend}", False, error.message, error.hint)
    return Check(f"backend {settings.backend}", True, f"answers; runs known: {count}")


def _local() -> Iterator[Check]:
    from siflow_provider.backends.local.stacks import find_py_spy

    yield Check(
        "Linux", sys.platform == "linux", sys.platform, "the embedded backend needs Linux: use a cluster connection"
    )
    yield _package("ray", 'pip install "airflow-provider-siflow[ray]" (for RayJob)', needed=False)
    yield _package("torch", "pip install torch (for PyTorchJob)", needed=False)
    where = find_py_spy()
    yield Check(
        "py-spy", where is not None, where or "not installed", "pip install py-spy (stack dumps of hangs)", False
    )
