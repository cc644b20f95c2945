"""Operators: training jobs as Airflow tasks."""

from __future__ import annotations

from siflow_provider.operators.pytorch import PyTorchJobOperator
from siflow_provider.operators.ray import RayJobOperator

__all__ = ["PyTorchJobOperator", "RayJobOperator"]
