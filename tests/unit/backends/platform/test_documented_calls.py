"""The fake platform answers every documented call as documented, to a client that knows nothing of this package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from scripts.airflow_stack import wait_until
from tests.platform.names import CLUSTER, POOL, REGION, TENANT, USER, signed
from tests.platform.platform import Platform
from tests.platform.server import RunningPlatform

TASKS, RES, FLOWS = "/task-service/v1/tasks", "/resource-service/v1", "/workflow-service/v1/instances"
BODY: dict[str, Any] = {
    "namePrefix": "bert-ft-3f9c1a7e", "type": "pytorchjob", "image": "trainer", "imageVersion": "7",
    "imageType": "custom", "imageUrl": "registry.example.test/nlp/trainer:7", "cmd": "torchrun train.py", "workers": 3,
    "resourcePool": "cn-east-alpha-nlp-ondemand-shared", "instances": [{"name": "gpu.demo-1", "countPerPod": 8}],
    "volumes": [{"volumeName": "team-data", "mountDir": "/volume/data"}],
    "datasets": [{"name": "corpus", "version": "2", "type": "custom", "mountPath": "/mnt/corpus"}], "models": [],
    "taskEnv": [{"envKey": "NOTE", "envValue": "1", "hide": False}, {"envKey": "T", "envValue": "x", "hide": True}],
    "priority": "high", "guarantee": False,
    "enhancements": {"faultTolerance": {"enabled": True, "maxRetryCount": 2}}, "labels": {"team": "nlp"},
    "timezone": "Asia/Shanghai",
}  # fmt: skip
"""The vendor's way to write a creation, in a pool that nobody has heard of."""
BRIEF = (
    "uuid cluster name resourcePool instances selectedInstances volumes image imageVersion imageUrl imageType status "
    "statusMsg createTime updateTime startTime endTime duration priority guarantee queueInfo taskEnv sharedUsers owner "
    "enhancements"
)
TASK = f"{BRIEF} namePrefix type workers cmd datasets models product module oss timezone dashboardUrl"
ROW = (
    "id region cluster resourcePoolQosType resourcePoolType resourcePoolName resourcePoolIsolation instanceName quota "
    "avail used preempted authorizedUsers creator createdAt expireAt"
)
IDS = {"requestID", "traceID"}
LISTINGS: list[tuple[str, dict[str, str], str, str]] = [
    # path, query, where the rows stand, what each row has
    (f"{RES}/instances", {"region": REGION, "cluster": CLUSTER, "tenantName": TENANT}, "data", ROW),
    (f"{RES}/instances", {"resourcePoolQosType": "reserved"}, "data", ROW),
    (f"{RES}/user-quota", {"userName": USER}, "data", "id userName instanceQuotaId total used creator"),
    (f"{RES}/user-quota", {"instanceQuotaId": "11"}, "data", "id userName instanceQuotaId total used creator"),
    (f"{RES}/user-quota", {"id": "1100"}, "data", "id userName instanceQuotaId total used creator"),
    (
        f"{RES}/user-instances-pool",
        {},
        "data",
        "resourcePoolName resourcePoolQosType resourcePoolType instanceName userInstanceUsage",
    ),
    (f"{RES}/instances/ondemand", {"region": REGION}, "data", "id region cluster instanceType instanceQuantity"),
    (f"{RES}/instances/available", {"region": REGION, "page": "1", "pageSize": "2"}, "data", "id orderId status"),
    (f"{RES}/instance/quota", {}, "data", "showname cpu memory gpu-type gpu-num"),
    (f"{RES}/volumes", {"page": "1", "pageSize": "1", "name": "team"}, "data", "id name pvcName fsType capacity used"),
    (f"{RES}/user-volumes", {}, "data", "id name pvc readOnly namespace fsId"),
    (f"{RES}/volume/quota", {}, "data", "fsType avail price concurrency quantityUnit"),
    (f"{RES}/volume/quota-detail", {}, "data", "region cluster fsType totalQuota usedQuota availQuota"),
    ("/data-service/v1/datasets", {"name": "corpus", "variant": "custom"}, "data", "name version isPreset pvc subPath"),
    ("/model-service/v1/preset-models", {"page": "1", "pageSize": "10000"}, "rows", "uuid name version pvc isPreset"),
    ("/model-service/v1/models", {}, "rows", "uuid name version pvc isPreset"),
    (
        "/aiapi/v1/image-sync-server/images-management",
        {"filter.major_category": "siflow", "filter.keyword": "TRAIN", "filter.image_build_type": "custom"},
        "rows",
        "name version cluster_images_url image_build_type",
    ),
]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningPlatform]:
    with RunningPlatform(Platform(tmp_path / "platform", commands=False)) as served:
        served.change(open_pools=True, run_seconds=0.2)
        yield served


