"""What Airflow's provider manager reads. Loaded by every `airflow` command: imports nothing.

Source: Airflow 3.3.2 `airflow/provider_info.schema.json`, `airflow/providers_manager.py`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["CONNECTION_FIELDS", "CONNECTION_FORM", "get_provider_info"]


def _field(label: str, description: str, kind: str = "string", **schema: Any) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": [kind, "null"], **schema}}


CONNECTION_FIELDS: dict[str, dict[str, Any]] = {
    "backend": _field("Backend", "Where runs go.", enum=["local", "kubernetes", "platform"], default="local"),
    "catalog": _field("Catalog", "Path of a catalog file, or the catalog itself as YAML.", format="multiline"),
    "region": _field("Region", "For tasks that name none."),
    "cluster": _field("Cluster", "For tasks that name none."),
    "project_group": _field("Project group", "For tasks that name none."),
    "default_queue": _field("Default queue", "Where tasks with in-place instances queue."),
    "state_dir": _field("State folder", "local: where runs are kept; empty = the user's data folder."),
    "in_cluster": _field("In cluster", "kubernetes: log in as the pod that Airflow runs in.", "boolean"),
    "kube_config_path": _field("Kubeconfig path", "kubernetes: of a file on workers and triggerers."),
    "kube_config": _field("Kubeconfig", "kubernetes: its content, YAML or JSON.", format="password"),
    "cluster_context": _field("Kubeconfig context", "kubernetes: empty = the current one."),
    "namespace": _field("Namespace", "kubernetes: for tasks whose project group names none."),
    "disable_verify_ssl": _field("Don't verify TLS", "kubernetes: accept any certificate.", "boolean"),
    "elastic_jobs": _field("Elastic jobs", "kubernetes: Kueue's elastic-jobs feature gate is on.", "boolean"),
    "training_api": _field(
        "Training API",
        "kubernetes: what a PyTorchJob becomes; auto = a TrainJob only where the cluster has no PyTorchJob.",
        enum=["auto", "pytorchjob", "trainjob"],
        default="auto",
    ),
    "ttl_seconds_after_finished": _field(
        "Keep ended jobs", "kubernetes: how long an ended PyTorchJob stays, such as 7d (the default), or never."
    ),
    "body_overrides": _field(
        "Body overrides", "platform: JSON, field of the form -> what it adds to a create body.", format="json"
    ),
    "api_overrides": _field("API overrides", "platform: JSON, call -> how it is spelt (`logs`).", format="json"),
    "proxy": _field("Proxy", "platform: URL of an HTTP proxy.", format="password"),
}
"""The fields of the connection's form beside Airflow's own; they live in `extra` under these names."""

CONNECTION_FORM: dict[str, Any] = {
    "hidden-fields": ["schema", "port"],
    "relabeling": {
        "login": "User / access key id",
        "password": "Secret access key",
        "host": "Base URL (platform)",
    },
    "placeholders": {"host": "https://api.example.com"},
}
"""How the form shows Airflow's own fields."""

_MODULES = "SiFlow"


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _MODULES, "python-modules": [f"siflow_provider.{name}" for name in names]}]


def _option(description: str, kind: str, *, default: str, example: str) -> dict[str, Any]:
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": kind,
        "example": example,
        "default": default,
    }


_CONNECTION_TYPE = {
    "connection-type": "siflow",
    "hook-name": "SiFlow",
    "hook-class-name": "siflow_provider.hooks.siflow.SiflowHook",
    "conn-fields": CONNECTION_FIELDS,
    "ui-field-behaviour": CONNECTION_FORM,
}

_OPTIONS = {
    "catalog": _option(
        "Path of the catalog file that DAG files are checked against and that tasks use whose connection has none. "
        "It must be there for the DAG processor, workers and triggerers.",
        "string",
        default="",
        example="/opt/airflow/siflow/catalog.yaml",
    ),
    "installation": _option(
        "A name that no other Airflow has which uses the same cluster, access key or machine. It is part of what every "
        "run is found by, so that two with the same DAGs and run ids never take each other's runs for their own. The "
        "same on all workers; set it while no task of this provider runs.",
        "string",
        default="",
        example="production",
    ),
    "local_without_connection": _option(
        "Run on the machine of the Airflow worker when there is no connection siflow_default. "
        "Switch it off where training must never run there.",
        "boolean",
        default="True",
        example="False",
    ),
}


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description."""
    return {
        "package-name": "airflow-provider-siflow",
        "name": "SiFlow",
        "description": "AI training jobs: PyTorchJob and RayJob as tasks that wait deferred.",
        "integrations": [{"integration-name": _MODULES, "tags": ["service"]}],
        "operators": _modules("operators.pytorch", "operators.ray"),
        "sensors": _modules("sensors.quota", "sensors.training_job"),
        "hooks": _modules("hooks.siflow"),
        "triggers": _modules("triggers.run", "triggers.quota", "triggers.find", "triggers.room"),
        "notifications": ["siflow_provider.notifications.training.TrainingNotifier"],
        "extra-links": [f"siflow_provider.links.{name}Link" for name in ("Job", "Logs", "Dashboard", "Metrics")],
        "task-decorators": [
            {"name": "pytorch_job", "class-name": "siflow_provider.decorators.pytorch_job_task"},
            {"name": "ray_job", "class-name": "siflow_provider.decorators.ray_job_task"},
        ],
        "connection-types": [_CONNECTION_TYPE],
        "plugins": [{"name": "siflow", "plugin-class": "siflow_provider.plugin.SiflowPlugin"}],
        "config": {"siflow": {"description": "Training jobs of airflow-provider-siflow.", "options": _OPTIONS}},
    }
