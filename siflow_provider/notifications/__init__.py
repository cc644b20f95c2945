"""Notifiers: messages about training jobs for Airflow's callbacks."""

from __future__ import annotations

from siflow_provider.notifications.training import TrainingNotifier

__all__ = ["TrainingNotifier"]
