"""The buttons on a task instance: the job, its logs, its dashboard.

The worker works the links out at the end of each leg and Airflow stores them; the UI shows what is stored. So a link's
own XCom key is written early, when the job is known, and `get_link` reads another key: Airflow overwrites the former
with what `get_link` returns (source: task-sdk 1.3.2 `execution_time/task_runner.py`, finalize).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import BaseOperator

__all__ = ["LINKS", "LINKS_KEY", "DashboardLink", "JobLink", "LogsLink", "link_xcoms"]

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


LINKS: tuple[_Link, ...] = (JobLink(), LogsLink(), DashboardLink())


def link_xcoms(links: Mapping[str, str]) -> dict[str, Any]:
    """Return all XComs that make the links show: key -> value."""
    out: dict[str, Any] = {LINKS_KEY: dict(links)}
    out.update({link.xcom_key: links[link.which] for link in LINKS if links.get(link.which)})
    return out
