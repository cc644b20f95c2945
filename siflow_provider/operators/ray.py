"""`RayJobOperator`: a Ray cluster and one command run on it, as an Airflow task."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

from siflow_provider.hooks.siflow import DEFAULT_CONN_ID
from siflow_provider.operators import arguments as of
from siflow_provider.operators.form import form_fields
from siflow_provider.operators.task import SiflowTaskOperator
from siflow_provider.spec.task import RayJob

__all__ = ["RayJobOperator"]


class RayJobOperator(SiflowTaskOperator):
    """Run a RayJob: a head and `workers` workers, and `command` as the Ray entrypoint.

    The keywords are those of `PyTorchJobOperator`, and `ray`: the section that only a RayJob has.

    Example:
        RayJobOperator(
            task_id="tune",
            image="registry.example/ray:2.60",
            command="python main.py --trials 64",
            compute={"type": "spot", "instances": ["gpu.a100-8"]},
            workers=4,
            ray={"autoscaling": {"min_workers": 2, "max_workers": 8}},
        )
    """

    model: ClassVar[type[RayJob]] = RayJob
    template_fields = (*form_fields(RayJob), "spec")
    ray: Any

    def __init__(
        self, *,
        region: of.Text | None = None, cluster: of.Text | None = None, project_group: of.Text | None = None,
        name_prefix: of.Text | None = None, visible_in_group: of.Flag | None = None, timezone: of.Text | None = None,
        labels: of.Labels | None = None, image: of.Image | None = None, env: of.Env | None = None,
        volumes: of.Volumes | None = None, datasets: of.Datasets | None = None, models: of.Models | None = None,
        command: of.Text | None = None, shm_size: of.Quantity | None = None, compute: of.ComputeValue | None = None,
        workers: of.Integer | None = None, priority: of.Text | None = None, queue_timeout: of.Duration | None = None,
        start_timeout: of.Duration | None = None, fault_tolerance: of.FaultToleranceValue | None = None,
        monitoring: of.MonitoringValue | None = None, image_pull_retries: of.Integer | None = None,
        ssh: of.Flag | None = None, alerts: of.Alerts | None = None, kubernetes: of.KubernetesValue | None = None,
        ray: of.Ray | None = None,
        spec: of.Spec | None = None, conn_id: str = DEFAULT_CONN_ID, catalog: str | None = None,
        deferrable: bool = True, logs: of.Logs = "master", on_kill_action: of.KillAction = "stop",
        quota: of.QuotaPolicy = "require",
        **kwargs: Unpack[of.AirflowArguments],
    ) -> None:  # fmt: skip
        arguments = dict(locals())  # exactly the keywords above: the first statement
        super().__init__(**kwargs)
        self._take(arguments, dict(kwargs))
