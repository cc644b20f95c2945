"""Logins that have the rights of `deploy/rbac.yaml`, or some less, in a test's namespace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from siflow_provider.backends.kubernetes.checkup.rights import ask_rights
from siflow_provider.backends.kubernetes.checkup.rules import RULES, Reach, Rule
from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.rights import rule_text
from siflow_provider.backends.settings import Settings
from siflow_provider.spec.hidden import Hidden
from tests.control_plane.admin import Admin, Object

RBAC = Path(__file__).parents[2] / "deploy" / "rbac.yaml"
_ACCOUNT = "siflow-provider"
_AIRFLOW, _TASKS = "airflow", "ml"


def reach_of(document: Object) -> Reach:
    """Return where the rules of a Role count."""
    if document["kind"] == "ClusterRole":
        return Reach.CLUSTER
    place = document["metadata"]["namespace"]
    return Reach.TASKS if place == _TASKS else Reach(place)


def rule_data(rule: Rule) -> dict[str, Any]:
    """Return a rule as it stands in a Role."""
    (data,) = yaml.safe_load(rule_text(rule.group, rule.resource, rule.verbs, rule.names))
    found: dict[str, Any] = data
    return found


class Logins:
    """Makes service accounts with their rights, and removes what lies outside of the test's namespace.

    Args:
        admin: makes them.
        namespace: of the test; it stands for both namespaces of the file.
        kubeconfig: where the cluster is.
    """

    def __init__(self, admin: Admin, namespace: str, kubeconfig: Path) -> None:
        self._admin, self._namespace, self._kubeconfig = admin, namespace, kubeconfig
        self._made: list[str] = []
        self._bindings: list[Object] = []

    async def login(self, without: Callable[[Rule], bool] = lambda _: False, **connection: Any) -> Settings:
        """Return a connection with all rights but some, once the cluster has taken note of them."""
        settings = await asyncio.to_thread(self._grant, without, connection)
        async with Api(settings) as api, asyncio.timeout(60):
            while not await self._is_known(api, without):
                pass
        return settings

    async def _is_known(self, api: Api, without: Callable[[Rule], bool]) -> bool:
        missing = await ask_rights(api, RULES, [self._namespace])
        return all(bool(places) == without(rule) for rule, places in missing.items())

    @asynccontextmanager
    async def taken_away(self, settings: Settings) -> AsyncIterator[None]:
        """Take all rights away, and give them back at the end, as when the file is applied anew."""
        async with Api(settings) as api, asyncio.timeout(120):
            for binding in self._bindings:
                await asyncio.to_thread(self._admin.delete, self._admin.path_of(binding))
            await self._until_missing(api, all)
            yield
            for binding in self._bindings:
                await asyncio.to_thread(self._admin.create, binding)
            await self._until_missing(api, lambda missing: not any(missing))

    async def _until_missing(self, api: Api, wanted: Callable[[Iterable[bool]], bool]) -> None:
        while not wanted([bool(places) for places in (await ask_rights(api, RULES, [self._namespace])).values()]):
            pass

    def _grant(self, without: Callable[[Rule], bool], connection: dict[str, Any]) -> Settings:
        for document in self._documents(without):
            self._admin.create(document)
            if document["kind"].endswith("Binding"):
                self._bindings.append(document)
            if document["metadata"].get("namespace") != self._namespace:
                self._made.append(self._admin.path_of(document))
        path = self._admin.path("ServiceAccount", _ACCOUNT, self._namespace) + "/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self._admin.request("POST", path, request)["status"]["token"]
        config = yaml.safe_load(self._kubeconfig.read_text(encoding="utf-8"))
        config["users"][0]["user"] = {"token": token}
        options = {"kube_config": Hidden(json.dumps(config)), "namespace": self._namespace}
        return Settings(backend="kubernetes", kubernetes=options, **connection)

    def _documents(self, without: Callable[[Rule], bool]) -> Iterator[Object]:
        """Yield the objects of the file, moved into the test's namespace and named so that no other test has them."""
        for document in yaml.safe_load_all(RBAC.read_text(encoding="utf-8")):
            if "rules" in document:
                left = [rule_data(rule) for rule in RULES if rule.reach is reach_of(document) and not without(rule)]
                document["rules"] = [rule for rule in document["rules"] if rule in left]
            metadata = document["metadata"]
            if metadata.get("namespace") in {_AIRFLOW, _TASKS}:
                metadata["namespace"] = self._namespace
            else:
                metadata["name"] = self._namespace
            if "roleRef" in document:
                document["roleRef"]["name"] = metadata["name"]
                document["subjects"][0]["namespace"] = self._namespace
            yield document

    def close(self) -> None:
        """Remove what the namespace does not take with it."""
        for path in reversed(self._made):
            self._admin.delete(path)
