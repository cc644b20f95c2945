"""A rule of a Role, as one line of YAML that can be pasted."""

from __future__ import annotations

import json
from collections.abc import Sequence

__all__ = ["rule_text"]


def rule_text(group: str, resource: str, verbs: Sequence[str], names: Sequence[str] = ()) -> str:
    """Return an item of a Role's `rules`.

    Args:
        group: API group; "" for the core group.
        resource: the word in the path, with its subresource: `pods/log`.
        verbs: what may be done.
        names: only the objects of these names; none for all.

    Example:
        >>> rule_text("", "pods/log", ["get"])
        '- {apiGroups: [""], resources: ["pods/log"], verbs: ["get"]}'
    """
    parts = {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
    if names:
        parts["resourceNames"] = list(names)
    return "- {" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in parts.items()) + "}"
