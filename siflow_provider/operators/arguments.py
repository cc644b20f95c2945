"""The types of the operators' keyword arguments: every form field as data, a template or another task's output.

`TypedDict`s and not the form's models: a DAG file holds templates and `XComArg`s where the form holds numbers, and an
IDE completes the keys either way. The models of `siflow_provider.spec` are accepted wherever their section stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Required, TypeAlias, TypedDict

from airflow.sdk import DAG, Context, TaskGroup, XComArg

from siflow_provider.core.launch import QuotaPolicy
from siflow_provider.core.status import LogSelection
from siflow_provider.spec.compute import Idle, InPlaceInstance, NodeRule, OnDemand, Reserved, Spot
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.policy import Alert, FaultTolerance, KubernetesOptions, Monitoring
from siflow_provider.spec.ray import Autoscaling, Debug, Head, RaySection, SharedStorage
from siflow_provider.spec.storage import DatasetMount, ModelMount, VolumeMount
from siflow_provider.spec.task import CatalogImage, PyTorchJob, RayJob
from siflow_provider.triggers.killed import KillAction

__all__ = ["AirflowArguments", "KillAction", "Logs", "QuotaPolicy"]

Text: TypeAlias = str | XComArg
Flag: TypeAlias = bool | str | XComArg
Integer: TypeAlias = int | str | XComArg
Version: TypeAlias = str | int | XComArg
"""Text; a whole number stands for its digits."""
Quantity: TypeAlias = float | str | XComArg
"""A number, or text with a unit such as `500m` or `16Gi`."""
Duration: TypeAlias = float | str | timedelta | XComArg
"""Seconds, text such as `15m`, or a `timedelta`."""

Logs: TypeAlias = LogSelection | Sequence[str]


class HiddenArgs(TypedDict):
    """A hidden value as the form writes it."""

    value: Text
    hidden: bool


class CatalogImageArgs(TypedDict, total=False):
    """An image of the catalog."""

    preset: Text
    custom: Text
    version: Required[Version]


class InstanceArgs(TypedDict, total=False):
    """Amounts in place of a catalog name."""

    cpu: Required[Quantity]
    memory: Required[Quantity]
    gpu: Integer


InstanceValue: TypeAlias = str | InstanceArgs | InPlaceInstance | XComArg


class NodeRuleArgs(TypedDict, total=False):
    """Which nodes may be used, by name."""

    only: Sequence[Text] | XComArg
    exclude: Sequence[Text] | XComArg


class ComputeArgs(TypedDict, total=False):
    """What a replica runs on; which keys go with which type is the form's rule, checked when the DAG is parsed."""

    type: Required[Text]
    pool: Text
    instance: InstanceValue
    instances: Sequence[InstanceValue] | XComArg
    units_per_replica: Integer
    guarantee: Flag
    fallback_after: Duration
    accept_idle: Flag
    prefer_idle: Flag
    idle_stability: Text
    stability: Text
    nodes: NodeRuleArgs | NodeRule | Text


class VolumeArgs(TypedDict, total=False):
    """A volume at a path of every replica."""

    name: Required[Text]
    mount_path: Required[Text]
    sub_path: Text
    read_only: Flag


class DatasetArgs(TypedDict, total=False):
    """A dataset at a path of every replica, always read-only."""

    name: Required[Text]
    mount_path: Required[Text]
    version: Version


class ModelArgs(DatasetArgs, total=False):
    """A model at a path of every replica, read-only unless said otherwise."""

    read_only: Flag


class FaultToleranceArgs(TypedDict, total=False):
    """Retries of the whole gang inside one Airflow try."""

    max_retries: Integer
    retry_on: Sequence[Text] | XComArg
    hang_timeout: Duration


class MonitoringArgs(TypedDict, total=False):
    """Where the task serves its metrics."""

    port: Required[Integer]
    path: Text


class QueuedTooLongArgs(TypedDict):
    """The alert event that has a length."""

    queued_too_long: Duration


class AlertArgs(TypedDict, total=False):
    """Who is told about which events."""

    events: Required[Sequence[Text | QueuedTooLongArgs] | XComArg]
    to: Required[Sequence[Text] | XComArg]
    message: Text


class KubernetesArgs(TypedDict, total=False):
    """The escape hatch for cluster users."""

    patch: Mapping[str, Any] | Text
    service_account: Text
    image_pull_secrets: Sequence[Text] | XComArg
    node_selector: Mapping[str, Version] | Text
    tolerations: Sequence[Mapping[str, Any] | Text] | Text
    annotations: Mapping[str, Version] | Text


