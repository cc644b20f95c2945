"""Start, drive and stop a real Airflow on this machine: one implementation for `scripts/demo` and `tests/e2e`."""

from scripts.airflow_stack.errors import AlreadyUpError, StackError
from scripts.airflow_stack.rest import wait_until
from scripts.airflow_stack.run import Run, TaskInstance
from scripts.airflow_stack.settings import StackSettings
from scripts.airflow_stack.stack import AirflowStack

__all__ = ["AirflowStack", "AlreadyUpError", "Run", "StackError", "StackSettings", "TaskInstance", "wait_until"]
