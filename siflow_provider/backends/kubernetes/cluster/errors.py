"""What an API server answers when it does not do what it was asked, as errors of ours.

    BackendError
    └── ApiError            any other refusal; carries status, reason and the server's own words
        ├── NotFound        404
        ├── Conflict        409: changed meanwhile, or another object than the one that was meant
        │   └── AlreadyExists
        ├── Expired         410: the version to go on from is no longer kept
        ├── Invalid         400, 413, 422: the request itself is wrong
        ├── Denied          401, 403; also an AccessDenied
        └── Unavailable     429, 5xx, no connection, no answer in time, a ResourceQuota that changed just then; also
                            a BackendUnavailable
            ├── Silent      a stream on which nothing came for too long
            └── QuotaExceeded   403 of a ResourceQuota: worth another try when other objects are gone

The server's words are kept, what was sent never is: a request may hold secrets.
source: Kubernetes v1.36 apimachinery `pkg/api/errors/errors.go`, `pkg/apis/meta/v1/types.go` (StatusReason)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from siflow_provider.backends.kubernetes.cluster.rights import rule_text
from siflow_provider.errors import AccessDenied, BackendError, BackendUnavailable, NoRoomYet

__all__ = [
    "AlreadyExists",
    "ApiError",
    "Conflict",
    "Denied",
    "Expired",
    "Invalid",
    "NotFound",
    "QuotaExceeded",
    "Silent",
    "Unavailable",
    "error_of",
    "error_of_status",
]

_LONGEST_WORDS = 2000
_MISSING = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
"""source: Kubernetes v1.36 apiserver pkg/endpoints/handlers/responsewriters/errors.go (forbiddenMessage)"""
_PASSING = frozenset({429, 500, 502, 503, 504})


class ApiError(BackendError):
    """The API server refused.

    Attributes:
        status: HTTP status; 0 when there was no answer.
        reason: the server's word for programs, such as `NotFound`; "" where it gave none.
        detail: the server's own sentence.
        retry_after: seconds that the server asked to wait; None when it did not.
    """

    def __init__(
        self, message: str, *, hint: str = "", detail: str = "", status: int = 0, reason: str = "",
        retry_after: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message, hint=hint, detail=detail)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class NotFound(ApiError):
    """There is no such object, or the cluster does not know its kind."""


class Conflict(ApiError):
    """The object changed meanwhile, or it is not the one that was meant (another uid)."""


class AlreadyExists(Conflict):
    """There is an object of this name."""


class Expired(ApiError):
    """The version to go on from is no longer kept: list again."""


class Invalid(ApiError):
    """The request is wrong, and sending it again will not mend it."""


class Denied(ApiError, AccessDenied):
    """The credentials are not accepted, or may not do this."""


class Unavailable(ApiError, BackendUnavailable):
    """No usable answer now."""


class Silent(Unavailable):
    """An open stream on which nothing came for too long: the connection may be dead."""


class QuotaExceeded(Unavailable, NoRoomYet):
    """A ResourceQuota of the namespace has no room for the object now."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid, 401: Denied, 403: Denied, 404: NotFound, 409: Conflict, 410: Expired, 413: Invalid, 422: Invalid,
}  # fmt: skip


def error_of(method: str, path: str, status: int, text: str, *, retry_after: float | None = None) -> ApiError:
    """Return the error for an HTTP answer that is none of success.

    Args:
        method: the HTTP method.
        path: the path that was asked for, without its query.
        status: HTTP status of the answer.
        text: its body: a `Status` object as JSON, or whatever a proxy sent.
        retry_after: seconds, as the answer's header says.
    """
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body = {"message": " ".join(text.split())}
    return error_of_status(method, path, {**body, "code": status}, retry_after=retry_after)


def error_of_status(method: str, path: str, body: Mapping[str, Any], *, retry_after: float | None = None) -> ApiError:
    """Return the error for a `Status` object, which may also come as an event of a watch."""
    status, reason = _whole(body.get("code")), str(body.get("reason") or "")
    detail = _words(path, body)
    kind = _kind(status, reason, detail)
    if retry_after is None:
        retry_after = _asked_wait(body)
    said = f": {detail.rstrip('.')}" if detail else ""
    return kind(
        f"the API server answered {status} {reason}".rstrip() + f" to {method} {path}{said}.",
        hint=_hint(kind, status, detail),
        detail=detail,
        status=status,
        reason=reason,
        retry_after=retry_after,
    )


def _kind(status: int, reason: str, detail: str) -> type[ApiError]:
    if status == 409 and reason == "AlreadyExists":  # noqa: PLR2004
        return AlreadyExists
    if status == 403 and "exceeded quota:" in detail:  # noqa: PLR2004
        # source: Kubernetes v1.36 apiserver pkg/admission/plugin/resourcequota/controller.go
        return QuotaExceeded
    if status == 409 and "on resourcequotas" in detail:  # noqa: PLR2004
        return Unavailable  # not the object but the ResourceQuota that counts it changed meanwhile (same source)
    if status in _PASSING:
        return Unavailable
    return _BY_STATUS.get(status, ApiError)


def _hint(kind: type[ApiError], status: int, detail: str) -> str:
    if kind is not Denied:
        return ""
    if status == 401:  # noqa: PLR2004
        return "Log in again, or mend the connection's credentials."
    missing = _MISSING.search(detail)
    if missing is None:
        return "`siflow-provider doctor` lists the rules that the connection's role needs."
    rule = rule_text(missing["group"], missing["resource"], (missing["verb"],))
    place = f"a Role in namespace {missing['namespace']}" if missing["namespace"] else "a ClusterRole"
    return f"Add `{rule}` to the rules of {place} that the login is bound to; `siflow-provider doctor` lists all."


def _words(path: str, body: Mapping[str, Any]) -> str:
    """Return the server's sentence; of a Secret only which field is wrong, since the sentence may quote its value."""
    if "/secrets" not in path or _whole(body.get("code")) not in (400, 422):
        return str(body.get("message") or "")[:_LONGEST_WORDS]
    causes = (body.get("details") or {}).get("causes") or []
    fields = [f"{cause.get('field')}: {cause.get('reason')}" for cause in causes if isinstance(cause, dict)]
    return "; ".join(fields) or "the Secret was refused"


def _asked_wait(body: Mapping[str, Any]) -> float | None:
    details = body.get("details")
    seconds = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0
