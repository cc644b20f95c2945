"""Signs what schemathesis sends: each request by itself, since the fake takes no signature twice."""

from __future__ import annotations

from typing import Any

import schemathesis

from tests.platform.names import signed


@schemathesis.auth()
class Signed:
    """Fresh headers for each request."""

    def get(self, _case: Any, _context: Any) -> str:
        """Return what says that there is something to set."""
        return "signed"

    def set(self, case: Any, _data: str, _context: Any) -> None:
        """Sign the request."""
        case.headers = {**(case.headers or {}), **signed()}
