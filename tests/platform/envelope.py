"""The documented envelopes, and the errors in them."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse

from tests.platform.platform import Platform


class Refusal(Exception):
    """An error answer: HTTP status and message; under 200 an envelope that says `status: false`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def of(request: Request) -> Platform:
    """Return the platform that serves a request."""
    found: Platform = request.app.state.platform
    return found


def one(platform: Platform, data: Any) -> dict[str, Any]:
    """Return `{status, msg, data}`."""
    return {"status": True, "msg": "success", "data": data, **platform.ids()}


def rows(platform: Platform, found: list[Any], total: int | None = None) -> dict[str, Any]:
    """Return `{status, msg, total, rows}`."""
    return {
        "status": True,
        "msg": "success",
        "total": len(found) if total is None else total,
        "rows": found,
        **platform.ids(),
    }


def refused(platform: Platform, code: int, message: str) -> JSONResponse:
    """Return an error in its envelope."""
    return JSONResponse({"status": False, "msg": message, "data": None, **platform.ids()}, status_code=code)


def page_of(found: list[Any], page: int, size: int) -> list[Any]:
    """Return one page, numbered from 1."""
    return found[(page - 1) * size : page * size]
