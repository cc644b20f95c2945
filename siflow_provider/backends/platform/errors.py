"""What the platform's answers mean, in the tree of `siflow_provider.errors`; every error names the ids for support."""

from __future__ import annotations

from siflow_provider.errors import AccessDenied, BackendError, BackendUnavailable

__all__ = ["WRONG_URL", "AnswerLost", "NotFound", "Refused", "Unreadable", "error_of"]

WRONG_URL = "Is the base URL in the connection's host the one of the API, with `/sfapi` at its end?"

_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _SERVER_ERROR = 200, 401, 403, 404, 500
_WORTH_ANOTHER_TRY = frozenset({408, 425, 429})
_ABSENT_WORDS = ("not found", "not exist", "no such", "record not found")


class NotFound(BackendError):
    """The platform knows no such object."""


class Refused(BackendError):
    """The platform answered, and its answer is no: a wrong field, a conflict, `status: false`."""


class Unreadable(BackendUnavailable):
    """What came is no answer of the platform: half of one, a proxy's page, a wrong base URL."""


class AnswerLost(BackendUnavailable):
    """A request that may have taken effect: its answer did not come, or can't be read."""


def error_of(what: str, code: int, message: str, ids: str, *, ours: bool = True) -> BackendError:
    """Return the error for an answer that is none.

    Args:
        what: method and path.
        code: the HTTP status; 200 for an envelope that says `status: false`.
        message: the platform's own words, without secrets.
        ids: `request id .., trace id ..`, or "".
        ours: False for an answer that is none of the platform's: of a gateway, or of something else at that URL.
    """
    said = message.strip()[:500] or "no message"
    where = f"{what} was answered with HTTP {code}" + (f" ({ids})" if ids else "")
    if code == _UNAUTHORIZED:
        hint = "Check access key id and secret in the connection, and this machine's clock (`siflow-provider doctor`)."
        return AccessDenied(f"the platform does not accept the access key: {where}: {said}.", hint=hint, detail=said)
    if code == _FORBIDDEN:
        hint = "Ask the platform's admin for the right, or use another access key."
        return AccessDenied(f"the access key may not do this: {where}: {said}.", hint=hint, detail=said)
    if code == _NOT_FOUND and not ours:
        # a gateway whose service is being replaced answers so: no run is lost for it
        return BackendUnavailable(
            f"there is no platform at this URL now: {where}: {said}.", hint=WRONG_URL, detail=said
        )
    if code == _NOT_FOUND or (code == _OK and any(word in said.lower() for word in _ABSENT_WORDS)):
        return NotFound(f"the platform knows no such thing: {where}: {said}.", detail=said)
    if code in _WORTH_ANOTHER_TRY or code >= _SERVER_ERROR:
        return BackendUnavailable(f"the platform gives no answer now: {where}: {said}.", detail=said)
    return Refused(f"the platform refused: {where}: {said}.", detail=said)
