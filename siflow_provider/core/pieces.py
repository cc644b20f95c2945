r"""How output becomes lines, on every backend: only `\n` ends one, and none is longer than 16 KiB.

A longer line comes in pieces of at most 16 KiB, cut between characters, each but the last with `LogLine.partial` set:
put together they are the line.
"""

from __future__ import annotations

import codecs

__all__ = ["MAX_LINE_BYTES", "whole_characters"]

MAX_LINE_BYTES = 16 * 1024


def whole_characters(data: bytes) -> int:
    """Return how many bytes of `data` are whole UTF-8 characters (or none at all), one that goes on left out.

    Example:
        >>> whole_characters("aé".encode()[:-1])
        1
    """
    return codecs.utf_8_decode(data, "replace", False)[1]
