"""The four headers that sign a request.

source: the vendor's Python SDK 0.2.9, `_client.py`: SHA-256 over secret, random digits and time, as plain text. Neither
method nor path nor body is signed, so a request must go over TLS, and each attempt needs a signature of its own.
"""

from __future__ import annotations

import hashlib
import secrets
import time

__all__ = ["sign", "signed_headers"]

_DIGITS = 10


def sign(secret: str, random_digits: str, timestamp: str) -> str:
    """Return the signature: lower-case hex of SHA-256 over `secret + random_digits + timestamp`.

    Example:
        >>> sign("sk-test", "0123456789", "1700000000")[:12]
        '48b9f7e19cd6'
    """
    return hashlib.sha256(f"{secret}{random_digits}{timestamp}".encode()).hexdigest()


def signed_headers(key_id: str, secret: str) -> dict[str, str]:
    """Return fresh headers for one attempt of one request."""
    digits = "".join(secrets.choice("0123456789") for _ in range(_DIGITS))
    timestamp = str(int(time.time()))
    return {"AppID": key_id, "Timestamp": timestamp, "Randstr": digits, "Signature": sign(secret, digits, timestamp)}
