"""Reads kubeconfig files and a pod's service account with kubernetes_asyncio. Blocks, so it is called in a thread.

The library's own errors are never quoted in full: they may repeat a whole user entry, token included.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import load_incluster_config
from kubernetes_asyncio.config.config_exception import ConfigException
from kubernetes_asyncio.config.dateutil import parse_rfc3339
from kubernetes_asyncio.config.incluster_config import SERVICE_TOKEN_FILENAME
from kubernetes_asyncio.config.kube_config import FileOrData, KubeConfigLoader, KubeConfigMerger

from siflow_provider.backends.kubernetes.cluster.plugin import run_plugin
from siflow_provider.errors import UsageError

__all__ = ["POD_TOKEN", "Credentials", "credentials_of_file", "credentials_of_pod", "credentials_of_text"]

POD_TOKEN = Path(SERVICE_TOKEN_FILENAME)
_POD_NAMESPACE = POD_TOKEN.with_name("namespace")
_FILE_LIFETIME = 60.0
_SKEW = 30.0


@dataclass(frozen=True)
class Credentials:
    """What a kubeconfig's context, or a pod's service account, says; files by their paths."""

    server: str
    namespace: str = ""
    authorization: str = field(default="", repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    lifetime: float | None = None


def credentials_of_pod() -> Credentials:
    """Return the service account's; its token changes about every hour, so it is read again each minute.

    Raises:
        UsageError: this process does not run in a pod, or its pod has no service account.
    """
    found = _new_configuration()
    try:
        load_incluster_config(client_configuration=found, try_refresh_token=False)
        namespace = _POD_NAMESPACE.read_text(encoding="utf-8").strip() if _POD_NAMESPACE.is_file() else ""
    except (ConfigException, OSError) as error:
        raise UsageError(
            f"the connection says `in_cluster`, but this process has no service account to log in with: {error}",
            hint="Run it in a pod with a service account, or give the connection a kubeconfig.",
        ) from None
    return _made(found, namespace, _FILE_LIFETIME)


def credentials_of_file(paths: str, context: str, *, default: bool = False) -> Credentials:
    """Return those of a context of kubeconfig files.

    Args:
        paths: one path, or several as `KUBECONFIG` holds them; earlier ones win.
        context: name of the context; "" for the current one.
        default: nobody chose these files; changes the message only.

    Raises:
        UsageError: no file, no such context, or a file that is no kubeconfig.
    """
    try:
        there = [path for part in paths.split(os.pathsep) if part and (path := Path(part).expanduser()).exists()]
        if not there:
            raise UsageError(
                f"there is no kubeconfig at {paths}, and no service account either." if default
                else f"there is no kubeconfig at {paths}.",
                hint="Set `kube_config_path`, `kube_config` or `in_cluster` in the connection's extra.",
            )  # fmt: skip
        merged = KubeConfigMerger(os.pathsep.join(map(str, there)))
    except OSError as error:
        raise UsageError(f"the kubeconfig at {paths} can't be read: {error.strerror}.") from None
    except (yaml.YAMLError, AttributeError, TypeError, KeyError) as error:
        raise _no_kubeconfig(f"the kubeconfig at {paths}", error) from None
    return _chosen(merged.config, context, f"the kubeconfig at {paths}", merged.save_changes)


def credentials_of_text(text: str | dict[str, Any], context: str) -> Credentials:
    """Return those of a context of a kubeconfig that the connection holds itself.

    Raises:
        UsageError: no such context, or this is no kubeconfig.
    """
    source = "the connection's `kube_config`"
    try:
        config = yaml.safe_load(text) if isinstance(text, str) else text
    except yaml.YAMLError as error:
        raise _no_kubeconfig(source, error) from None
    if not isinstance(config, dict):
        raise _no_kubeconfig(source, None)
    return _chosen(config, context, source, None)


class _Loader(KubeConfigLoader):  # type: ignore[misc]  # the library has no types
    """The library's loader with our runner of plugins."""

    lifetime: float | None = None

    async def load_from_exec_plugin(self) -> bool:
        status = run_plugin(self._user["exec"].value)
        if status.get("token"):
            self.token = f"Bearer {status['token']}"
        if status.get("clientCertificateData"):
            self.cert_file = _as_file(status, "clientCertificateData")
            self.key_file = _as_file(status, "clientKeyData")
        if status.get("expirationTimestamp"):
            ends = parse_rfc3339(status["expirationTimestamp"])
            self.lifetime = max(_SKEW, (ends - datetime.now(UTC)).total_seconds() - _SKEW)
        return True

    def namespace(self) -> str:
        return str((self.current_context or {}).get("context", {}).get("namespace") or "")

    def reads_token_file(self) -> bool:
        return self._user is not None and "tokenFile" in self._user and "token" not in self._user


def _as_file(status: dict[str, Any], key: str) -> str | None:
    path = FileOrData(status, None, data_key_name=key, base64_file_content=False).as_file()
    return None if path is None else str(path)


def _chosen(config: Any, context: str, source: str, persister: Any) -> Credentials:
    found = _new_configuration()
    try:
        loader = _Loader(
            config, active_context=context or None, config_base_path=None, config_persister=_persister(persister)
        )
        # its few coroutines wait for nothing but what runs in this thread, or for an identity provider over HTTP
        asyncio.run(loader.load_and_set(found))
    except ConfigException as error:
        raise _wrong_kubeconfig(config, context, source, error) from None
    except (OSError, AttributeError, TypeError, KeyError, ValueError, AssertionError) as error:
        raise _no_kubeconfig(source, error) from None
    return _made(found, loader.namespace(), _FILE_LIFETIME if loader.reads_token_file() else loader.lifetime)


def _persister(save: Any) -> Any:
    return None if save is None else lambda _config: save()


def _new_configuration() -> Any:
    # not `Configuration()`: its metaclass hands out a copy of a default that anybody in the process may have set
    return type.__call__(Configuration)


def _made(found: Any, namespace: str, lifetime: float | None) -> Credentials:
    return Credentials(
        server=str(found.host).rstrip("/"),
        namespace=namespace,
        authorization=str(found.api_key.get("BearerToken") or "").strip(),
        ca_file=found.ssl_ca_cert,
        cert_file=found.cert_file,
        key_file=found.key_file,
        verify=bool(found.verify_ssl),
        server_name=found.tls_server_name,
        proxy=found.proxy,
        lifetime=lifetime,
    )


def _wrong_kubeconfig(config: Any, context: str, source: str, error: Exception) -> UsageError:
    content = getattr(config, "value", config)
    named = content.get("contexts") or [] if isinstance(content, dict) else []
    known = [str(item["name"]) for item in (getattr(entry, "value", entry) for entry in named) if "name" in item]
    if context and context not in known:
        return UsageError(f"{source} has no context {context!r}.", hint=f"It has: {', '.join(known) or 'none'}.")
    # what stands behind a brace is the entry itself
    return UsageError(f"{source} can't be used: {str(error).partition('{')[0].strip()}")


def _no_kubeconfig(source: str, error: Exception | None) -> UsageError:
    mark = getattr(error, "problem_mark", None)
    place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
    if isinstance(error, OSError):
        return UsageError(f"{source} names a file that can't be read: {error.filename}: {error.strerror}.")
    return UsageError(f"{source} is no kubeconfig{place}.", hint="`kubectl config view` shows what a good one holds.")
