from __future__ import annotations

from siflow_provider.core.environment import INJECTED_NAMES, task_env
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext
from siflow_provider.spec.hidden import Hidden
from tests.unit.core.tasks import IDENTITY, context, make_task


def test_a_replica_sees_whose_run_it_is() -> None:
    task = make_task(org="acme", tenant="t-1", region="cn-north", cluster="c1")
    env = task_env(task, context(attempt=2))
    assert env == {
        "X_USER_NAME": "mia",
        "X_ORG_NAME": "acme",
        "X_TENANT_ID": "t-1",
        "X_REGION": "cn-north",
        "X_CLUSTER": "c1",
        "TASK_UUID": IDENTITY.task_uuid,
        "SIFLOW_ATTEMPT": "2",
        "AIRFLOW_CTX_DAG_ID": "daily",
        "AIRFLOW_CTX_TASK_ID": "train",
        "AIRFLOW_CTX_DAG_RUN_ID": "scheduled__2026-01-01T00:00:00+00:00",
        "AIRFLOW_CTX_TRY_NUMBER": "1",
    }
    assert set(env) == set(INJECTED_NAMES)


def test_timezone_becomes_tz_unless_the_author_sets_it() -> None:
    assert task_env(make_task(timezone="Asia/Shanghai"), context())["TZ"] == "Asia/Shanghai"
    assert task_env(make_task(timezone="Asia/Shanghai", env={"TZ": "UTC"}), context())["TZ"] == "UTC"


def test_a_hidden_value_is_never_doubled_by_a_plain_one() -> None:
    task = make_task(timezone="Asia/Shanghai", hidden={"TZ": Hidden("UTC")})
    assert "TZ" not in task_env(task, context())


def test_persistent_env_can_not_forge_the_run() -> None:
    assert task_env(make_task(env={"TASK_UUID": "forged"}), context())["TASK_UUID"] == IDENTITY.task_uuid


def test_a_run_without_airflow_has_no_airflow_names() -> None:
    env = task_env(make_task(), RenderContext(identity=Identity.random()))
    assert not [name for name in env if name.startswith("AIRFLOW_")]
    assert env["TASK_UUID"]
