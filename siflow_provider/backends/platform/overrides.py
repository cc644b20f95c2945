"""Spellings that an admin knows and no public source tells: the connection's `body_overrides` and `api_overrides`.

`body_overrides` maps a field of the form to what it adds to the create body, an RFC 7396 merge patch; it is merged when
a task uses the field. The key `*` is merged into every body. In a patch the text `{value}` stands for the field's own
value, `{value.port}` for a part of it. `api_overrides` tells how a call is spelt: `logs`, and `nodes` of a pool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from string import Formatter
from typing import Any

from siflow_provider.errors import UsageError
from siflow_provider.spec.wording import suggest

__all__ = ["ALWAYS", "CALLS", "FIELDS", "check_overrides", "filled"]

ALWAYS = "*"
FIELDS = (
    ALWAYS, "kind", "project_group", "visible_in_group", "shm_size", "monitoring", "image_pull_retries", "ssh",
    "compute.type", "compute.stability", "compute.accept_idle", "compute.prefer_idle", "compute.idle_stability",
    "compute.nodes", "ray.head", "ray.runtime_env", "ray.shared_storage", "ray.autoscaling",
)  # fmt: skip
"""Fields whose spelling may be given; `kind` is for a RayJob."""
CALLS = {"logs": ("uuid", "pod", "limit", "offset", "order"), "nodes": ("pool", "instance")}
"""Calls whose spelling may be given, and the placeholders of each."""
_EXAMPLES = {
    "logs": '{"path": "/log/{uuid}", "params": {"pod": "{pod}", "limit": "{limit}"}}',
    "nodes": '{"path": "/nodes", "params": {"pool": "{pool}"}, "instance": "instanceName", "free": "avail"}',
}
_PLACEHOLDER = re.compile(r"\{value((?:\.\w+)*)\}")


def check_overrides(body: Mapping[str, Any], api: Mapping[str, Any]) -> None:
    """Refuse overrides that would silently do nothing.

    Raises:
        UsageError: an unknown field or call, or a spelling of the wrong shape.
    """
    for option, given, known in (("body_overrides", body, FIELDS), ("api_overrides", api, CALLS)):
        unknown = [key for key in given if key not in known]
        if unknown:
            raise UsageError(f"`{option}` has an unknown key {unknown[0]!r}.", hint=f"Known keys: {', '.join(known)}.")
        wrong = [key for key, value in given.items() if not isinstance(value, Mapping)]
        if wrong:
            raise UsageError(f"`{option}.{wrong[0]}` must be a mapping.")
    for call, spelling in api.items():
        if not isinstance(spelling.get("path"), str) or not isinstance(spelling.get("params", {}), Mapping):
            raise UsageError(
                f"`api_overrides.{call}` must have a `path`, and `params` that are a mapping.",
                hint=f"Such as {_EXAMPLES[call]}.",
            )
        _check_placeholders(call, spelling)
    lacks = [key for key in ("instance", "free") if "nodes" in api and not isinstance(api["nodes"].get(key), str)]
    if lacks:
        raise UsageError(
            f"`api_overrides.nodes` must say in `{lacks[0]}` which field of a node's row it is.",
            hint=f"Such as {_EXAMPLES['nodes']}.",
        )


def _check_placeholders(call: str, spelling: Mapping[str, Any]) -> None:
    for where, text in _texts(spelling):
        for name in _placeholders(f"api_overrides.{call}.{where}", text):
            if name not in CALLS[call]:
                raise UsageError(
                    f"`api_overrides.{call}.{where}` has an unknown placeholder {{{name}}}; "
                    f"{suggest(name, CALLS[call], what='known ones')}"
                )


def _texts(spelling: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "path", spelling["path"]
    for name, value in spelling.get("params", {}).items():
        yield f"params.{name}", str(value)


def _placeholders(where: str, text: str) -> list[str]:
    """Return the placeholders of a text as they are written, conversions and formats with them."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        raise UsageError(
            f"`{where}` can't be read: {error}.", hint="A brace that is no placeholder's is written twice."
        ) from None
    return [
        f"{name}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}"
        for _, name, form, conversion in parts
        if name is not None
    ]


def filled(patch: Any, value: Any) -> Any:
    """Return a patch with the field's value in its places; a text that is one placeholder gets the value's own type.

    Example:
        >>> filled({"port": "{value.port}", "at": ":{value.port}"}, {"port": 9000})
        {'port': 9000, 'at': ':9000'}
    """
    if isinstance(patch, Mapping):
        return {key: filled(item, value) for key, item in patch.items()}
    if isinstance(patch, list):
        return [filled(item, value) for item in patch]
    if not isinstance(patch, str):
        return patch
    whole = _PLACEHOLDER.fullmatch(patch)
    if whole:
        return _part(value, whole[1])
    return _PLACEHOLDER.sub(lambda match: str(_part(value, match[1])), patch)


def _part(value: Any, path: str) -> Any:
    for name in path.split(".")[1:]:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
