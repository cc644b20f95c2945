"""The envelopes in which the platform's services answer.

source: the vendor's Python SDK 0.2.9, `types/common.py`, `types/task.py`, `types/volume.py`: a body has `status` and
`msg`, its content in `data` or `rows`, and ids for support under one of two spellings. The SDK never looks at `status`;
here an envelope that says `status: false` under HTTP 200 is an error like any other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from siflow_provider.backends.platform.errors import WRONG_URL, Unreadable, error_of

__all__ = ["Answer", "described", "ids_of", "read_answer"]

_OK = range(200, 300)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is one.

    Attributes:
        data: what `data` holds, else `rows`, else the body itself (`/resources/summary` has no envelope).
        total: how many rows there are on all pages; None when the answer does not say.
        ids: `request id .., trace id ..`; "" without.
        body: all of it.
    """

    data: Any
    total: int | None = None
    ids: str = ""
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of a list; [] where the platform says null."""
        return [row for row in self.data or [] if isinstance(row, dict)] if isinstance(self.data, list) else []


def read_answer(what: str, code: int, text: str) -> Answer:
    """Return what an HTTP answer holds.

    Raises:
        BackendError: it is an error: `AccessDenied`, `BackendUnavailable`, `NotFound` or `Refused`.
    """
    body = _json(text)
    if code not in _OK:
        ours = isinstance(body, dict) and not {"status", "msg"}.isdisjoint(body)
        raise error_of(what, code, _message(body, text), ids_of(body), ours=ours)
    if not isinstance(body, dict):
        raise Unreadable(
            f"{what} was answered with something that is no JSON object: {text.strip()[:200]!r}.",
            hint=WRONG_URL,
        )
    if body.get("status") is False:
        raise error_of(what, code, _message(body, ""), ids_of(body))
    data = body["data"] if "data" in body else body.get("rows", body if "status" not in body else None)
    total = body.get("total")
    return Answer(data, total if isinstance(total, int) else None, ids_of(body), body)


def described(code: int, text: str) -> str:
    """Return `HTTP 502 (request id ..): the platform's words` for an answer that is none."""
    body = _json(text)
    ids = ids_of(body)
    return f"HTTP {code}{f' ({ids})' if ids else ''}: {_message(body, text).strip()[:300] or 'no message'}"


def ids_of(body: Any) -> str:
    """Return the ids by which the platform's support finds a request."""
    if not isinstance(body, dict):
        return ""
    request = body.get("requestID") or body.get("request_id")
    trace = body.get("traceID") or body.get("trace_id")
    named = (("request id", request), ("trace id", trace))
    return ", ".join(f"{name} {value}" for name, value in named if value)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _message(body: Any, text: str) -> str:
    if isinstance(body, dict):
        for key in ("msg", "message", "error", "detail"):
            if body.get(key):
                return str(body[key])
    return text
