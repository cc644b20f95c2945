"""A connection's way to log in: which one counts, what it gives, and what stays hidden."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from siflow_provider.backends.kubernetes.cluster import service_account
from siflow_provider.backends.kubernetes.cluster.login import Login
from siflow_provider.errors import BackendError, BackendUnavailable, UsageError
from siflow_provider.spec.hidden import Hidden
from tests.unit.backends.kubernetes.cluster.conftest import kubeconfig

CANARY = "canary-7f3a-token"


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No pod, no kubeconfig, no proxy."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(service_account, "FOLDER", tmp_path / "serviceaccount")


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, authority: str) -> Path:
    """The service account of a pod."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    for name, text in {"token": f"{CANARY}\n", "namespace": "pod-ns", "ca.crt": authority}.items():
        (folder / name).write_text(text)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return folder


def written(path: Path, config: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(config))
    return path


async def test_a_file_gives_server_token_and_the_namespace_of_its_context(tmp_path: Path) -> None:
    path = written(tmp_path / "config", kubeconfig("http://file:1", token=CANARY))
    access = await Login({"kube_config_path": str(path)}).enter()
    assert (access.server, access.namespace, access.authorization) == ("http://file:1", "ml", f"Bearer {CANARY}")


async def test_the_namespace_of_the_connection_wins(tmp_path: Path) -> None:
    path = written(tmp_path / "config", kubeconfig("http://file:1"))
    assert (await Login({"kube_config_path": str(path), "namespace": "own"}).enter()).namespace == "own"


async def test_the_context_of_a_task_wins_over_that_of_the_connection(tmp_path: Path) -> None:
    path = written(tmp_path / "config", kubeconfig("http://file:1"))
    options = {"kube_config_path": str(path), "cluster_context": "here"}
    assert (await Login(options).enter()).namespace == "ml"
    assert (await Login(options, "there").enter()).namespace == "default"


async def test_a_kubeconfig_inside_the_connection_is_taken_as_text_or_mapping() -> None:
    config = kubeconfig("http://inline:1", username="me", password=CANARY)
    for inline in (Hidden(json.dumps(config)), Hidden(yaml.safe_dump(config)), config):
        access = await Login({"kube_config": inline}).enter()
        assert access.server == "http://inline:1"
        assert access.authorization.startswith("Basic ")


async def test_a_pod_uses_its_service_account_and_sees_a_new_token(pod: Path) -> None:
    login = Login({"in_cluster": True})
    access = await login.enter()
    assert (access.server, access.namespace) == ("https://10.0.0.1:443", "pod-ns")
    assert access.authorization == f"Bearer {CANARY}"
    assert access.lifetime is not None
    (pod / "token").write_text("renewed")
    again = await login.enter()
    assert again.authorization == "Bearer renewed"
    assert again.tls is access.tls


async def test_without_a_choice_the_service_account_comes_before_the_default_file(
    pod: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "home/.kube/config", kubeconfig("http://default:1"))
    assert (await Login({}).enter()).server == "https://10.0.0.1:443"
    assert (await Login({}, "there").enter()).server == "http://default:1"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert (await Login({}).enter()).server == "http://default:1"


@pytest.mark.parametrize("way", ["path", "inline", "context"])
async def test_nothing_around_the_connection_leads_to_another_cluster(
    way: str, pod: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(written(tmp_path / "environment", kubeconfig("http://elsewhere:1"))))
    written(tmp_path / "home/.kube/config", kubeconfig("http://elsewhere:2"))
    own = kubeconfig("http://own:1")
    path = str(written(tmp_path / "own", own))
    options: dict[str, dict[str, Any]] = {
        "path": {"kube_config_path": path},
        "inline": {"kube_config": Hidden(json.dumps(own))},
        "context": {"kube_config_path": path, "cluster_context": "there"},
    }
    for context in ("", "there"):
        assert (await Login(options[way], context).enter()).server == "http://own:1"


async def test_several_files_of_the_environment_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kubeconfig("http://first:1", token="a")
    second = {
        "clusters": [{"name": "d", "cluster": {"server": "http://second:1"}}],
        "users": [{"name": "v", "user": {"tokenFile": "token"}}],
        "contexts": [{"name": "other", "context": {"cluster": "d", "user": "v"}}],
    }
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/token").write_text(f"{CANARY}\n")
    paths = [written(tmp_path / "one", first), written(tmp_path / "sub/two", second), tmp_path / "missing"]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, paths)))
    assert (await Login({}).enter()).server == "http://first:1"
    access = await Login({}, "other").enter()
    assert (access.server, access.authorization) == ("http://second:1", f"Bearer {CANARY}")
    assert access.lifetime is not None


