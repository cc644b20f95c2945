"""Names and keys of the fake platform, all invented, and the signature by the documented recipe.

Needs the standard library alone: other clients' environments import it as well.
"""

from __future__ import annotations

import hashlib
import secrets
import time

KEY_ID, KEY_SECRET, USER = "ak-demo", "sk-demo", "demo"
OTHER_ID, OTHER_SECRET, OTHER_USER = "ak-other", "sk-other", "other"
REGION, CLUSTER, TENANT = "cn-east", "alpha", "demo-tenant"
POOL = "cn-east-alpha-demo-ondemand-shared"
RESERVED = "cn-east-alpha-demo-reserved-shared"


def signed(key: str = KEY_ID, secret: str = KEY_SECRET) -> dict[str, str]:
    """Return all headers of one request."""
    digits, stamp = str(secrets.randbelow(10**10)).zfill(10), str(int(time.time()))
    signature = hashlib.sha256(f"{secret}{digits}{stamp}".encode()).hexdigest()
    place = {"X-Region": REGION, "X-Cluster": CLUSTER}
    return {"AppID": key, "Timestamp": stamp, "Randstr": digits, "Signature": signature, **place}
