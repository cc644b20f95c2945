"""Whether a text that a person typed is the address of a server, so that nothing odd or secret is asked, or shown."""

from __future__ import annotations

from urllib.parse import urlsplit

__all__ = ["is_web_address"]


def is_web_address(text: str) -> bool:
    """Say whether it is an http(s) URL with a host, and without a login, which would stand in every error.

    Example:
        >>> [is_web_address(text) for text in ("https://a.example/x", "https://me:word@a.example", "https://a:b", "a")]
        [True, False, False, False]
    """
    try:
        parts = urlsplit(text)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port or an IPv6 address that is none
        return False
    return known and "@" not in parts.netloc
