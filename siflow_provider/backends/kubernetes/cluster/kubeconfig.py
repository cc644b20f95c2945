"""Reads kubeconfig files and a pod's service account. Blocks, so it is called in a thread.

kubernetes_asyncio merges the files and logs in; its errors are never quoted, since they may repeat a whole user entry,
token included.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config.config_exception import ConfigException
from kubernetes_asyncio.config.dateutil import parse_rfc3339
from kubernetes_asyncio.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger

from siflow_provider.backends.kubernetes.cluster.plugin import run_plugin
from siflow_provider.backends.kubernetes.cluster.tls import Certificates
from siflow_provider.errors import UsageError
from siflow_provider.spec.paths import expanded

__all__ = ["FILE_LIFETIME", "Credentials", "credentials_of_files", "credentials_of_text"]

FILE_LIFETIME = 60.0
"""Seconds after which a file with a token is read again, as client-go does."""
_SKEW = 30.0
_IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")
_TOLD_TO_PLUGINS = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_NOT_A_KUBECONFIG = (AttributeError, TypeError, KeyError, ValueError, AssertionError, yaml.YAMLError)


@dataclass(frozen=True)
class Credentials:
    """What a kubeconfig's context, or a pod's service account, says."""

    server: str
    namespace: str = ""
    authorization: str = field(default="", repr=False)
    certificates: Certificates = field(default_factory=Certificates)
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    lifetime: float | None = None


def credentials_of_files(paths: str, context: str, *, default: bool = False) -> Credentials:
    """Return those of a context of kubeconfig files.

    Args:
        paths: one path, or several as `KUBECONFIG` holds them; earlier ones win.
        context: name of the context; "" for the current one.
        default: nobody chose these files; changes the message only.

    Raises:
        UsageError: no file, no such context, or a file that is no kubeconfig.
        BackendError: the plugin of the context's user gives no credentials.
    """
    there = [path for part in paths.split(os.pathsep) if part and (path := expanded(part)).exists()]
    if not there:
        raise UsageError(
            f"there is no kubeconfig at {paths}" + (", and no service account either." if default else "."),
            hint="Set `kube_config_path`, `kube_config` or `in_cluster` in the connection's extra.",
        )
    source = f"the kubeconfig at {os.pathsep.join(map(str, there))}"
    try:
        merged = KubeConfigMerger(os.pathsep.join(map(str, there)))
    except OSError as error:
        raise UsageError(f"{source} can't be read: {error.strerror}.") from None
    except _NOT_A_KUBECONFIG as error:
        raise _no_kubeconfig(source, error) from None
    return _chosen(merged.config, context, source, merged.save_changes)


def credentials_of_text(text: str | Mapping[str, Any], context: str) -> Credentials:
    """Return those of a context of a kubeconfig that the connection holds itself.

    Raises:
        UsageError: no such context, or this is no kubeconfig.
        BackendError: the plugin of the context's user gives no credentials.
    """
    source = "the connection's `kube_config`"
    try:
        config = yaml.safe_load(text) if isinstance(text, str) else text
    except yaml.YAMLError as error:
        raise _no_kubeconfig(source, error) from None
    return _chosen(ConfigNode("kube_config", config), context, source, lambda: None)


@dataclass(frozen=True)
class _Chosen:
    """The three entries of a context, each with the folder from which its paths count."""

    name: str
    context: Any
    cluster: Any
    user: Any

    def read(self, node: Any, key: str) -> str:
        """Return what `KEY-data` holds, or the file that `KEY` names."""
        part = _part(node)
        if part.get(f"{key}-data"):
            return base64.b64decode(part[f"{key}-data"]).decode("ascii")
        return self.path(node, key).read_text(encoding="ascii") if part.get(key) else ""

    @staticmethod
    def path(node: Any, key: str) -> Path:
        return _Chosen.folder(node) / expanded(str(_part(node)[key]))

    @staticmethod
    def folder(node: Any) -> Path:
        """Return the folder of the file that an entry stands in; for one in no file, this process's own."""
        return Path(node.path).parent if node.path else Path()


def _chosen(config: Any, context: str, source: str, save: Callable[[], None]) -> Credentials:
    try:
        chosen = _find(config, context, source)
        token, lifetime, exec_certificates = _log_in(chosen, save)
        return _credentials(chosen, token, lifetime, exec_certificates, source)
    except OSError as error:
        raise UsageError(f"{source} names a file that can't be read: {error.filename}: {error.strerror}.") from None
    except (ConfigException, binascii.Error, *_NOT_A_KUBECONFIG) as error:
        raise _no_kubeconfig(source, error) from None


def _find(config: Any, context: str, source: str) -> _Chosen:
    name = context or str(config.value.get("current-context") or "")
    known = [str(getattr(entry, "value", entry)["name"]) for entry in config.value.get("contexts") or []]
    if name not in known:
        said = f"has no context {name!r}" if name else "names no current context"
        raise UsageError(f"{source} {said}.", hint=f"It has: {', '.join(known) or 'none'}.")
    found = config["contexts"].get_with_name(name)
    inner = _part(found)
    cluster = config["clusters"].get_with_name(inner.get("cluster"), safe=True)
    if cluster is None or not _part(cluster).get("server"):
        raise UsageError(f"{source} names no server for the context {name!r}.")
    users = config["users"] if config.value.get("users") else None
    user = None if users is None else users.get_with_name(inner.get("user"), safe=True)
    _check_user(user, source)
    return _Chosen(name, found, cluster, user)


