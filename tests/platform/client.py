"""How tests reach the fake platform: a connection to it."""

from __future__ import annotations

from typing import Any

from siflow_provider.backends.settings import Settings
from siflow_provider.spec.hidden import Hidden
from tests.platform.names import CLUSTER, KEY_ID, KEY_SECRET, REGION

LOGS = {
    "path": "/task-service/v1/tasks/{uuid}/logs",
    "params": {"pod": "{pod}", "limit": "{limit}", "offset": "{offset}", "sort_order": "{order}"},
}
"""The log query of the fake, as an admin would spell it."""
NODES = {
    "path": "/resource-service/v1/resource-pools/nodes",
    "params": {"resourcePoolName": "{pool}"},
    "instance": "instanceName",
    "free": "avail",
}
"""The query for the nodes of a pool, likewise."""


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
