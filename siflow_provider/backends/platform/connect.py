"""What a connection to the platform must hold, and the HTTP client that it gives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from siflow_provider import __version__
from siflow_provider.core.web_address import is_web_address
from siflow_provider.errors import UsageError

if TYPE_CHECKING:
    from siflow_provider.backends.platform.pace import Pace
    from siflow_provider.backends.settings import Settings

__all__ = ["make_http", "told_proxy"]

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_HEADER_TEXT = re.compile(r"[\x21-\x7e]+(?: [\x21-\x7e]+)*")
"""What an HTTP header carries: visible ASCII, blanks between."""


def make_http(settings: Settings, pace: Pace) -> httpx.AsyncClient:
    """Return a client with this connection's standing headers, timeouts and proxy.

    Raises:
        UsageError: the connection lacks something, or holds what can't be sent.
    """
    _require(settings)
    try:
        return httpx.AsyncClient(
            headers=_standing_headers(settings),
            timeout=httpx.Timeout(pace.answer, connect=pace.connect),
            limits=httpx.Limits(max_connections=20, max_keepalive_connections=10),
            proxy=settings.proxy or None,
            trust_env=False,  # a proxy is a decision of the connection, not of whatever shell started Airflow
        )
    except (ValueError, httpx.InvalidURL, ImportError) as error:
        kind = type(error).__name__  # without its text, which may hold the proxy's password
        raise UsageError(
            f"`proxy` in the connection's extra can't be used ({kind}).",
            hint="Write it as http://HOST:PORT or http://USER:PASSWORD@HOST:PORT.",
        ) from None


def told_proxy(settings: Settings) -> str:
    """Return ` through the proxy HOST:PORT`, without its password; "" without a proxy."""
    if not settings.proxy:
        return ""
    return f" through the proxy {urlsplit(settings.proxy).netloc.rpartition('@')[2]}"


def _standing_headers(settings: Settings) -> dict[str, str]:
    return {
        "Accept": "application/json",
        "Content-Type": "application/json",
        "User-Agent": f"airflow-provider-siflow/{__version__}",
        "X-Region": settings.region or "",
        "X-Cluster": settings.cluster or "",
    }


def _require(settings: Settings) -> None:
    secret = settings.password.reveal() if settings.password is not None else ""
    needed = (
        ("host (the base URL, such as https://console.siflow.cn/sfapi)", settings.host),
        ("login (the access key id)", settings.login),
        ("password (the access key's secret)", secret),
        ("region", settings.region),
        ("cluster", settings.cluster),
    )
    lacks = [name for name, value in needed if not value]
    if lacks:
        raise UsageError(
            f"the connection to the platform lacks: {', '.join(lacks)}.",
            hint="Region and cluster stand in its extra, the others are fields of their own.",
        )
    odd = [name for name, value in needed[1:] if value and name != needed[2][0] and not _HEADER_TEXT.fullmatch(value)]
    if secret != secret.strip():
        odd.append("password (the access key's secret)")
    if odd:
        raise UsageError(
            f"the connection to the platform has, in {', '.join(odd)}, what no access key, region or cluster has: a "
            "blank or a line's end at its beginning or end, or a character that an HTTP header can't carry.",
            hint="Copy it anew.",
        )
    _check_url(settings.host)


def _check_url(host: str) -> None:
    if not is_web_address(host):
        raise UsageError(
            f"the base URL of the platform is {host.rpartition('@')[2]!r}, which is no URL, or had a login before it.",
            hint="Write it as https://console.siflow.cn/sfapi; the access key has fields of its own.",
        )
    parts = urlsplit(host)
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise UsageError(
            "the base URL of the platform begins with http://: only TLS protects what is sent there.",
            hint="Write it with https://.",
        )