@pytest.fixture
def ask(running: RunningPlatform) -> Iterator[Any]:
    with httpx.Client(base_url=running.url, trust_env=False) as client:

        def call(method: str, path: str, **request: Any) -> dict[str, Any]:
            answer = client.request(method, path, headers=signed(), **request)
            body: dict[str, Any] = answer.json()
            assert answer.status_code == 200, body
            assert body.get("status", True) is True, body
            return body

        yield call


def when_it_is(ask: Any, uuid: str, status: str) -> dict[str, Any]:
    """Return the task once it has that status."""

    def look() -> dict[str, Any] | None:
        task: dict[str, Any] = ask("GET", f"{TASKS}/{uuid}")["data"]
        return task if task["status"] == status else None

    return wait_until(look, timeout=60, what=f"the task is {status}")


def test_every_documented_list_is_answered_with_its_fields(ask: Any) -> None:
    for path, query, where, fields in LISTINGS:
        body = ask("GET", path, params=query)
        assert body[where], path
        lacks = [name for row in body[where] for name in fields.split() if name not in row]
        assert lacks == [], path
        assert body.get("requestID") or body.get("request_id"), path


def test_lists_come_by_pages_and_say_how_many_rows_there_are(ask: Any) -> None:
    volumes = ask("GET", f"{RES}/volumes", params={"page": 2, "pageSize": 1})
    assert (volumes["total"], volumes["page"], volumes["pageSize"], len(volumes["data"])) == (2, 2, 1, 1)
    assert "total" not in ask("GET", "/data-service/v1/datasets", params={"page": 1, "pageSize": 1})
    images = ask("GET", "/aiapi/v1/image-sync-server/images-management", params={"page": 1, "pageSize": 1})
    assert (images["total"], len(images["rows"])) == (2, 1)


def test_the_answers_with_envelopes_of_their_own_have_them(ask: Any) -> None:
    assert set(ask("GET", f"{RES}/resources/summary")) == {
        "totalGpu", "usedGpu", "totalVolume", "usedVolume", "volumeUnit",
    }  # fmt: skip
    metering = ask("GET", f"{RES}/instances/ondemand-metering", params={"startTime": "2026", "endTime": "2027"})
    assert set(metering) == {"status", "error", "total", "rows"}
    mine = ask("GET", f"{RES}/user-instances")["data"]
    assert (mine["user"], set(mine["ondemand"])) == (USER, {POOL})
    assert ask("GET", f"{RES}/volume/1")["data"]["name"] == "team-data"


def test_a_task_is_created_listed_read_and_ends_with_its_pods(ask: Any) -> None:
    created = ask("POST", TASKS, json=BODY)
    assert created.keys() >= {"status", "msg", "data", *IDS}
    uuid = created["data"]
    found = when_it_is(ask, uuid, "Succeeded")
    assert set(TASK.split()) <= set(found)
    assert found["name"].startswith("bert-ft-3f9c1a7e-")
    assert found["selectedInstances"] == [{"name": "gpu.demo-1", "countTotal": 32}]
    pods = ask("GET", f"{TASKS}/{uuid}/pods")["data"]
    assert len(pods) == 4
    wanted = {"name", "status", "statusMsg", "node", "ip", "createTime", "updateTime", "containers", "exitCode"}
    assert wanted <= set(pods[0])


def test_tasks_are_filtered_by_every_documented_parameter(ask: Any) -> None:
    ask("POST", TASKS, json={**BODY, "product": "nlp", "module": "bert"})
    ask("POST", TASKS, json={**BODY, "namePrefix": "other", "priority": "low", "labels": {}})
    for query in (
        {"name": "bert-ft"}, {"priority": "high"}, {"product": "nlp"}, {"module": "bert"}, {"labels": "team=nlp"},
        {"pageSize": "1", "orderBy": "name", "asc": "true"}, {"pageSize": "1", "page": "2"},
    ):  # fmt: skip
        rows = ask("GET", TASKS, params=query)["rows"]
        assert [row["name"][:7] for row in rows] == ["bert-ft"], query
        assert set(BRIEF.split()) <= set(rows[0])
    both = {
        "status": "Queueing,PartialPending,Running,Succeeded", "resourcePools": BODY["resourcePool"], "owners": USER,
        "isTaskAdmin": "true", "isShare": "false",
    }  # fmt: skip
    assert ask("GET", TASKS, params=both)["total"] == 2
    assert ask("GET", TASKS, params={"isShare": "true"})["total"] == 0


