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
    """Print a catalog drafted from a cluster: queues, instances, priorities, volumes. Comments say what to fill in."""
    write(asyncio.run(_discover(settings_of(conn), context)))


async def _discover(settings: Settings, context: str) -> str:
    if settings.backend != "kubernetes":
        raise UsageError(
            f"the backend {settings.backend!r} has nothing that a catalog could be drafted from.",
            hint="Choose a connection to a Kubernetes cluster with --conn.",
        )
    from siflow_provider.backends.kubernetes.queueing.discover import discover_catalog

    return await discover_catalog(settings, context)
