"""The environment that every replica of a task sees, whatever the backend (docs/reference/form.md).

A backend adds what depends on its machinery: `MASTER_ADDR`, `RANK` and their like, `SIFLOW_RESULTS`, hidden values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siflow_provider.core.protocol import RenderContext
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["INJECTED_NAMES", "task_env"]

INJECTED_NAMES = (
    "X_USER_NAME",
    "X_ORG_NAME",
    "X_TENANT_ID",
    "X_REGION",
    "X_CLUSTER",
    "TASK_UUID",
    "AIRFLOW_CTX_DAG_ID",
    "AIRFLOW_CTX_TASK_ID",
    "AIRFLOW_CTX_DAG_RUN_ID",
    "AIRFLOW_CTX_TRY_NUMBER",
    "SIFLOW_ATTEMPT",
)
"""What `task_env` sets over the author's own values; the form refuses these names in `env`."""


def task_env(task: ResolvedTask, context: RenderContext) -> dict[str, str]:
    """Return the plain environment of a replica, hidden values apart.

    Weakest first: `TZ` from the form's `timezone`, the author's `env` (persistent values below the task's own), the
    names in `INJECTED_NAMES`. These are always set, empty where nothing is known, so that a script under `set -u` runs
    everywhere; only the `AIRFLOW_CTX_` names are left out for a run that no Airflow task owns.

    Example:
        >>> task_env(resolved, RenderContext(identity=identity))["SIFLOW_ATTEMPT"]
        '1'
    """
    identity = context.identity
    env: dict[str, str] = {"TZ": task.task.timezone} if task.task.timezone else {}
    env.update(task.env)
    env.update(
        {
            "X_USER_NAME": context.user_name,
            "X_ORG_NAME": task.org,
            "X_TENANT_ID": task.tenant,
            "X_REGION": task.task.region or "",
            "X_CLUSTER": task.task.cluster or "",
            "TASK_UUID": identity.task_uuid,
            "SIFLOW_ATTEMPT": str(identity.attempt),
        }
    )
    if identity.dag_id:
        env["AIRFLOW_CTX_DAG_ID"] = identity.dag_id
        env["AIRFLOW_CTX_TASK_ID"] = identity.task_id
        env["AIRFLOW_CTX_DAG_RUN_ID"] = identity.run_id
        env["AIRFLOW_CTX_TRY_NUMBER"] = str(identity.try_number)
    return {name: value for name, value in env.items() if name not in task.hidden}
