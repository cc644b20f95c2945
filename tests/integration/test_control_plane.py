"""The tests' own control plane: fake pods do what their annotations say, real pods run commands, faults are made."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.admin import Admin, Object, Refused, condition
from tests.control_plane.plane import COMMAND, ControlPlane
from tests.control_plane.queues import Queues, unique


def pod(namespace: str, *, nodes: str = "kwok", image: str = "none:test", **spec: Any) -> Object:
    command = spec.pop("command", ["true"])
    annotations = {f"fakepod.test/{key.replace('_', '-')}": value for key, value in spec.pop("fake", {}).items()}
    container = {"name": "main", "image": image, "imagePullPolicy": "Never", "command": command, **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": unique("pod"), "namespace": namespace, "annotations": annotations},
        "spec": {"nodeSelector": {"type": nodes}, "restartPolicy": "Never", "containers": [container]},
    }


def run_pod(admin: Admin, made: Object, phase: str) -> Object:
    path = admin.path_of(admin.create(made))
    found = admin.wait(path, lambda found: (found or {}).get("status", {}).get("phase") == phase, phase)
    assert found is not None
    return found


def test_fake_pod_ends_with_the_code_and_reason_of_its_annotations(admin: Admin, namespace: str) -> None:
    fake = {"duration": "1", "exit_code": "137", "reason": "OOMKilled"}
    found = run_pod(admin, pod(namespace, fake=fake), "Failed")
    ended = found["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_fake_pod_says_the_lines_of_its_annotation_and_the_stream_ends_with_it(admin: Admin, namespace: str) -> None:
    fake = {"duration": "2", "logs": "one\ntwo\nthree", "log_interval": "0.5"}
    path = admin.path_of(run_pod(admin, pod(namespace, fake=fake), "Running"))
    assert admin.request("GET", f"{path}/log", params={"follow": "true"}) == "one\ntwo\nthree\n"


def test_fake_pod_waits_for_an_image_that_never_comes(admin: Admin, namespace: str) -> None:
    path = admin.path_of(admin.create(pod(namespace, fake={"image_pull_error": "true"})))
    admin.wait(path, lambda found: "ImagePullBackOff" in str(found), "waits for its image")
    admin.annotate(path, image_pull_error=None, duration="0")
    admin.wait(path, lambda found: (found or {})["status"]["phase"] == "Succeeded", "the image came")


def test_kueue_admits_within_the_quota_and_says_why_not_beyond(admin: Admin, namespace: str, queues: Queues) -> None:
    queue = queues.queue(GPU=8)
    small, big = (
        pod(namespace, resources={"limits": {"nvidia.com/gpu": gpus, "cpu": 1, "memory": "1Gi"}}) for gpus in ("8", "9")
    )
    for made in (small, big):
        made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    run_pod(admin, small, "Running")
    refused = admin.path_of(admin.create(big))
    uid = (admin.find(refused) or {})["metadata"]["uid"]

    def waiting(found: Object | None) -> bool:
        workloads = [one for one in (found or {})["items"] if uid in str(one["metadata"].get("ownerReferences"))]
        return any("insufficient quota" in str(one) for one in workloads)

    admin.wait(admin.path("Workload", namespace=namespace), waiting, "why it waits")
    assert condition(admin.find(refused), "PodScheduled") == "False"


def test_unknown_field_is_refused(admin: Admin, namespace: str) -> None:
    made = pod(namespace)
    made["spec"]["restartPolitics"] = "Never"
    with pytest.raises(Refused, match="unknown field"):
        admin.create(made)


def test_real_pod_runs_its_command(admin: Admin, namespace: str) -> None:
    made = pod(namespace, nodes="real", image="base:test", command=["bash", "-c", "echo I am $(hostname); exit 3"])
    found = run_pod(admin, made, "Failed")
    assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    text = admin.request("GET", f"{admin.path_of(found)}/log")
    assert text == f"I am {made['metadata']['name']}\n"


@pytest.mark.parametrize(
    ("image", "command"),
    [
        ("base:test", "ssh -V && test -x /usr/sbin/sshd && py-spy --version"),
        ("torch:test", "python -c 'import torch.distributed as d; assert d.is_gloo_available()'"),
        ("ray:test", "python -c 'import ray, ray.dashboard'"),
    ],
)
def test_images_have_what_tests_need(admin: Admin, namespace: str, image: str, command: str) -> None:
    run_pod(admin, pod(namespace, nodes="real", image=image, command=["bash", "-c", command]), "Succeeded")


def test_requests_are_counted_by_client(control_plane: ControlPlane, admin: Admin, namespace: str) -> None:
    for _ in range(3):
        admin.find(admin.path("ConfigMap", "missing", namespace))
    mine = [one for one in control_plane.requests("test-admin") if one.namespace == namespace]
    assert [one.code for one in mine if (one.verb, one.resource) == ("get", "configmaps")] == [404, 404, 404]


def status(state: Path) -> tuple[int, str]:
    done = subprocess.run([COMMAND, "status", state], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_status_tells_up_from_down(control_plane: ControlPlane, tmp_path: Path) -> None:
    code, text = status(control_plane.folder)
    assert code == 0
    assert "kube-apiserver" in text
    assert "not running" not in text
    assert status(tmp_path) == (1, f"down: {tmp_path}\n")
