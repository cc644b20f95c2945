"""An Airflow connection -> the settings that a backend is opened with."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseHook

from siflow_provider.backends import make_backend
from siflow_provider.backends.settings import Settings
from siflow_provider.errors import BackendUnavailable, ConnectionMissing, SiflowError, UsageError
from siflow_provider.hooks.process import (
    NOT_FOUND,
    ais_surely_missing,
    is_surely_missing,
    mask,
    mask_now,
    name_process,
    read_connection,
    redacted,
)
from siflow_provider.spec.catalog import Catalog, load_catalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Connection

__all__ = ["DEFAULT_CONN_ID", "SiflowHook", "find_catalog", "installation"]

DEFAULT_CONN_ID = "siflow_default"
CatalogSource = Path | str | dict[str, Any]
"""A catalog file, its text, or its content."""

_told: set[str] = set()


class SiflowHook(BaseHook):
    """Reads a connection of type `siflow` (or `kubernetes` of the cncf provider).

    Args:
        siflow_conn_id: the connection's id. Without a connection named `siflow_default` this machine itself is used
            (backend `local`), unless `[siflow] local_without_connection` is off; any other id must exist.
        logger_name: as for every Airflow hook.

    Example:
        async with make_backend(await SiflowHook("siflow_default").asettings()) as backend: ...
    """

    conn_name_attr: ClassVar[str] = "siflow_conn_id"
    default_conn_name: ClassVar[str] = DEFAULT_CONN_ID
    conn_type: ClassVar[str] = "siflow"
    hook_name: ClassVar[str] = "SiFlow"

    def __init__(self, siflow_conn_id: str = DEFAULT_CONN_ID, *, logger_name: str | None = None) -> None:
        super().__init__(logger_name=logger_name)
        self.siflow_conn_id = siflow_conn_id
        self._settings: Settings | None = None

    def settings(self) -> Settings:
        """Return what the connection says, its secrets masked in the log. Blocks: not for an event loop.

        Raises:
            UsageError: there is no such connection, or its content is wrong; says how to mend it.
            BackendUnavailable: Airflow can't tell now.
        """
        if self._settings is None:
            try:
                found = self._parsed(BaseHook.get_connection(self.siflow_conn_id))
            except NOT_FOUND:
                found = self._without_connection(sure=is_surely_missing(self.siflow_conn_id))
            except PermissionError as error:
                raise self._denied(error) from None
            mask_now(found.secrets())
            self._settings = found
        return self._settings

    async def asettings(self, *, expected: str = "") -> Settings:
        """Return the same as `settings` without blocking the event loop.

        Args:
            expected: the backend that the worker found in the connection; a triggerer that finds another one (its
                environment lacks the connection) must not look for the run there.

        Raises:
            ConnectionMissing: there is no such connection; says how to mend it.
            UsageError: its content is wrong, or leads elsewhere.
            BackendUnavailable: Airflow can't tell now.
        """
        if self._settings is None:
            missing = False
            try:
                found = self._parsed(await read_connection(self.siflow_conn_id))
            except NOT_FOUND:
                found = self._without_connection(sure=await ais_surely_missing(self.siflow_conn_id))
                missing = True
            except PermissionError as error:
                raise self._denied(error) from None
            if expected and found.backend != expected:
                raise (ConnectionMissing if missing else UsageError)(  # and it is read anew the next time
                    f"connection {self.siflow_conn_id!r} leads to the backend {found.backend!r} in the "
                    f"{name_process()}, but the run is on {expected!r}.",
                    hint="Workers and triggerers must read the same connection: add it under Admin > Connections.",
                )
            await mask(found.secrets())
            self._settings = found
        return self._settings

    def catalog(self, override: CatalogSource | None = None) -> Catalog | None:
        """Return the catalog: `override`, else the connection's, else the one of `[siflow] catalog`. Blocks.

        Raises:
            UsageError: the connection can't be used.
            SpecError: the catalog is wrong; every problem of it at once.
        """
        return find_catalog(override, lambda: self.settings().catalog)

    def test_connection(self) -> tuple[bool, str]:
        """Open the backend and look at its runs; say whether that went well, and what was found or what to mend."""
        try:
            settings, catalog = self.settings(), self.catalog()
            with ThreadPoolExecutor(1) as pool:  # the caller's thread may have an event loop at work
                found = pool.submit(asyncio.run, _try_backend(settings)).result()
        except SiflowError as error:
            return False, str(error)
        except Exception as error:  # an answer on a form, whatever a client library raises
            return False, redacted(f"{type(error).__name__}: {error}")
        return True, found + ("" if catalog is None else "; the catalog is valid")

    @classmethod
    def get_connection_form_widgets(cls) -> dict[str, Any]:
        """Return the form's fields for Airflow 3.1; later ones read them from the provider info."""
        from wtforms import BooleanField, PasswordField, StringField  # type: ignore[import-untyped]  # none published

        from siflow_provider.provider_info import CONNECTION_FIELDS

        widgets = {}
        for name, field in CONNECTION_FIELDS.items():
            schema = field["schema"]
            secret = schema.get("format") == "password"
            kind = BooleanField if "boolean" in schema["type"] else PasswordField if secret else StringField
            widgets[name] = kind(field["label"], description=field["description"], default=schema.get("default"))
        return widgets

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return how Airflow 3.1 shows its own fields; later ones read it from the provider info."""
        from siflow_provider.provider_info import CONNECTION_FORM

        return {name.replace("-", "_"): value for name, value in CONNECTION_FORM.items()}

    def _parsed(self, connection: Connection) -> Settings:
        try:
            return Settings.from_connection(
                connection.conn_type or "siflow",
                host=connection.host,
                login=connection.login,
                password=connection.password,
                port=connection.port,
                schema=connection.schema,
                extra=connection.extra,
            )
        except UsageError as error:
            raise UsageError(f"connection {self.siflow_conn_id!r}: {error.message}", hint=error.hint) from None

    def _denied(self, error: PermissionError) -> UsageError:
        """Return our error for a connection that Airflow (3.3, by team) has and refuses to this task."""
        return UsageError(
            f"Airflow does not let this task read the connection {self.siflow_conn_id!r}: {redacted(str(error))}",
            hint="Name a connection of the task's own team, or have this one shared with it.",
        )

    def _without_connection(self, *, sure: bool) -> Settings:
        if not sure:
            # a cluster's training must not run here because Airflow's API had a hiccup
            raise BackendUnavailable(
                f"Airflow can't tell now whether there is a connection {self.siflow_conn_id!r}.",
                hint="Its API server or a secrets backend gave no answer; the task can be tried again.",
            )
        if self.siflow_conn_id != DEFAULT_CONN_ID or not _local_allowed():
            raise ConnectionMissing(
                f"there is no connection {self.siflow_conn_id!r} in the {name_process()}.",
                hint=(
                    f"Add it under Admin > Connections, or set AIRFLOW_CONN_{self.siflow_conn_id.upper()} for the "
                    'workers and the triggerer alike: {"conn_type": "siflow", "extra": {"backend": "local"}}'
                ),
            )
        if self.siflow_conn_id not in _told:
            _told.add(self.siflow_conn_id)
            self.log.info("no connection %r: runs use this machine (backend local)", self.siflow_conn_id)
        return Settings(backend="local")


def find_catalog(override: CatalogSource | None, of_connection: Callable[[], CatalogSource | None]) -> Catalog | None:
    """Return the catalog that counts; None when nobody names one. The connection is asked only when it has to be.

    Raises:
        SpecError: the catalog is wrong; every problem of it at once.
    """
    source = override if override is not None else of_connection()
    path = conf.get("siflow", "catalog", fallback="") if source is None else ""
    if path:
        source = Path(path)
    return load_catalog(source) if source is not None else None


def installation() -> str:
    """Return which Airflow this is, by `[siflow] installation`; "" where that is not said."""
    return str(conf.get("siflow", "installation", fallback="") or "").strip()


async def _try_backend(settings: Settings) -> str:
    async with make_backend(settings) as backend:
        count = len(await backend.runs())
    return f"backend {settings.backend} answers: {count} {'run' if count == 1 else 'runs'} of ours"


def _local_allowed() -> bool:
    return bool(conf.getboolean("siflow", "local_without_connection", fallback=True))
