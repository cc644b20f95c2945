"""How tests reach the fake platform: signed headers made from the documented recipe, and a connection to it."""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Any

from siflow_provider.backends.settings import Settings
from siflow_provider.spec.hidden import Hidden
from tests.platform.platform import CLUSTER, KEY_ID, KEY_SECRET, REGION

LOGS = {
    "path": "/task-service/v1/tasks/{uuid}/logs",
    "params": {"pod": "{pod}", "limit": "{limit}", "offset": "{offset}", "sort_order": "{order}"},
}
"""The log query of the fake, as an admin would spell it."""


def signed(key: str = KEY_ID, secret: str = KEY_SECRET) -> dict[str, str]:
    """Return all headers of one request."""
    digits, stamp = str(secrets.randbelow(10**10)).zfill(10), str(int(time.time()))
    signature = hashlib.sha256(f"{secret}{digits}{stamp}".encode()).hexdigest()
    place = {"X-Region": REGION, "X-Cluster": CLUSTER}
    return {"AppID": key, "Timestamp": stamp, "Randstr": digits, "Signature": signature, **place}


def connection(url: str, **more: Any) -> Settings:
    """Return the settings of a connection to the fake."""
    given: dict[str, Any] = {"api_overrides": {"logs": LOGS}, **more}
    return Settings(
        backend="platform",
        host=url,
        login=KEY_ID,
        password=Hidden(KEY_SECRET),
        region=REGION,
        cluster=CLUSTER,
        **given,
    )
