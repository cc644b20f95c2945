r"""How output becomes lines, on every backend: only `\n` ends one, and none is longer than 16 KiB.

A longer line comes in pieces of at most 16 KiB, cut between characters, each but the last with `LogLine.partial` set:
put together they are the line.

Each piece is shown, kept and masked for itself, by whoever has it. So no cut falls inside a hidden value: a piece ends
before a value that the cut would halve, and what there is of an unfinished line ends where a value may have begun. Only
a piece that is one value and nothing else may be longer than 16 KiB.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siflow_provider.core.veil import Veil

__all__ = ["MAX_LINE_BYTES", "behind_cut", "first_piece", "lookahead", "pieces", "settled"]

MAX_LINE_BYTES = 16 * 1024
_CHARACTER_BYTES = 4
"""The longest character in UTF-8."""


def lookahead(veil: Veil) -> int:
    """Return how many bytes behind a cut must be known, so that it halves no hidden value."""
    return veil.reach * _CHARACTER_BYTES


def first_piece(content: bytes, limit: int, veil: Veil, *, whole: bool) -> int:
    """Return the size of the first piece of a line that is longer than a piece; 0 where that is not known yet.

    It depends on the line's own text alone, however that comes: a reader that goes on behind a piece cuts as the one
    that began before it.

    Args:
        content: what there is of the line, from the end of the last piece on.
        limit: bytes that a piece may have.
        veil: over the run's hidden values.
        whole: False where the line may go on behind `content`.

    Returns:
        bytes; 0 for content that is no longer than a piece, or of which more must be there.

    Example:
        >>> from siflow_provider.core.veil import Veil
        >>> first_piece(b"token=s3cr3t.", 9, Veil.of(["s3cr3t"]), whole=True)
        6
    """
    if len(content) <= limit + (0 if whole else lookahead(veil)):
        return 0
    size = _whole_characters(content[:limit])
    if not veil.marks:
        return size
    text = _text(content[: limit + lookahead(veil)])
    return _bytes(text, veil.cut(text, len(_text(content[:size]))))


def pieces(line: bytes, limit: int, veil: Veil) -> Iterator[bytes]:
    """Yield the pieces of a line that is all there, one at least.

    Example:
        >>> from siflow_provider.core.veil import Veil
        >>> list(pieces(b"token=s3cr3t.", 9, Veil.of(["s3cr3t"])))
        [b'token=', b's3cr3t.']
    """
    while size := first_piece(line, limit, veil, whole=True):
        yield line[:size]
        line = line[size:]
    yield line


def settled(content: bytes, veil: Veil) -> int:
    """Return how many bytes of an unfinished line can be shown now.

    They are whole characters, before any place where a hidden value may have begun.

    Example:
        >>> from siflow_provider.core.veil import Veil
        >>> settled("aé".encode()[:-1], Veil())
        1
    """
    size = _whole_characters(content)
    if not veil.marks:
        return size
    text = _text(content[:size])
    return _bytes(text, veil.settled(text))


def behind_cut(text: str, veil: Veil) -> str:
    r"""Return the end of a log that was cut anywhere, without what may be the end of a hidden value.

    Args:
        text: from the cut on.
        veil: over the run's hidden values.

    Example:
        >>> from siflow_provider.core.veil import Veil
        >>> behind_cut("cr3t was the token\nbye", Veil.of(["s3cr3t"]))
        'was the token\nbye'
    """
    line, end, rest = text.partition("\n")
    return line[veil.cut(line, min(veil.reach, len(line))) :] + end + rest


def _whole_characters(data: bytes) -> int:
    return codecs.utf_8_decode(data, "replace", False)[1]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")  # unlike "replace", it can be turned back into the same bytes


def _bytes(text: str, count: int) -> int:
    return len(text[:count].encode("utf-8", "surrogateescape"))
