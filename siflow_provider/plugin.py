"""What the provider adds to Airflow beside operators. Imported by every component: loads the links and nothing else."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from siflow_provider.links import LINKS

__all__ = ["SiflowPlugin"]


class SiflowPlugin(AirflowPlugin):
    """Registers the operators' links, so that a DAG stored in the database shows them whatever version reads it."""

    name = "siflow"
    operator_extra_links: list[Any] = list(LINKS)