def _check_user(user: Any, source: str) -> None:
    """Refuse a user that acts as another one: without that it would have rights that nobody meant it to use."""
    found = [key for key in _IMPERSONATION if _part(user).get(key)]
    if found:
        raise UsageError(
            f"{source} sets {', '.join(f'`{key}`' for key in found)} for its user: impersonation is not supported.",
            hint="Use a login that has just the rights meant, such as the token of a service account.",
        )


def _part(node: Any) -> Mapping[str, Any]:
    """Return what an entry `{name: ..., user: {...}}` holds beside its name."""
    if node is None:
        return {}
    rest: list[Any] = [value for key, value in node.value.items() if key != "name"]
    return dict(rest[0] or {}) if rest else {}


def _log_in(chosen: _Chosen, save: Callable[[], None]) -> tuple[str, float | None, Certificates | None]:
    """Return the header's value, after how long it must be renewed, and a plugin's certificates."""
    user = _part(chosen.user)
    if user.get("auth-provider"):
        return _of_provider(chosen, save), None, None
    if user.get("exec"):
        told = run_plugin(user["exec"], folder=chosen.folder(chosen.user), cluster=_for_plugin(chosen))
        return _of_plugin(told)
    if user.get("token"):
        return f"Bearer {user['token']}".strip(), None, None
    if user.get("tokenFile"):
        token = chosen.path(chosen.user, "tokenFile").read_text(encoding="utf-8").strip()
        return f"Bearer {token}", FILE_LIFETIME, None
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password') or ''}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}", None, None
    return "", None, None


def _for_plugin(chosen: _Chosen) -> dict[str, Any]:
    """Return the cluster as a plugin is told of it. source: client-go v0.35.3 `rest/exec.go`, ConfigToExecCluster."""
    cluster = _part(chosen.cluster)
    told = {key: cluster[key] for key in _TOLD_TO_PLUGINS if cluster.get(key)}
    authority = chosen.read(chosen.cluster, "certificate-authority")
    if authority:
        told["certificate-authority-data"] = base64.b64encode(authority.encode("ascii")).decode("ascii")
    for extension in cluster.get("extensions") or []:
        if extension.get("name") == _EXEC_EXTENSION:
            told["config"] = extension.get("extension")
    return told


def _of_plugin(status: Mapping[str, Any]) -> tuple[str, float | None, Certificates | None]:
    lifetime = None
    if status.get("expirationTimestamp"):
        ends = parse_rfc3339(status["expirationTimestamp"])
        lifetime = max(_SKEW, (ends - datetime.now(UTC)).total_seconds() - _SKEW)
    shown = None
    if status.get("clientCertificateData"):
        shown = Certificates(client=str(status["clientCertificateData"]), key=str(status.get("clientKeyData") or ""))
    return f"Bearer {status['token']}" if status.get("token") else "", lifetime, shown


def _of_provider(chosen: _Chosen, save: Callable[[], None]) -> str:
    """Log in with an identity provider (`oidc`, `gcp`), which may hand out a new token, to be saved."""
    entry = {
        "current-context": chosen.name,
        "contexts": [chosen.context],
        # without certificates, which the library would write to files
        "clusters": [{"name": _part(chosen.context)["cluster"], "cluster": {}}],
        "users": [chosen.user],
    }
    # not `Configuration()`: its metaclass hands out a copy of a default that anybody in the process may have set
    found = type.__call__(Configuration)
    loader = KubeConfigLoader(entry, config_persister=lambda _config: save())
    # waits for nothing but an identity provider over HTTP
    asyncio.run(loader.load_and_set(found))
    return str(found.api_key.get("BearerToken") or "").strip()


def _credentials(
    chosen: _Chosen, token: str, lifetime: float | None, shown: Certificates | None, source: str
) -> Credentials:
    cluster = _part(chosen.cluster)
    server, proxy = str(cluster["server"]).rstrip("/"), cluster.get("proxy-url")
    if not server.startswith(("https://", "http://")):
        raise UsageError(f"the server {server!r} in {source} must begin with https://.")
    if proxy and not str(proxy).startswith(("https://", "http://")):
        raise UsageError(f"the `proxy-url` in {source} must begin with http://; other proxies are not supported.")
    return Credentials(
        server=server,
        namespace=str(_part(chosen.context).get("namespace") or ""),
        authorization=token,
        certificates=Certificates(
            authority=chosen.read(chosen.cluster, "certificate-authority"),
            client=shown.client if shown else chosen.read(chosen.user, "client-certificate"),
            key=shown.key if shown else chosen.read(chosen.user, "client-key"),
            verify=not cluster.get("insecure-skip-tls-verify"),
        ),
        server_name=cluster.get("tls-server-name"),
        proxy=proxy,
        lifetime=lifetime,
    )


def _no_kubeconfig(source: str, error: Exception) -> UsageError:
    mark = getattr(error, "problem_mark", None)
    place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
    return UsageError(f"{source} is no kubeconfig{place}.", hint="`kubectl config view` shows what a good one holds.")
