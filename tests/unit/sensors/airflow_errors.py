"""Airflow's own exceptions, from where the version at hand keeps them."""

from __future__ import annotations

try:
    from airflow.sdk.exceptions import AirflowRescheduleException, AirflowSensorTimeout, TaskDeferralError, TaskDeferred
except ImportError:  # before Airflow 3.2
    from airflow.exceptions import (  # type: ignore[no-redef]
        AirflowRescheduleException,
        AirflowSensorTimeout,
        TaskDeferralError,
        TaskDeferred,
    )

__all__ = ["AirflowRescheduleException", "AirflowSensorTimeout", "TaskDeferralError", "TaskDeferred"]
