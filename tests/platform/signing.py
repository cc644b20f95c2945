"""Checks the four headers, written from the documented recipe and sharing no code with the client.

Beyond the documentation: five minutes of clock skew, and, where it is strict, no signature twice.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

SKEW_SECONDS = 300


@dataclass
class Keys:
    """Access keys: id -> (secret, user).

    Attributes:
        strict: refuse a signature that was used before.
        clock_seconds: how far this clock is ahead.
    """

    known: dict[str, tuple[str, str]]
    strict: bool = True
    clock_seconds: float = 0.0
    _used: set[tuple[str, str]] = field(default_factory=set)

    def now(self) -> float:
        """Return what this clock shows."""
        return time.time() + self.clock_seconds

    def user_of(self, headers: Mapping[str, str]) -> tuple[str, str]:
        """Return (user, "") of a signed request, or ("", why not)."""
        key, stamp, digits, signature = (
            headers.get(name, "") for name in ("AppID", "Timestamp", "Randstr", "Signature")
        )
        if key not in self.known:
            return "", "unknown AppID"
        secret, user = self.known[key]
        if not stamp.isdecimal() or abs(self.now() - int(stamp)) > SKEW_SECONDS:
            return "", "timestamp out of range"
        if len(digits) != 10 or not digits.isdecimal():
            return "", "Randstr must be ten digits"
        expected = hashlib.sha256((secret + digits + stamp).encode("utf-8")).hexdigest()
        if not hmac.compare_digest(expected, signature):
            return "", "signature does not match"
        if self.strict and (stamp, digits) in self._used:
            return "", "signature was used before"
        self._used.add((stamp, digits))
        return user, ""