class HeadArgs(TypedDict, total=False):
    """The Ray head's own size."""

    instance: Required[InstanceValue]
    units: Integer


class SharedStorageArgs(TypedDict, total=False):
    """A volume that every pod of the Ray cluster writes."""

    volume: Required[Text]
    clean_up: Flag


class DebugArgs(TypedDict, total=False):
    """Keep the Ray cluster after the end."""

    keep_seconds: Duration


class AutoscalingArgs(TypedDict, total=False):
    """Bounds of the Ray worker group."""

    min_workers: Required[Integer]
    max_workers: Required[Integer]
    idle_timeout: Duration
    upscaling_mode: Text


class RayArgs(TypedDict, total=False):
    """The section that only a RayJob has."""

    head: HeadArgs | Head | Text
    runtime_env: Mapping[str, Any] | Text
    shared_storage: SharedStorageArgs | SharedStorage | Text
    debug: DebugArgs | Debug | Text
    autoscaling: AutoscalingArgs | Autoscaling | Text


Labels: TypeAlias = Mapping[str, Version] | Text
Image: TypeAlias = CatalogImageArgs | CatalogImage | Text
Env: TypeAlias = Mapping[str, float | str | XComArg | Hidden | HiddenArgs] | Text
Volumes: TypeAlias = Sequence[VolumeArgs | VolumeMount | Text] | Text
Datasets: TypeAlias = Sequence[DatasetArgs | DatasetMount | Text] | Text
Models: TypeAlias = Sequence[ModelArgs | ModelMount | Text] | Text
ComputeValue: TypeAlias = ComputeArgs | Reserved | OnDemand | Spot | Idle | Text
FaultToleranceValue: TypeAlias = FaultToleranceArgs | FaultTolerance | Text
MonitoringValue: TypeAlias = MonitoringArgs | Monitoring | Text
Alerts: TypeAlias = Sequence[AlertArgs | Alert | Text] | Text
KubernetesValue: TypeAlias = KubernetesArgs | KubernetesOptions | Text
Ray: TypeAlias = RayArgs | RaySection | Text
Spec: TypeAlias = str | Path | Mapping[str, Any] | PyTorchJob | RayJob | XComArg

_Callback: TypeAlias = Callable[[Context], None]
_Callbacks: TypeAlias = _Callback | list[_Callback] | None


class AirflowArguments(TypedDict, total=False):
    """The keyword arguments of every Airflow operator, so that a misspelt form field is a type error."""

    task_id: Required[str]
    owner: str
    email: str | Sequence[str] | None
    email_on_retry: bool
    email_on_failure: bool
    retries: int | None
    retry_delay: timedelta | float
    retry_exponential_backoff: float
    max_retry_delay: timedelta | float | None
    retry_policy: Any
    start_date: datetime | None
    end_date: datetime | None
    depends_on_past: bool
    ignore_first_depends_on_past: bool
    wait_for_past_depends_before_skipping: bool
    wait_for_downstream: bool
    dag: DAG | None
    params: MutableMapping[str, Any] | None
    default_args: dict[str, Any] | None
    priority_weight: int
    weight_rule: Any
    queue: str
    pool: str | None
    pool_slots: int
    sla: timedelta | None
    execution_timeout: timedelta | None
    on_execute_callback: _Callbacks
    on_failure_callback: _Callbacks
    on_success_callback: _Callbacks
    on_retry_callback: _Callbacks
    on_skipped_callback: _Callbacks
    pre_execute: Callable[..., Any] | None
    post_execute: Callable[..., Any] | None
    trigger_rule: str
    resources: dict[str, Any] | None
    run_as_user: str | None
    map_index_template: str | None
    max_active_tis_per_dag: int | None
    max_active_tis_per_dagrun: int | None
    executor: str | None
    executor_config: dict[str, Any] | None
    do_xcom_push: bool
    multiple_outputs: bool
    inlets: Any
    outlets: Any
    task_group: TaskGroup | None
    doc: str | None
    doc_md: str | None
    doc_json: str | None
    doc_yaml: str | None
    doc_rst: str | None
    task_display_name: str | None
    logger_name: str | None
    allow_nested_operators: bool
    render_template_as_native_obj: bool | None
