"""What a backend is opened with: a connection's content, read without Airflow.

Backends take this model and never an Airflow Connection: the CLI, the bench and most tests start without Airflow.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.resolve import Defaults

__all__ = ["BackendName", "Settings"]

BackendName = Literal["local", "kubernetes", "platform"]


class Settings(BaseModel):
    """The content of a connection (type `siflow`, or `kubernetes` of the cncf provider).

    Attributes:
        backend: which backend serves it.
        catalog: path of a catalog file, or the catalog itself as a mapping.
        region, cluster, project_group, default_queue: defaults for tasks that don't say.
        login: `X_USER_NAME`; the access key id on the platform.
        password: the platform's secret.
        host: the platform's base URL.
        state_dir: where `local` keeps its state; None = `SIFLOW_LOCAL_STATE_DIR`, else the user's data folder.
        elastic_jobs, training_api: Kubernetes, as design says.
        kubernetes: the cncf provider's own options, untouched.
        body_overrides, proxy: the platform's.
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
    kubernetes: dict[str, Any] = Field(default_factory=dict)
    body_overrides: dict[str, Any] = Field(default_factory=dict)
    proxy: str | None = None

    def defaults(self, *, timezone: str | None = None) -> Defaults:
        """Return the connection's part of a task's defaults; `timezone` is the DAG's."""
        return Defaults(
            region=self.region,
            cluster=self.cluster,
            project_group=self.project_group,
            default_queue=self.default_queue,
            timezone=timezone,
        )
