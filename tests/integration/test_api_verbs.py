"""The verbs, as the real API server understands them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Invalid,
    NotFound,
    QuotaExceeded,
)
from siflow_provider.backends.kubernetes.cluster.features import discover, server_version
from siflow_provider.backends.kubernetes.cluster.resources import CONFIGMAPS, PODS, SECRETS
from tests.control_plane.admin import Admin, condition
from tests.control_plane.plane import ControlPlane
from tests.integration.clusters import config_map, settings_for


@pytest.fixture
async def api(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Api]:
    async with Api(settings_for(control_plane.kubeconfig, namespace=namespace)) as opened:
        yield opened


async def test_an_object_is_made_changed_and_deleted_once(api: Api) -> None:
    path = CONFIGMAPS.path(api.namespace)
    made = await api.create(path, config_map("a", key="value"))
    with pytest.raises(AlreadyExists, match='"a" already exists'):
        await api.create(path, config_map("a"))
    one = CONFIGMAPS.path(api.namespace, "a")
    assert (await api.patch(one, {"data": {"key": None, "other": "x"}}))["data"] == {"other": "x"}
    with pytest.raises(Conflict):
        await api.delete(one, uid="11111111-2222-3333-4444-555555555555")
    assert await api.delete(one, uid=made["metadata"]["uid"]) is True
    assert await api.delete(one) is False
    with pytest.raises(NotFound):
        await api.get(one)


async def test_a_misspelt_field_is_refused_by_its_name(api: Api) -> None:
    with pytest.raises(Invalid, match='unknown field "dada"'):
        await api.create(CONFIGMAPS.path(api.namespace), {**config_map("a"), "dada": {}})


async def test_a_dry_run_keeps_nothing(api: Api) -> None:
    path = CONFIGMAPS.path(api.namespace)
    assert (await api.create(path, config_map("a"), dry_run=True))["metadata"]["uid"]
    assert await api.delete(f"{path}/a") is False


async def test_the_value_of_a_secret_is_not_repeated_when_it_is_refused(api: Api) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    for wrong in ({"stringData": {"no key": "canary"}}, {"data": {"key": "canary!"}}, {"stringData": ["canary"]}):
        with pytest.raises(Invalid) as raised:
            await api.create(SECRETS.path(api.namespace), {**secret, **wrong})
        assert "canary" not in f"{raised.value} {raised.value.detail} {raised.value!r}"


async def test_all_pages_of_a_list_are_read(api: Api) -> None:
    path = CONFIGMAPS.path(api.namespace)
    await asyncio.gather(*(api.create(path, config_map(f"a-{number}")) for number in range(25)))
    pages = [page async for page in api.pages(path, limit=10)]
    names = {item["metadata"]["name"] for page in pages for item in page["items"]}
    assert {f"a-{number}" for number in range(25)} <= names
    assert len(pages) >= 3


async def test_a_watch_tells_what_happens_in_order(api: Api) -> None:
    path = CONFIGMAPS.path(api.namespace)
    version = (await api.list(path))["metadata"]["resourceVersion"]
    await api.create(path, config_map("a"))
    await api.patch(f"{path}/a", {"data": {"key": "value"}})
    await api.delete(f"{path}/a")
    kinds = []
    async with asyncio.timeout(30), aclosing(api.watch(path, {"resourceVersion": version})) as events:
        async for event in events:
            if event["object"]["metadata"]["name"] == "a":
                kinds.append(event["type"])
            if event["type"] == "DELETED":
                break
    assert kinds == ["ADDED", "MODIFIED", "DELETED"]


async def test_a_version_that_is_long_gone_is_told_as_expired(api: Api) -> None:
    async with aclosing(api.watch(CONFIGMAPS.path(api.namespace), {"resourceVersion": "1"})) as events:
        with pytest.raises(Expired):
            await anext(events)


async def test_a_full_resource_quota_is_worth_another_try_later(api: Api, admin: Admin) -> None:
    quota: dict[str, Any] = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "0"}}}
    quota["metadata"] = {"name": "none", "namespace": api.namespace}
    made = await asyncio.to_thread(admin.create, quota)
    await asyncio.to_thread(admin.wait, admin.path_of(made), lambda found: (found or {}).get("status", {}).get("hard"))
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    pod["spec"] = {"containers": [{"name": "main", "image": "base:test"}]}
    with pytest.raises(QuotaExceeded, match="exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0"):
        await api.create(PODS.path(api.namespace), pod)


async def test_the_operators_of_the_cluster_are_found(api: Api) -> None:
    found = await discover(api)
    assert (found.kueue, found.pytorchjob, found.rayjob, found.trainjob) == (True, True, True, False)
    assert found.versions["kueue.x-k8s.io"][0] == "v1beta2"
    assert (await server_version(api)).startswith("v1.")


async def test_a_command_runs_in_a_container_and_its_log_is_read(api: Api, admin: Admin) -> None:
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": api.namespace}}
    container: dict[str, Any] = {"name": "main", "image": "base:test", "imagePullPolicy": "Never"}
    container["command"] = ["bash", "-c", "echo begun; sleep 600"]
    pod["spec"] = {
        "nodeSelector": {"type": "real"}, "containers": [container], "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0, "tolerations": [{"operator": "Exists"}],
    }  # fmt: skip
    made = await asyncio.to_thread(admin.create, pod)
    path = admin.path_of(made)
    await asyncio.to_thread(admin.wait, path, lambda found: condition(found, "Ready") == "True", "ready", 120)
    done = await api.execute(
        api.namespace, "a", "main", ["bash", "-c", "echo 'a b'; echo odd $1 >&2; exit 7", "-", "ü"]
    )
    assert done == (7, "a b\n", "odd ü\n")
    assert await api.execute(api.namespace, "a", "main", ["true"]) == (0, "", "")
    with pytest.raises(NotFound):
        await api.execute(api.namespace, "none", "main", ["true"])
    with pytest.raises(Invalid, match="none"):
        await api.execute(api.namespace, "a", "none", ["true"])
    async with aclosing(api.stream(PODS.path(api.namespace, "a", "log"), {"container": "main"})) as chunks:
        assert b"".join([chunk async for chunk in chunks]) == b"begun\n"
