"""Connections of the code under test to a control plane."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from siflow_provider.backends.settings import Settings

__all__ = ["config_map", "settings_for"]


def settings_for(kubeconfig: Path, **options: Any) -> Settings:
    """Return a connection that logs in with a kubeconfig file."""
    return Settings(backend="kubernetes", kubernetes={"kube_config_path": str(kubeconfig), **options})


def config_map(name: str, **data: str) -> dict[str, Any]:
    """Return a ConfigMap: the smallest object there is."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
