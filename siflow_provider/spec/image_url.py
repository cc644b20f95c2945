"""Syntax of an image's URL: registry, path, tag, digest (source: distribution/reference `reference.go`)."""

from __future__ import annotations

import re

__all__ = ["image_url"]

_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(?::\d{{1,5}})?", re.ASCII)
_PART = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*", re.ASCII)
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[+._-][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}", re.ASCII)
_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
_LONGEST = 255
_EXAMPLE = "such as registry.example/team/train:1.2"


def image_url(url: str) -> str:
    """Return the URL of an image when it is one.

    Raises:
        ValueError: it is not; the message names the part that is wrong.

    Example:
        >>> image_url("registry.example:5000/ai/pytorch:2.9-cuda12")
        'registry.example:5000/ai/pytorch:2.9-cuda12'
    """
    if not url.strip():
        raise ValueError(f"must not be blank; write an image's URL, {_EXAMPLE}")
    if "://" in url:
        raise ValueError(
            f"{url!r} starts with a scheme; an image's URL has none: did you mean {url.split('://', 1)[1]!r}?"
        )
    if any(char.isspace() for char in url):
        raise ValueError(f"{url!r} holds a blank; write an image's URL, {_EXAMPLE}")
    name, at, digest = url.partition("@")
    if at:
        _check_digest(url, digest)
    head, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise ValueError(f"the tag {tag!r} of {url!r} is wrong; letters, digits, '_', '.', '-', at most 128")
    _check_path(url, f"{head}{slash}{last}")
    return url


def _check_digest(url: str, digest: str) -> None:
    algorithm, _, value = digest.partition(":")
    if not _DIGEST.fullmatch(digest) or len(value) != _LENGTHS.get(algorithm, len(value)):
        raise ValueError(f"the digest of {url!r} is wrong; it is written sha256: and 64 hexadecimal digits")


def _check_path(url: str, path: str) -> None:
    parts = path.split("/")
    first = parts[0]
    if len(parts) > 1 and (any(mark in first for mark in ".:[") or first == "localhost" or first != first.lower()):
        if not _HOST.fullmatch(first):
            raise ValueError(f"the registry {first!r} of {url!r} is no host name with an optional port")
        parts = parts[1:]
    if len(path) > _LONGEST:
        raise ValueError(f"the name of the image is longer than {_LONGEST} characters")
    for part in parts:
        if not _PART.fullmatch(part):
            small = part.lower()
            hint = (
                f"did you mean {url.replace(part, small)!r}?"
                if part and _PART.fullmatch(small)
                else f"write it {_EXAMPLE}"
            )
            raise ValueError(
                f"{part!r} in {url!r} is wrong; lower-case letters and digits, joined by '.', '_' or '-'; {hint}"
            )
