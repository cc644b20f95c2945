"""With few rights as much is done as they allow, and what is missing is said."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.errors import Denied
from siflow_provider.backends.kubernetes.cluster.resources import CONFIGMAPS
from siflow_provider.backends.kubernetes.cluster.shared import name_key
from siflow_provider.backends.kubernetes.cluster.store import Store
from siflow_provider.backends.settings import Settings
from siflow_provider.errors import AccessDenied
from siflow_provider.spec.hidden import Hidden
from tests.control_plane.admin import Admin
from tests.control_plane.plane import ControlPlane
from tests.integration.clusters import config_map


@pytest.fixture
def login(admin: Admin, namespace: str, control_plane: ControlPlane) -> Callable[..., Settings]:
    """Return a maker of connections whose service account has these verbs on ConfigMaps."""

    def make(*verbs: str) -> Settings:
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": list(verbs)}
        rbac = "rbac.authorization.k8s.io"
        for obj in (
            {"apiVersion": "v1", "kind": "ServiceAccount"},
            {"apiVersion": f"{rbac}/v1", "kind": "Role", "rules": [rule] if verbs else []},
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "RoleBinding",
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "few"},
                "subjects": [{"kind": "ServiceAccount", "name": "few", "namespace": namespace}],
            },
        ):
            admin.create({**obj, "metadata": {"name": "few", "namespace": namespace}})
        path = admin.path("ServiceAccount", "few", namespace) + "/token"
        token = admin.request("POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"})
        config = yaml.safe_load(control_plane.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token["status"]["token"]}
        options = {"kube_config": Hidden(json.dumps(config)), "namespace": namespace}
        return Settings(backend="kubernetes", kubernetes=options)

    return make


async def _until(store: Store, name: str, wanted: Callable[[tuple[dict[str, Any], ...]], bool]) -> None:
    async with asyncio.timeout(30), store.subscribe(name, name=name) as subscription:
        while not wanted(store.objects(name)):
            await subscription.changed()


async def test_without_list_each_object_is_watched_alone(
    login: Callable[..., Settings], admin: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    settings = await asyncio.to_thread(login, "get", "watch", "create", "delete")
    async with Api(settings) as api:
        path = CONFIGMAPS.path(api.namespace)
        store = Store(api, CONFIGMAPS, api.namespace, key=name_key)
        store.start()
        try:
            await store.ready()
            assert isinstance(store.alone, Denied)
            await api.create(path, config_map("a"))
            async with store.subscribe("a", name="a"):
                await _until(store, "a", lambda found: len(found) == 1)
                await asyncio.to_thread(admin.patch, f"{path}/a", {"data": {"key": "value"}})
                await _until(store, "a", lambda found: found[0].get("data") == {"key": "value"})
                await api.delete(f"{path}/a")
                await _until(store, "a", lambda found: not found)
                assert store.last_seen_deleted("a") is not None
        finally:
            await store.close()
    said = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1
    assert 'cannot list resource "configmaps"' in said[0].message


async def test_with_get_alone_an_object_is_still_followed(login: Callable[..., Settings], admin: Admin) -> None:
    settings = await asyncio.to_thread(login, "get")
    async with Api(settings) as api:
        path = CONFIGMAPS.path(api.namespace)
        await asyncio.to_thread(admin.create, _placed(config_map("a", key="old"), api.namespace))
        store = Store(api, CONFIGMAPS, api.namespace, key=name_key)
        store.start()
        try:
            async with store.subscribe("a", name="a"):
                await _until(store, "a", lambda found: found[0]["data"] == {"key": "old"})
                await asyncio.to_thread(admin.patch, f"{path}/a", {"data": {"key": "new"}})
                await _until(store, "a", lambda found: found[0]["data"] == {"key": "new"})
        finally:
            await store.close()


async def test_without_any_right_the_missing_one_is_named(login: Callable[..., Settings]) -> None:
    settings = await asyncio.to_thread(login)
    async with Api(settings) as api:
        with pytest.raises(AccessDenied, match=r'cannot create resource "configmaps".*doctor') as raised:
            await api.create(CONFIGMAPS.path(api.namespace), config_map("a"))
    assert isinstance(raised.value, Denied)
    assert raised.value.status == 403


async def test_a_token_that_is_none_is_refused_without_being_shown(control_plane: ControlPlane) -> None:
    config = yaml.safe_load(await asyncio.to_thread(control_plane.kubeconfig.read_text))
    config["users"][0]["user"] = {"token": "canary"}
    async with Api(Settings(backend="kubernetes", kubernetes={"kube_config": Hidden(json.dumps(config))})) as api:
        with pytest.raises(AccessDenied, match="401") as raised:
            await api.get("/api/v1/namespaces/default/configmaps")
    assert "canary" not in f"{raised.value} {raised.value!r}"


def _placed(obj: dict[str, Any], namespace: str) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
