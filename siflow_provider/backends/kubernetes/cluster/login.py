"""A connection's way to log in -> where the API server is and what to show it.

Which way counts is the cncf provider's rule: `in_cluster`, `kube_config_path` or `kube_config` where one is given (two
are refused when the connection is read), else the service account of this pod, else the default kubeconfig
(`KUBECONFIG`, `~/.kube/config`). A context that is named can only come from a kubeconfig, so then the service account
is not looked at.
source: cncf-kubernetes 10.25.0 `hooks/kubernetes.py` (`get_conn`, `_get_default_client`)
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from siflow_provider.backends.kubernetes.cluster.kubeconfig import (
    Credentials,
    credentials_of_files,
    credentials_of_text,
)
from siflow_provider.backends.kubernetes.cluster.service_account import credentials_of_pod, is_in_pod
from siflow_provider.backends.kubernetes.cluster.tls import Certificates, make_tls
from siflow_provider.errors import UsageError
from siflow_provider.spec.hidden import Hidden

__all__ = ["Access", "Login"]

_DEFAULT_KUBECONFIG = "~/.kube/config"


@dataclass(frozen=True)
class Access:
    """What a request needs.

    Attributes:
        server: base URL of the API server.
        namespace: the one to use where nobody names one.
        tls: checks the server and shows the client's certificate; True (the library's own) for plain HTTP.
        server_name: the name in the server's certificate, where it is not the URL's.
        authorization: value of the header of that name; "" for none.
        proxy: URL of the proxy, None for none.
        keepalive: ask peers that say nothing whether they are there.
        lifetime: seconds after which to log in again; None for only when the server refuses.
    """

    server: str
    namespace: str
    tls: ssl.SSLContext | bool = field(default=True, repr=False)
    server_name: str | None = None
    authorization: str = field(default="", repr=False)
    proxy: str | None = field(default=None, repr=False)
    keepalive: bool = True
    lifetime: float | None = None


class Login:
    """Logs in, as often as need be.

    Args:
        options: the cncf provider's options of the connection (`Settings.kubernetes`).
        context: a context of the kubeconfig; "" for the connection's `cluster_context`, else the kubeconfig's current.
    """

    def __init__(self, options: Mapping[str, Any], context: str = "") -> None:
        self._options = options
        self._context = context or str(options.get("cluster_context") or "")
        self._tls: tuple[Certificates, ssl.SSLContext] | None = None

    async def enter(self) -> Access:
        """Log in. Files, plugins and certificates are read in a thread, not in the event loop.

        Raises:
            UsageError: the connection or the kubeconfig is wrong: says what, never a value of it.
            BackendError: the kubeconfig's plugin can't be used.
            BackendUnavailable: the plugin gave no credentials now.
        """
        return await asyncio.to_thread(self._enter)

    def _enter(self) -> Access:
        found = self._credentials()
        return Access(
            server=found.server,
            namespace=str(self._options.get("namespace") or found.namespace or "default"),
            tls=self._tls_of(found.certificates) if found.server.startswith("https:") else True,
            server_name=found.server_name,
            authorization=found.authorization,
            proxy=found.proxy or _proxy_for(found.server),
            keepalive=not self._options.get("disable_tcp_keepalive"),
            lifetime=found.lifetime,
        )

    def _credentials(self) -> Credentials:
        path, inline = self._options.get("kube_config_path"), self._options.get("kube_config")
        if self._options.get("in_cluster"):
            return self._of_pod()
        if path:
            return credentials_of_files(str(path), self._context)
        if inline:
            return credentials_of_text(inline.reveal() if isinstance(inline, Hidden) else inline, self._context)
        if not self._context and is_in_pod():
            return credentials_of_pod()
        return credentials_of_files(os.environ.get("KUBECONFIG") or _DEFAULT_KUBECONFIG, self._context, default=True)

    def _of_pod(self) -> Credentials:
        if self._context:
            raise UsageError(
                f"the context {self._context!r} can't be used: the connection logs in with the service account of its "
                "own pod (`in_cluster`), which leads to one cluster only.",
                hint="Give the connection a kubeconfig with that context (`kube_config_path` or `kube_config`).",
            )
        return credentials_of_pod()

    def _tls_of(self, certificates: Certificates) -> ssl.SSLContext:
        """Return the context of the last login while nothing changed, so that open connections are used on."""
        if self._options.get("disable_verify_ssl"):
            certificates = replace(certificates, verify=False)
        if self._tls is None or self._tls[0] != certificates:
            self._tls = (certificates, make_tls(certificates))
        return self._tls[1]


def _proxy_for(server: str) -> str | None:
    """Return the proxy of the environment for this server; kubectl looks at the same variables."""
    parts = urlsplit(server)
    if proxy_bypass(parts.netloc):
        return None
    return getproxies().get(parts.scheme)
