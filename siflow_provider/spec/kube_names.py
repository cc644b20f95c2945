"""Syntax of Kubernetes names and labels (source: k8s.io/apimachinery `pkg/util/validation`)."""

from __future__ import annotations

import re

__all__ = ["MAX_PREFIX", "dns_name", "is_label_value", "label_key", "label_value"]

_PART = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_DNS = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.ASCII)
MAX_PREFIX = 35
"""Characters of a job's name that people choose; the rest tells runs apart and leaves controllers their suffixes."""
_LONGEST = 63
_LONGEST_DNS = 253
OWN_PREFIXES = ("siflow-provider/", "kueue.x-k8s.io/", "training.kubeflow.org/", "ray.io/")
"""Label keys that the provider and the job's controllers set themselves."""


def label_key(key: str) -> str:
    """Return the key when it can be a label's or annotation's: `[DNS prefix/]name`, name at most 63 characters.

    Raises:
        ValueError: it can't; the message holds the rule.
    """
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > _LONGEST_DNS or not _DNS.fullmatch(prefix)):
        raise ValueError(f"the prefix {prefix!r} of a label key must be a DNS name in lower case, such as example.com")
    if len(name) > _LONGEST or not _PART.fullmatch(name):
        rule = "letters, digits, '-', '_', '.', a letter or digit at both ends, at most 63 characters"
        raise ValueError(f"{key!r} is no label key; {rule}{_mended(name)}")
    if key.startswith(OWN_PREFIXES):
        raise ValueError(f"{key!r} is a label that the provider or a controller sets itself; choose another key")
    return key


def label_value(value: str) -> str:
    """Return the value when it can be a label's, or is long or unicode and so becomes an annotation.

    Raises:
        ValueError: it is short plain text that breaks the label syntax, most likely by mistake.
    """
    if is_label_value(value) or len(value) > _LONGEST or not value.isascii():
        return value
    rule = "letters, digits, '-', '_', '.', a letter or digit at both ends (or nothing)"
    raise ValueError(f"{value!r} is no label value; {rule}{_mended(value)}")


def is_label_value(value: str) -> bool:
    """Say whether Kubernetes takes `value` as a label's; anything else belongs in an annotation."""
    return value == "" or (len(value) <= _LONGEST and _PART.fullmatch(value) is not None)


def dns_name(name: str) -> str:
    """Return the name when an object of Kubernetes can bear it.

    Raises:
        ValueError: it can't; the message holds the rule.
    """
    if len(name) > _LONGEST_DNS or not _DNS.fullmatch(name):
        raise ValueError(
            f"{name!r} is no name of a Kubernetes object; lower-case letters, digits, '-' and '.', at most 253"
        )
    return name


def _mended(text: str) -> str:
    mended = re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:_LONGEST].strip("-_.")
    return f"; did you mean {mended!r}?" if mended and mended != text else ""
