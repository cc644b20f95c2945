"""SSH between the pods: keys by reference, hosts in order of rank, the server before the command."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from siflow_provider.backends.kubernetes.names import KEYS_DIR, RUN_DIR, SCRIPTS_DIR, SSH_KEYS, env_secret
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor
from tests.unit.backends.kubernetes import kubelet
from tests.unit.backends.kubernetes.tasks import CPU, container, document, env, pods, pytorch, ray, rendered

KEYS = [{"key": key, "path": file} for key, file in SSH_KEYS.items()]
SERVER = '#!/bin/sh\necho "sshd $*" >> "$BOX/calls"\n'


def test_keys_are_named_and_not_rendered() -> None:
    manifest = rendered(pytorch(ssh=True, workers=1))
    for role in ("master", "worker"):
        secrets = [volume["secret"] for volume in pods(manifest)[role]["spec"]["volumes"] if "secret" in volume]
        assert secrets == [{"secretName": env_secret(manifest.name), "items": KEYS, "defaultMode": 0o400}]
    assert [item["kind"] for item in manifest.documents] == ["PyTorchJob", "ConfigMap"]


def test_hostfiles_stand_where_the_form_says_in_order_of_rank_with_one_slot_a_gpu() -> None:
    manifest = rendered(pytorch(ssh=True, workers=11))
    data = document(manifest, "ConfigMap")["data"]
    hosts = [f"{manifest.name}-master-0", *(f"{manifest.name}-worker-{n}" for n in range(11))]
    assert data["hostfile"] == "".join(f"{host} slots=8\n" for host in hosts)
    assert data["hostfile.hostname"].splitlines() == hosts
    mounts = {mount["mountPath"]: mount.get("subPath") for mount in container(manifest, "worker")["volumeMounts"]}
    assert mounts["/root/hostfile"] == "hostfile"
    assert mounts["/root/hostfile.hostname"] == "hostfile.hostname"
    assert env(manifest, "worker")["SIFLOW_HOSTFILE"] == "/root/hostfile"


@pytest.mark.parametrize(
    ("flavor", "slots"),
    [(CPU, 16), (Flavor(instance="small", resources=Resources.of({"cpu": "500m"})), 1)],
)
def test_replica_without_gpu_has_one_slot_a_core_and_never_none(flavor: Flavor, slots: int) -> None:
    manifest = rendered(pytorch(ssh=True), flavors=(flavor,))
    assert document(manifest, "ConfigMap")["data"]["hostfile"] == f"{manifest.name}-master-0 slots={slots}\n"


def test_task_without_ssh_has_neither_keys_nor_hosts() -> None:
    manifest = rendered(pytorch(workers=1))
    assert set(document(rendered(ray(workers=1)), "ConfigMap")["data"]) == {"command", "run.sh"}
    assert [item["kind"] for item in manifest.documents] == ["PyTorchJob"]
    assert not any("secret" in volume for volume in pods(manifest)["master"]["spec"]["volumes"])


def test_every_ray_pod_starts_the_server_before_ray() -> None:
    manifest = rendered(ray(ssh=True, workers=1))
    commands = [container(manifest, role)["command"] for role in ("head", "worker")]
    assert commands == [["bash", f"{SCRIPTS_DIR}/ssh.sh"]] * 2
    assert "command" not in container(manifest, "submitter")
    assert not any(mount["mountPath"] == "/root/hostfile" for mount in container(manifest, "head")["volumeMounts"])


class Box:
    """A stand-in for a container: its folders, and an SSH server that writes down how it was started."""

    def __init__(self, folder: Path, *, server: bool, hosts: str = "") -> None:
        self.folder = folder
        for name in ("scripts", "run", "keys", "home", "bin"):
            (folder / name).mkdir()
        (folder / "keys" / "id_ed25519").write_text("private\n")
        (folder / "keys" / "id_ed25519.pub").write_text("public\n")
        (folder / "hosts").write_text(hosts)
        if server:
            (folder / "bin" / "sshd").write_text(SERVER)
            (folder / "bin" / "sshd").chmod(0o755)

    def run(self, port: int = 22, **env: str) -> subprocess.CompletedProcess[str]:
        manifest = rendered(pytorch(ssh=True, command='echo "command"; exit 3'))
        master = container(manifest, "master")
        places = {
            KEYS_DIR: str(self.folder / "keys"),
            SCRIPTS_DIR: str(self.folder / "scripts"),
            RUN_DIR: str(self.folder / "run"),
            "/run/sshd": str(self.folder / "run" / "sshd"),
            "/root/hostfile.hostname": str(self.folder / "hosts"),
            "/dev/tcp/$1/22": f"/dev/tcp/$1/{port}",
            ":/usr/sbin:/sbin:/usr/local/sbin": "",
        }

        def placed(text: str) -> str:
            for place, here in places.items():
                text = text.replace(place, here)
            return text

        for name, text in document(manifest, "ConfigMap")["data"].items():
            (self.folder / "scripts" / name).write_text(placed(text))
        base = {"HOME": str(self.folder / "home"), "BOX": str(self.folder), "SIFLOW_RESULTS": str(self.folder / "none")}
        base["PATH"] = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        command = [placed(word.decode()) for word in kubelet.argv(master, kubelet.environment(master))]
        return subprocess.run(command, env=base | env, capture_output=True, text=True, timeout=60, check=False)


def test_server_runs_before_the_command_and_the_client_uses_the_jobs_key(tmp_path: Path) -> None:
    box = Box(tmp_path, server=True)
    done = box.run(RANK="1")
    assert (done.returncode, done.stdout, done.stderr) == (3, "command\n", "")
    assert (tmp_path / "calls").read_text().startswith("sshd -f ")
    key = tmp_path / "run" / "ssh" / "id_ed25519"
    assert (key.read_text(), key.stat().st_mode & 0o777) == ("private\n", 0o600)
    assert (tmp_path / "run" / "ssh" / "authorized_keys").read_text() == "public\n"
    assert f"IdentityFile {key}" in (tmp_path / "home" / ".ssh" / "config").read_text()
    assert "PATH=" in (tmp_path / "home" / ".ssh" / "environment").read_text()


def test_clients_own_settings_of_the_image_are_kept(tmp_path: Path) -> None:
    box = Box(tmp_path, server=True)
    (tmp_path / "home" / ".ssh").mkdir()
    (tmp_path / "home" / ".ssh" / "config").write_text("Host other\n  User ada\n")
    box.run(RANK="1")
    text = (tmp_path / "home" / ".ssh" / "config").read_text()
    assert text.startswith("Host *\n")
    assert text.endswith("Host other\n  User ada\n")


def test_image_without_a_server_fails_with_what_to_do(tmp_path: Path) -> None:
    done = Box(tmp_path, server=False).run(RANK="1")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "the image has no sshd; install OpenSSH" in done.stderr


def test_rank_0_starts_when_every_host_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        box = Box(tmp_path, server=True, hosts="127.0.0.1\n127.0.0.1\n")
        done = box.run(port=server.getsockname()[1], RANK="0")
    assert (done.returncode, done.stdout) == (3, "command\n")
