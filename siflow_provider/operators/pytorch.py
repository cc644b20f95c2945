"""`PyTorchJobOperator`: a gang of torch processes as an Airflow task."""

from __future__ import annotations

from typing import ClassVar, Unpack

from siflow_provider.hooks.siflow import DEFAULT_CONN_ID
from siflow_provider.operators import arguments as of
from siflow_provider.operators.form import form_fields
from siflow_provider.operators.task import SiflowTaskOperator
from siflow_provider.spec.task import PyTorchJob

__all__ = ["PyTorchJobOperator"]


class PyTorchJobOperator(SiflowTaskOperator):
    """Run a PyTorchJob: one master and `workers` workers that meet by torch's rendezvous.

    Every field of the task form is a keyword, may hold a template or another task's output anywhere, and is checked
    when the DAG file is read, as far as it is known then.

    Args:
        image, command, compute: needed, here or in `spec`.
        region: and every other form field: see the task form.
        spec: a task file, YAML text, a mapping or a `PyTorchJob` to start from; keywords win.
        conn_id: the Airflow connection that says where the job runs.
        catalog: path of a catalog file, instead of the connection's.
        deferrable: wait in the triggerer; False waits in the worker.
        logs: whose lines the task log shows: `master`, `all`, `none` or names of replicas.
        on_kill_action: `stop` ends the job when the Airflow task is killed, `detach` leaves it.
        quota: `require` fails a task that can never be admitted, `warn` says so, `ignore` doesn't ask.
        kwargs: every keyword of an Airflow operator. `execution_timeout` covers the whole try, deferred time included.

    Example:
        PyTorchJobOperator(
            task_id="train",
            image="registry.example/train:1",
            command="torchrun --nnodes $WORLD_SIZE --node_rank $RANK train.py --lr {{ params.lr }}",
            compute={"type": "on_demand", "instances": ["gpu.h100-8"]},
            workers=3,
        )
    """

    model: ClassVar[type[PyTorchJob]] = PyTorchJob
    template_fields = (*form_fields(PyTorchJob), "spec")

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
        spec: of.Spec | None = None, conn_id: str = DEFAULT_CONN_ID, catalog: str | None = None,
        deferrable: bool = True, logs: of.Logs = "master", on_kill_action: of.KillAction = "stop",
        quota: of.QuotaPolicy = "require",
        **kwargs: Unpack[of.AirflowArguments],
    ) -> None:  # fmt: skip
        arguments = dict(locals())  # exactly the keywords above: the first statement
        super().__init__(**kwargs)
        self._take(arguments, dict(kwargs))
