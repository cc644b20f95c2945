"""The buttons on a task instance: the job, its logs, its dashboard, its metrics.

The worker works the links out at the end of each leg and Airflow stores them; the UI shows what is stored. So whoever
follows the run writes a link's own XCom key as soon as the backend tells it (a Ray cluster has a dashboard once it is
up, and none once it is gone), and `get_link` reads another key: Airflow overwrites the former with what `get_link`
returns (source: task-sdk 1.3.2 `execution_time/task_runner.py`, finalize).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import BaseOperator

__all__ = ["LINKS", "LINKS_KEY", "DashboardLink", "JobLink", "LogsLink", "MetricsLink", "link_xcoms"]

LINKS_KEY = "siflow_links"
"""XCom: link name -> URL, as the backend gave them."""


class _Link(BaseOperatorLink):
    """A link that the backend gave, by its name."""

    which: ClassVar[str]

    @property
    def xcom_key(self) -> str:
        """Where Airflow looks for the URL."""
        return f"siflow_link_{self.which}"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Return the URL; "" when the backend has none."""
        links = XCom.get_value(ti_key=ti_key, key=LINKS_KEY)
        return str(links.get(self.which, "")) if isinstance(links, dict) else ""


class JobLink(_Link):
    """The job itself."""

    name = "Job"
    which = "job"


class LogsLink(_Link):
    """The logs of all replicas."""

    name = "Logs"
    which = "logs"


class DashboardLink(_Link):
    """The job's own dashboard, such as Ray's or Grafana's."""

    name = "Dashboard"
    which = "dashboard"


class MetricsLink(_Link):
    """Where the training serves the metrics that the form's `monitoring` names."""

    name = "Metrics"
    which = "metrics"


LINKS: tuple[_Link, ...] = (JobLink(), LogsLink(), DashboardLink(), MetricsLink())


def link_xcoms(links: Mapping[str, str], *, before: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """Return all XComs that make the links show: key -> value.

    Args:
        links: name -> URL, as they are now.
        before: those that were shown until now; what is gone shows no more.
    """
    out: dict[str, Any] = {LINKS_KEY: dict(links)}
    out.update({link.xcom_key: links.get(link.which, "") for link in LINKS if link.which in {*links, *before}})
    return out
