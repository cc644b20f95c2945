"""`catalog discover`: a draft of a catalog from what a backend has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from siflow_provider.cli.connection import DEFAULT_CONNECTION, ConnOption, settings_of
from siflow_provider.cli.output import write
from siflow_provider.errors import UsageError

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings

__all__ = ["catalog_discover"]


def catalog_discover(
    conn: ConnOption = DEFAULT_CONNECTION,
    context: Annotated[str, typer.Option("--context", help="kubeconfig context; default: the connection's own.")] = "",
) -> None:
    """Print a catalog drafted from a cluster or the platform. Comments say what to fill in."""
    write(asyncio.run(_discover(settings_of(conn), context)))


async def _discover(settings: Settings, context: str) -> str:
    match settings.backend:
        case "kubernetes":
            from siflow_provider.backends.kubernetes.queueing.discover import discover_catalog

            return await discover_catalog(settings, context)
        case "platform":
            from siflow_provider.backends.platform.discover import discover
            from siflow_provider.spec.writing import write_yaml

            draft, notes = await discover(settings)
            return "".join(f"# {note}\n" for note in notes) + write_yaml(draft)
    raise UsageError(
        f"the backend {settings.backend!r} has nothing that a catalog could be drafted from.",
        hint="Choose a connection to a cluster or to the platform with --conn.",
    )
