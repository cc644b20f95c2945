"""What Airflow's provider manager reads. Loaded by every `airflow` command: imports nothing."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description (source: Airflow 3.3.2 `airflow/provider_info.schema.json`)."""
    return {
        "package-name": "airflow-provider-siflow",
        "name": "SiFlow",
        "description": "AI training jobs: PyTorchJob and RayJob as tasks that wait deferred.",
    }
