"""Faults that tests make on a control plane of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from tests.control_plane.admin import Admin, Object, Refused, condition
from tests.control_plane.faults import bad_way
from tests.control_plane.fixtures import end_with_the_run
from tests.control_plane.plane import COMMAND, ControlPlane, run


def config_map(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


def test_api_server_comes_back_with_its_objects(own_control_plane: ControlPlane, own_admin: Admin) -> None:
    path = own_admin.path_of(own_admin.create(config_map("kept")))
    own_control_plane.kill("kube-apiserver")
    assert not own_admin.answers()
    own_control_plane.start("kube-apiserver")
    own_admin.wait_until_it_answers()
    assert own_admin.find(path)


def test_old_pages_and_watches_are_gone_when_all_is_forgotten(
    own_control_plane: ControlPlane, own_admin: Admin
) -> None:
    collection = own_admin.path("ConfigMap")
    for number in range(3):
        own_admin.create(config_map(f"page-{number}"))
    first = own_admin.request("GET", collection, params={"limit": "1"})["metadata"]
    own_admin.create(config_map("later"))
    own_control_plane.forget()
    own_admin.wait_until_it_answers()
    with pytest.raises(Refused, match="410"):
        own_admin.request("GET", collection, params={"limit": "1", "continue": first["continue"]})
    old = {"watch": "1", "resourceVersion": first["resourceVersion"], "timeoutSeconds": "5"}
    assert own_admin.request("GET", collection, params=old)["object"]["code"] == 410


def test_paused_controller_does_nothing_until_it_goes_on(own_control_plane: ControlPlane, own_admin: Admin) -> None:
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "late"}}
    spec = {"namespaceSelector": {}, "resourceGroups": [], "stopPolicy": "None"}
    # its webhook hangs as well
    with own_control_plane.paused("kueue"), pytest.raises(Refused, match="webhook"):
        own_admin.request("POST", own_admin.path("ClusterQueue"), flavor | {"spec": spec}, timeout=60)
    made = own_admin.create(flavor | {"spec": spec})
    own_admin.wait(own_admin.path_of(made), lambda found: condition(found, "Active") != "", "seen by kueue")


def test_lost_node_is_noticed_and_comes_back(own_admin: Admin, own_control_plane: ControlPlane) -> None:
    node = own_admin.path("Node", "gpu-0")
    own_control_plane.pause("kwok")
    own_admin.wait(node, lambda found: condition(found, "Ready") == "Unknown", "lost", seconds=90)
    own_control_plane.resume("kwok")
    own_admin.wait(node, lambda found: condition(found, "Ready") == "True", "back", seconds=90)


async def test_bad_way_swallows_cuts_and_heals(own_control_plane: ControlPlane, tmp_path: Path) -> None:
    async with bad_way(own_control_plane.kubeconfig, tmp_path) as way:
        context = Admin(way.kubeconfig)
        async with httpx.AsyncClient(base_url=context.server, verify=context.tls, timeout=1, trust_env=False) as client:
            assert (await client.get("/readyz", timeout=10)).text == "ok"
            way.swallow()
            with pytest.raises(httpx.ReadTimeout):
                await client.get("/readyz")
            way.heal()
            assert (await client.get("/readyz", timeout=10)).text == "ok"
            way.refuse()
            with pytest.raises(httpx.TransportError):
                await client.get("/readyz")
        context.close()


def processes_naming(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended while we looked
            continue
        if str(folder) in words and int(entry.parent.name) != os.getpid():
            found.append(words)
    return found


def wait_until_nothing_names(folder: Path) -> None:
    end = time.monotonic() + 30
    while left := processes_naming(folder):
        assert time.monotonic() < end, left
        time.sleep(0.2)


@pytest.mark.cluster
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda how: how.name)
def test_interrupted_start_leaves_nothing(tmp_path: Path, how: signal.Signals) -> None:
    state = tmp_path / "state"
    command = [str(COMMAND), "up", str(state), *end_with_the_run()]
    starting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert starting.stdout is not None
    for line in starting.stdout:
        if "kube-apiserver" in line:
            break
    assert processes_naming(state)
    starting.send_signal(how)
    starting.communicate(timeout=60)
    wait_until_nothing_names(state)
    assert not (state / "ready").exists()


@pytest.mark.cluster
def test_second_start_of_one_state_is_refused_and_down_stops_only_its_own(
    own_control_plane: ControlPlane, own_admin: Admin, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="already up"):
        run("up", own_control_plane.folder)
    other = tmp_path / "other"
    run("up", other, "--nodes", "1", *end_with_the_run())
    run("down", other)
    wait_until_nothing_names(other)
    assert own_admin.answers()
