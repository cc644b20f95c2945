"""A real Airflow for every test in this folder.

Fixtures:
    stack: on sqlite, one triggerer; one for the whole test session.
    pg_stack: on a PostgreSQL server of its own, two triggerers: for races and take-overs; one for the whole session.
    cluster: `stack`, and a namespace, queues and a connection of the test's own on the shared control plane.
    own_cluster: the same on a control plane that the tests of one file may disturb, and whose audit log they can read.

The first two are `scripts.airflow_stack.AirflowStack`. What tests use of it::

    stack.add_dag("name", source)            write name.py, wait until Airflow knows the DAG `name` (StackError with
                                             the traceback when the file can't be imported)
    run = stack.trigger("name", conf={...})  a Run: .state, .states(), .wait(timeout) -> "success" | "failed",
                                             .mark("failed")
    ti = run.ti("task", map_index=-1)        a TaskInstance: .state, .try_number, .details, .rendered,
                                             .wait_state("deferred", timeout=90), .mark("failed"), .clear(),
                                             .log(try_number=None), .wait_log("text"),
                                             .events(), .xcom(key="return_value"), .kill_worker(), .processes()
    stack.kill_triggerer("triggerer-1", restart=True)
    stack.terminate(name), stack.kill(name), stack.start(name), stack.wait_healthy()
                                             name: api-server | scheduler | dag-processor | triggerer-N
    stack.db_dump()                          all tables as text
    stack.component_log(name)                a component's own output
    stack.processes()                        psutil.Process of everything below the stack, detached ones included
    stack.airflow("dags", "list")            an Airflow command in the stack's environment; returns its output
    stack.settings.home                      AIRFLOW_HOME; task logs in home/logs, local runs' state in home/siflow

The connection `siflow_default` (backend local) is set. Timeouts of Airflow are short here (see FAST): a lost worker is
noticed after about 20 s, a dead triggerer after about 10 s, trigger timeouts within 1 s; a worker that can't import a
DAG file tries again after 10 s.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.airflow_stack import AirflowStack, StackSettings
from tests.control_plane.admin import Admin
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import Queues, own_place
from tests.e2e.on_cluster import OnCluster

HERE = Path(__file__).parent
FAST = {
    "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    "AIRFLOW__SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "2",
    "AIRFLOW__WORKERS__MISSING_DAG_RETRY_DELAY": "10",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder `e2e`, so that no file can forget it."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)


def _up(database: str, triggerers: int, home: Path) -> Iterator[AirflowStack]:
    settings = StackSettings(home=home, database=database, triggerers=triggerers, env=FAST)
    try:
        with AirflowStack(settings) as stack:
            yield stack
    finally:
        shutil.rmtree(home / "siflow", ignore_errors=True)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowStack]:
    """Return a real Airflow on sqlite with one triggerer, shared by the session."""
    yield from _up("sqlite", 1, tmp_path_factory.mktemp("stack"))


@pytest.fixture(scope="session")
def pg_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowStack]:
    """Return a real Airflow on PostgreSQL with two triggerers, shared by the session."""
    yield from _up("postgres", 2, tmp_path_factory.mktemp("pg_stack"))


@pytest.fixture
def cluster(stack: AirflowStack, control_plane: ControlPlane, queues: Queues) -> OnCluster:
    """Return the sqlite stack with a place of the test's own on the shared control plane."""
    return OnCluster(stack, queues, control_plane.kubeconfig)


@pytest.fixture
def own_cluster(stack: AirflowStack, own_control_plane: ControlPlane, own_admin: Admin) -> Iterator[OnCluster]:
    """Return the sqlite stack with a place on a control plane that nobody else asks anything."""
    with own_place(own_admin) as queues:
        yield OnCluster(stack, queues, own_control_plane.kubeconfig)
