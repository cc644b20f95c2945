"""Lengths of time as people write them (`90s`, `15m`, `1h30m`) and as code uses them (seconds)."""

from __future__ import annotations

import math
import re
from datetime import timedelta

__all__ = ["MAX_SECONDS", "format_duration", "parse_duration"]

MAX_SECONDS = 3650 * 86400.0
"""Ten years: longer than any training, short enough for every clock that computes with it."""

_SIZES = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_TEXT = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)
_SHAPE = "a duration is a number of seconds or text such as 90s, 15m or 1h30m"


def parse_duration(value: object) -> float:
    """Return the seconds that a number, a text or a `timedelta` stands for.

    Raises:
        ValueError: it is none of these, not finite, or longer than ten years; the message holds the rule.

    Example:
        >>> parse_duration("1h30m"), parse_duration(90), parse_duration("90")
        (5400.0, 90.0, 90.0)
    """
    if isinstance(value, timedelta):
        return _bounded(value.total_seconds())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _bounded(value)
    if not isinstance(value, str):
        raise ValueError(_SHAPE)  # noqa: TRY004 - pydantic collects ValueErrors only
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return _bounded(float(text))
    match = _TEXT.fullmatch(text)
    if match is None or not text:
        raise ValueError(_SHAPE)
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return _bounded(days * 86400 + hours * 3600 + minutes * 60 + seconds)


def format_duration(seconds: float) -> str | float:
    """Return the shortest text for whole seconds (`1h30m`); the number itself where a text would lose something.

    Example:
        >>> format_duration(5400.0), format_duration(0.5)
        ('1h30m', 0.5)
    """
    if seconds != int(seconds) or seconds <= 0:
        return int(seconds) if seconds == int(seconds) else seconds
    rest, parts = int(seconds), []
    for unit, size in _SIZES.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def _bounded(seconds: float) -> float:
    if isinstance(seconds, float) and not math.isfinite(seconds):
        raise ValueError(f"a duration is finite; {_SHAPE}")
    if abs(seconds) > MAX_SECONDS:
        raise ValueError("a duration is at most 3650d (ten years); leave the field out for no limit")
    return float(seconds)