def plugin(tmp_path: Path, code: str) -> dict[str, Any]:
    path = tmp_path / "plugin.py"
    path.write_text(code)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(path)],
            "env": [{"name": "GIVEN", "value": CANARY}]}  # fmt: skip


PRINTS_TOKEN = """
import json, os, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status":
    {"token": os.environ["GIVEN"], "expirationTimestamp": "2999-01-01T00:00:00Z"}}))
"""


async def test_a_plugin_is_asked_for_a_token(tmp_path: Path) -> None:
    config = kubeconfig("http://inline:1", exec=plugin(tmp_path, PRINTS_TOKEN))
    access = await Login({"kube_config": config}).enter()
    assert access.authorization == f"Bearer {CANARY}"
    assert access.lifetime is not None
    assert access.lifetime > 3600


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (f"import sys; print({CANARY!r}, file=sys.stderr); sys.exit(3)", BackendUnavailable, "exit code 3"),
        (f"print({CANARY!r})", BackendError, "must print an ExecCredential"),
        (f"print('[\"{CANARY}\"]')", BackendError, "must print an ExecCredential"),
    ],
)
async def test_a_plugin_that_fails_is_named_and_its_output_is_not(
    tmp_path: Path, code: str, kind: type[Exception], said: str
) -> None:
    config = kubeconfig("http://inline:1", exec=plugin(tmp_path, code))
    with pytest.raises(kind, match=said) as raised:
        await Login({"kube_config": config}).enter()
    assert CANARY not in str(raised.value)


async def test_a_plugin_that_is_not_installed_is_named_with_its_hint() -> None:
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin", "installHint": "Get it."}
    with pytest.raises(BackendError, match=r"'no-such-plugin'.*Get it\."):
        await Login({"kube_config": kubeconfig("http://inline:1", exec=spec)}).enter()


@pytest.mark.parametrize(
    ("options", "context", "said"),
    [
        ({"kube_config_path": "/no/such/file"}, "", "no kubeconfig at /no/such/file"),
        ({}, "", "no service account either"),
        ({"in_cluster": True}, "", "finds no service account"),
        ({"in_cluster": True}, "there", "context 'there' can't be used"),
        ({"kube_config": kubeconfig("http://a:1", token=CANARY)}, "gone", "no context 'gone'. It has: here, there"),
        ({"kube_config": {"users": [{"user": {"token": CANARY}}]}}, "", "names no current context"),
        ({"kube_config": {**kubeconfig("http://a:1"), "clusters": []}}, "", "names no server for the context 'here'"),
        ({"kube_config": kubeconfig("10.0.0.1:6443", token=CANARY)}, "", "must begin with https://"),
        ({"kube_config": {**kubeconfig("http://a:1"), "users": [{"user": {"token": CANARY}}]}}, "", "is no kubeconfig"),
        ({"kube_config": f"a: [{CANARY}"}, "", r"is no kubeconfig \(line 1, column"),
        ({"kube_config": CANARY}, "", "is no kubeconfig"),
        ({"kube_config": kubeconfig("http://a:1", tokenFile="/no/token")}, "", "can't be read: /no/token"),
        ({"kube_config": kubeconfig("http://a:1", token=CANARY, **{"as": "mia"})}, "", "sets `as` for its user"),
        (
            {"kube_config": kubeconfig("http://a:1", token=CANARY, **{"as-groups": ["ml"], "as-uid": "7"})},
            "there",
            "sets `as-uid`, `as-groups` for its user",
        ),
        (
            {"kube_config": kubeconfig("https://a:1", **{"client-certificate-data": "Y2FuYXJ5"})},
            "",
            "certificate or key",
        ),
    ],
)
async def test_what_is_wrong_is_said_without_a_value_of_it(options: dict[str, Any], context: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        await Login(options, context).enter()
    assert CANARY not in f"{raised.value!r} {raised.value}"


async def test_nothing_that_is_hidden_shows_in_a_repr() -> None:
    config = kubeconfig("http://user:1", token=CANARY)
    access = await Login({"kube_config": Hidden(json.dumps(config))}).enter()
    assert CANARY not in repr(access)


async def test_files_and_plugins_are_read_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "config", kubeconfig("http://inline:1", exec=plugin(tmp_path, PRINTS_TOKEN)))
    threads = set()
    run = subprocess.run

    def noted(*args: Any, **options: Any) -> Any:
        threads.add(threading.get_ident())
        return run(*args, **options)

    monkeypatch.setattr(subprocess, "run", noted)
    await Login({"kube_config_path": str(path)}).enter()
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_the_proxy_of_the_environment_is_used_but_for_hosts_that_it_excludes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "near")
    assert (await Login({"kube_config": kubeconfig("http://far:1")}).enter()).proxy == "http://proxy:3128"
    assert (await Login({"kube_config": kubeconfig("http://near:1")}).enter()).proxy is None
