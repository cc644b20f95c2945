"""`@task.pytorch_job` and `@task.ray_job`: a function that returns the command of a training job."""

from __future__ import annotations

from siflow_provider.decorators.training import pytorch_job_task, ray_job_task

__all__ = ["pytorch_job_task", "ray_job_task"]
