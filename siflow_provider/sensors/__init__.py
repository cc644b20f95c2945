"""Sensors: wait for room, or for a run."""

from __future__ import annotations

from siflow_provider.sensors.quota import QuotaSensor
from siflow_provider.sensors.training_job import TrainingJobSensor

__all__ = ["QuotaSensor", "TrainingJobSensor"]
