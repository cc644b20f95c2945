"""What a backend is opened with: a connection's content, read without Airflow.

Backends take this model and never an Airflow Connection: the CLI, the bench and most tests start without Airflow.
`backends.connection` turns a connection's text into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from siflow_provider.spec.duration import parse_duration
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.resolve import Defaults

__all__ = ["BackendName", "Settings", "parse_connection"]

_SHORTEST_TTL = 600.0

BackendName = Literal["local", "kubernetes", "platform"]


class Settings(BaseModel):
    """The content of a connection (type `siflow`, or `kubernetes` of the cncf provider).

    Attributes:
        backend: which backend serves it.
        catalog: path of a catalog file, the catalog's own YAML text, or the catalog as a mapping.
        region, cluster, project_group, default_queue: defaults for tasks that don't say.
        login: `X_USER_NAME`; the access key id on the platform.
        password: the platform's secret.
        host: the platform's base URL.
        state_dir: where `local` keeps its state; None = `SIFLOW_LOCAL_STATE_DIR`, else the user's data folder.
        elastic_jobs, training_api: Kubernetes, as docs/howto/connections.md says.
        ttl_seconds_after_finished: Kubernetes: after how long the cluster removes an ended PyTorchJob; `never` = None.
        kubernetes: the cncf provider's own options by their bare names; `kube_config` is a `Hidden`.
        body_overrides, api_overrides, proxy: the platform's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    backend: BackendName = "local"
    catalog: str | dict[str, Any] | None = None
    region: str | None = None
    cluster: str | None = None
    project_group: str | None = None
    default_queue: str | None = None
    login: str = ""
    password: Hidden | None = None
    host: str = ""
    state_dir: str | None = None
    elastic_jobs: bool = False
    training_api: Literal["auto", "pytorchjob", "trainjob"] = "auto"
    ttl_seconds_after_finished: float | None = 7 * 86400.0
    kubernetes: dict[str, Any] = Field(default_factory=dict)
    body_overrides: dict[str, Any] = Field(default_factory=dict, repr=False)
    api_overrides: dict[str, Any] = Field(default_factory=dict, repr=False)
    proxy: str | None = Field(default=None, repr=False)

    @classmethod
    def from_connection(
        cls,
        conn_type: str,
        *,
        host: str | None = None,
        login: str | None = None,
        password: str | None = None,
        port: int | None = None,
        schema: str | None = None,
        extra: str | Mapping[str, Any] | None = None,
    ) -> Settings:
        """Read a connection's fields as Airflow keeps them.

        Args:
            conn_type: `siflow`, or `kubernetes` for a connection of the cncf provider.
            host: the platform's base URL; a bare host name stands for `https://`.
            login: user name, or access key id.
            password: the platform's secret.
            port: appended to the host.
            schema: a path below the host.
            extra: JSON text or a mapping.

        Raises:
            UsageError: another type, an unknown key (with the nearest known one) or a value of the wrong kind.

        Example:
            >>> Settings.from_connection("kubernetes", extra={"namespace": "ml"}).kubernetes
            {'namespace': 'ml'}
        """
        from siflow_provider.backends.connection import read_connection

        return read_connection(
            conn_type, host=host, login=login, password=password, port=port, schema=schema, extra=extra
        )

    @field_validator("ttl_seconds_after_finished", mode="before")
    @classmethod
    def _read_ttl(cls, value: object) -> float | None:
        if value in (None, "never"):
            return None
        seconds = parse_duration(value)
        if seconds < _SHORTEST_TTL:
            raise ValueError(
                "an ended job stays 10 minutes at least, so that its last lines and results are read; `never` keeps it"
            )
        return seconds

    def defaults(self, *, timezone: str | None = None) -> Defaults:
        """Return the connection's part of a task's defaults; `timezone` is the DAG's."""
        return Defaults(
            region=self.region,
            cluster=self.cluster,
            project_group=self.project_group,
            default_queue=self.default_queue,
            timezone=timezone,
            ttl_seconds_after_finished=self.ttl_seconds_after_finished,
        )

    def secrets(self) -> tuple[str, ...]:
        """Return every text that must not reach a log: password, proxy login, credentials of an inline kubeconfig."""
        from siflow_provider.backends.connection import find_secrets

        return find_secrets(self)


def parse_connection(text: str) -> Settings:
    """Read a connection as `AIRFLOW_CONN_*` holds it: a URI or a JSON object.

    Raises:
        UsageError: it is neither, or its content is wrong; the message never repeats the text, which may hold secrets.

    Example:
        >>> parse_connection("siflow://?backend=local").backend
        'local'
    """
    from siflow_provider.backends.connection import parse_text

    return parse_text(text)
