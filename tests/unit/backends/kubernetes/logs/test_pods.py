"""What is to be expected of a container's log, by the pod's own words."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.logs.pods import Stage, is_silent, log_containers, main_container, stage_of

RUNNING: dict[str, Any] = {"state": {"running": {}}}
WAITING: dict[str, Any] = {"state": {"waiting": {"reason": "ContainerCreating"}}}
AGAIN = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}}


def ended(code: int) -> dict[str, Any]:
    return {"state": {"terminated": {"exitCode": code}}}


def pod(phase: str, policy: str = "Never", *, main: Any = None, init: Any = None, leaving: bool = False) -> Any:
    def states(name: str, state: Any) -> list[Any]:
        return [] if state is None else [{"name": name, **state}]

    return {
        "metadata": {"deletionTimestamp": "2026-05-01T10:00:00Z"} if leaving else {},
        "spec": {
            "restartPolicy": policy,
            "initContainers": [{"name": "fetch"}],
            "containers": [{"name": "proxy"}, {"name": "pytorch"}],
        },
        "status": {
            "phase": phase,
            "containerStatuses": states("pytorch", main),
            "initContainerStatuses": states("fetch", init),
        },
    }


@pytest.mark.parametrize(
    ("given", "stage"),
    [
        (pod("Pending"), Stage.WAITING),
        (pod("Pending", main=WAITING), Stage.WAITING),
        (pod("Running", main=RUNNING), Stage.OPEN),
        (pod("Running", main=ended(0)), Stage.ENDED),
        (pod("Running", main=ended(1)), Stage.ENDED),
        (pod("Running", "OnFailure", main=ended(0)), Stage.ENDED),
        (pod("Running", "OnFailure", main=ended(1)), Stage.OPEN),
        (pod("Running", "OnFailure", main=AGAIN), Stage.OPEN),
        (pod("Running", "Always", main=ended(0)), Stage.OPEN),
        (pod("Running", "Always", main=ended(0), leaving=True), Stage.ENDED),
        (pod("Failed", main=ended(1)), Stage.ENDED),
        (pod("Failed", main=WAITING), Stage.NEVER),
        (pod("Failed", main=RUNNING), Stage.ENDED),
        (pod("Failed"), Stage.NEVER),
    ],
)
def test_a_log_is_waited_for_as_long_as_more_can_come(given: Any, stage: Stage) -> None:
    assert stage_of(given, "pytorch") is stage


def test_an_init_container_that_did_its_work_is_read_to_its_end() -> None:
    assert stage_of(pod("Pending", "Always", init=ended(0)), "fetch") is Stage.ENDED
    assert stage_of(pod("Pending", "Always", init=ended(1)), "fetch") is Stage.OPEN


@pytest.mark.parametrize(
    ("name", "code", "silent"), [("init-pytorch", 0, True), ("init-pytorch", 1, False), ("own", 0, False)]
)
def test_what_an_operator_adds_is_heard_only_when_it_failed(name: str, code: int, silent: bool) -> None:
    given = {"status": {"initContainerStatuses": [{"name": name, **ended(code)}]}}
    assert is_silent(given, name) is silent


def test_the_main_container_is_found_among_those_that_were_put_beside_it() -> None:
    assert log_containers(pod("Running"), "worker-1") == [("fetch", True), ("pytorch", False)]
    ray = {"spec": {"containers": [{"name": "autoscaler"}, {"name": "ray-head"}]}}
    assert main_container(ray, "head-0") == "ray-head"
    workers = {"spec": {"containers": [{"name": "ray-worker"}]}}
    assert main_container(workers, "worker-0") == "ray-worker"
    assert main_container({"spec": {"containers": [{"name": "own"}, {"name": "other"}]}}, "worker-0") == "own"