def test_tasks_are_stopped_deleted_and_submitted_again(ask: Any, running: RunningPlatform) -> None:
    running.change(run_seconds=600)
    first, second, third = (ask("POST", TASKS, json=BODY)["data"] for _ in range(3))
    assert ask("GET", f"{TASKS}/stop/{first}")["data"] == first
    assert ask("POST", f"{TASKS}/stop", json={"uuids": [second, third]})["data"] == [second, third]
    for uuid in (first, second, third):
        when_it_is(ask, uuid, "Stopped")
    (again,) = ask("POST", f"{TASKS}/resubmission", json={"uuids": [first]})["data"]
    assert again not in {first, second, third}
    assert ask("DELETE", f"{TASKS}/{first}")["data"] == first
    assert ask("POST", f"{TASKS}/deletion", json={"uuids": [second, third]})["data"] == [second, third]
    assert [row["uuid"] for row in ask("GET", TASKS)["rows"]] == [again]


def test_node_rules_are_kept_changed_and_removed(ask: Any) -> None:
    path = f"{RES}/node-blacklists"
    rule = {"scope": "user", "nodeNames": ["n1", "n2"], "workloadTypes": ["task"], "expireAt": 0, "reason": "slow"}
    ask("POST", path, json=rule)
    query = {"page": 1, "pageSize": 20, "onlyEnabled": "true", "scope": "user"}
    listed = ask("GET", path, params=query)
    assert (listed["total"], listed["page"], listed["pageSize"]) == (2, 1, 20)
    number = listed["rows"][0]["id"]
    ask("PUT", path, json={"id": number, "scope": "user", "nodeName": "n3", "type": "NodeIn", "expireAt": 1})
    ask("DELETE", f"{path}/{listed['rows'][1]['id']}")
    assert [(row["nodeName"], row["type"]) for row in ask("GET", path)["rows"]] == [("n3", "NodeIn")]


def test_a_workflow_runs_its_steps_in_order(ask: Any) -> None:
    spec = {
        **{key: BODY[key] for key in ("namePrefix", "image", "imageVersion", "imageUrl", "imageType", "type", "cmd")},
        "replicas": 2, "resourcePool": POOL, "instances": [{"instanceName": "cpu.demo-1", "instanceQuantity": 1}],
        "nodeNotIn": ["n9"],
    }  # fmt: skip
    step = {"type": "sfjob", "name": "train", "labels": {}, "retries": 0, "timeoutSeconds": 60, "env": []}
    tasks = [{"name": "a", "template": "train"}, {"name": "b", "template": "train", "depends": "a"}]
    steps = [{**step, "spec": json.dumps(spec)}]
    body = {"workflowName": "w", "globalParams": [], "dag": {"tasks": tasks}, "steps": steps}
    number = ask("POST", f"{FLOWS}/direct", json=body)["data"]["id"]
    listed = ask("GET", FLOWS, params={"page": 1, "pageSize": 15})
    assert {"total", "page", "pageSize", "rows"} <= set(listed)
    wait_until(lambda: ask("GET", FLOWS, params={"status": "Succeeded"})["total"] == 1, timeout=60, what="it ends")
    steps = ask("GET", f"{FLOWS}/{number}/steps")["data"]["steps"]
    assert [(step["name"], step["status"]) for step in steps] == [("a", "Succeeded"), ("b", "Succeeded")]
    assert steps[0]["finishedAt"] <= steps[1]["startedAt"]
    ask("DELETE", f"{FLOWS}/{number}")
    assert ask("GET", FLOWS)["total"] == 0


def test_what_is_wrong_is_told_in_an_envelope_with_ids(running: RunningPlatform) -> None:
    with httpx.Client(base_url=running.url, trust_env=False) as client:
        for method, path, headers, code in (
            ("GET", TASKS, {**signed(), "Signature": "0" * 64}, 401),
            ("GET", TASKS, {**signed(), "Timestamp": "1700000000"}, 401),
            ("GET", TASKS, {}, 401),
            ("GET", f"{TASKS}/nope", signed(), 404),
            ("GET", f"{RES}/user-quota", signed(), 400),
            ("GET", f"{RES}/instances/ondemand", signed(), 400),
            ("POST", TASKS, signed(), 400),
            ("GET", "/nothing/v1/here", signed(), 404),
            ("PATCH", TASKS, signed(), 405),
        ):
            answer = client.request(method, path, headers=headers)
            body = answer.json()
            assert (answer.status_code, body["status"]) == (code, False), path
            assert body["msg"]
            assert set(body) >= IDS
