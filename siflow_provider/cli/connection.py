"""Which backend a command talks to: `--conn` as a URI, JSON or an Airflow connection id."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from siflow_provider.backends.settings import Settings, parse_connection
from siflow_provider.errors import UsageError
from siflow_provider.spec.paths import expanded

__all__ = ["DEFAULT_CONNECTION", "CatalogOption", "ConnOption", "JsonOption", "is_text", "settings_of"]

DEFAULT_CONNECTION = "siflow_default"
_STORE_VARIABLES = ("AIRFLOW__DATABASE__", "AIRFLOW__SECRETS__")

ConnOption = Annotated[str, typer.Option("--conn", help="Connection: a URI, JSON or an Airflow connection id.")]
CatalogOption = Annotated[str | None, typer.Option("--catalog", help="Catalog file; wins over the connection's.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def is_text(conn: str) -> bool:
    """Say whether `--conn` is a connection itself (a URI or JSON), and no id of one."""
    text = conn.strip()
    return text.startswith("{") or "://" in text


def settings_of(conn: str) -> Settings:
    """Return the settings behind `--conn`.

    A URI or JSON is read as it stands; an id is looked for in `AIRFLOW_CONN_<ID>`, then (which loads Airflow) in
    Airflow's own store. The default id, found nowhere, means the embedded backend.

    Raises:
        UsageError: no such connection, or its content is wrong.
    """
    text = conn.strip()
    if is_text(text):
        return parse_connection(text)
    from_environment = os.environ.get(f"AIRFLOW_CONN_{text.upper()}")
    if from_environment:
        return parse_connection(from_environment)
    if text == DEFAULT_CONNECTION and not _has_airflow_config():
        return Settings()
    return _stored(text)


def _has_airflow_config() -> bool:
    """Say whether this machine has an Airflow configuration, so that its store is worth the time to load it.

    Looked for where Airflow looks, without loading it; in containers the environment often is the configuration.
    source: airflow.configuration, get_airflow_home and get_airflow_config (3.1 to 3.3).
    """
    home = os.environ.get("AIRFLOW_HOME", "~/airflow")
    file = os.environ.get("AIRFLOW_CONFIG", f"{home}/airflow.cfg")
    found = expanded(os.path.expandvars(file)).exists()
    return found or any(name.startswith(_STORE_VARIABLES) for name in os.environ)


def _stored(conn_id: str) -> Settings:
    with redirect_stdout(sys.stderr):  # where Airflow is not set up, its lines would stand in the command's own output
        try:
            from siflow_provider.hooks.siflow import SiflowHook
        except ImportError as error:
            raise UsageError(
                f"connection {conn_id!r} is not in the environment, and Airflow can't be loaded to look for it.",
                hint=f"Set AIRFLOW_CONN_{conn_id.upper()} to a URI or JSON.",
            ) from error
        return SiflowHook(conn_id).settings()
