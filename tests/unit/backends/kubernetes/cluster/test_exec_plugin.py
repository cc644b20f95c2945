"""A kubeconfig's exec plugin, as a real script: what it is told, where it is looked for, and when it can't be used."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from siflow_provider.backends.kubernetes.cluster.login import Login
from siflow_provider.errors import BackendError
from tests.unit.backends.kubernetes.cluster.conftest import kubeconfig

VERSION = "client.authentication.k8s.io/v1"
SCRIPT = """#!/bin/sh
printf '%s' "$KUBERNETES_EXEC_INFO" > "$(dirname "$0")/told"
printf '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "of-script"}}'
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a kubeconfig with a plugin beside it; the process works elsewhere."""
    script = tmp_path / "config.d" / "bin" / "get-token"
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT)
    script.chmod(0o755)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "config.d"


async def logged_in(folder: Path, cluster: dict[str, Any] | None = None, **plugin: Any) -> dict[str, Any]:
    """Log in with the script and return what it was told."""
    config = kubeconfig("https://api.example:6443", exec={"apiVersion": VERSION, **plugin})
    config["clusters"][0]["cluster"].update(cluster or {})
    (folder / "config").write_text(yaml.safe_dump(config))
    access = await Login({"kube_config_path": str(folder / "config"), "disable_verify_ssl": True}).enter()
    assert access.authorization == "Bearer of-script"
    told: dict[str, Any] = json.loads((folder / "bin" / "told").read_text())["spec"]
    return told


async def test_a_command_with_a_slash_counts_from_the_folder_of_the_kubeconfig(folder: Path) -> None:
    assert await logged_in(folder, command="./bin/get-token", interactiveMode="Never") == {"interactive": False}


async def test_a_command_without_a_slash_is_looked_for_in_the_path(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder / "bin"), prepend=":")
    assert await logged_in(folder, command="get-token", interactiveMode="IfAvailable") == {"interactive": False}


async def test_a_plugin_that_asks_for_the_cluster_is_told_all_of_it(folder: Path, authority: str) -> None:
    (folder / "ca.crt").write_text(authority)
    own = {"issuer": "https://login.example"}
    cluster = {
        "certificate-authority": "ca.crt",
        "tls-server-name": "kube.example",
        "extensions": [
            {"name": "other", "extension": 1},
            {"name": "client.authentication.k8s.io/exec", "extension": own},
        ],
    }
    told = await logged_in(folder, cluster, command="bin/get-token", provideClusterInfo=True)
    assert told["cluster"] == {
        "server": "https://api.example:6443",
        "tls-server-name": "kube.example",
        "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
        "config": own,
    }


async def test_a_plugin_that_needs_a_terminal_is_refused_and_not_started(folder: Path) -> None:
    with pytest.raises(BackendError, match=r"interactiveMode: Always.*service account"):
        await logged_in(folder, command="./bin/get-token", interactiveMode="Always")
    assert not (folder / "bin" / "told").exists()
