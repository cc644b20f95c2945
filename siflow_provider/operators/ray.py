"""`RayJobOperator`: a Ray cluster and one command run on it, as an Airflow task."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

from siflow_provider.hooks.siflow import DEFAULT_CONN_ID
from siflow_provider.operators.arguments import (
    AirflowArguments,
    Alerts,
    ComputeValue,
    Datasets,
    Duration,
    Env,
    FaultToleranceValue,
    Flag,
    Image,
    Integer,
    KillAction,
    KubernetesValue,
    Labels,
    Logs,
    Models,
    MonitoringValue,
    QuotaPolicy,
    Ray,
    Spec,
    Text,
    Volumes,
)
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
        region: Text | None = None, cluster: Text | None = None, project_group: Text | None = None,
        name_prefix: Text | None = None, visible_in_group: Flag | None = None, timezone: Text | None = None,
        labels: Labels | None = None, image: Image | None = None, env: Env | None = None,
        volumes: Volumes | None = None, datasets: Datasets | None = None, models: Models | None = None,
        command: Text | None = None, shm_size: Text | None = None, compute: ComputeValue | None = None,
        workers: Integer | None = None, priority: Text | None = None, queue_timeout: Duration | None = None,
        start_timeout: Duration | None = None, fault_tolerance: FaultToleranceValue | None = None,
        monitoring: MonitoringValue | None = None, image_pull_retries: Integer | None = None,
        ssh: Flag | None = None, alerts: Alerts | None = None, kubernetes: KubernetesValue | None = None,
        ray: Ray | None = None,
        spec: Spec | None = None, conn_id: str = DEFAULT_CONN_ID, catalog: str | None = None, deferrable: bool = True,
        logs: Logs = "master", on_kill_action: KillAction = "stop", quota: QuotaPolicy = "require",
        **kwargs: Unpack[AirflowArguments],
    ) -> None:  # fmt: skip
        arguments = dict(locals())  # exactly the keywords above: the first statement
        super().__init__(**kwargs)
        self._take(arguments, dict(kwargs))
