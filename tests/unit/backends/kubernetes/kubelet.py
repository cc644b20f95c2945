"""What the kubelet makes of a container's argv and environment before it starts it.

source: Kubernetes v1.36 third_party/forked/golang/expansion/expand.go, pkg/kubelet/container/helpers.go
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def expanded(text: str, values: Mapping[str, str], *, whole_runes: bool = True) -> bytes:
    """Expand `$(NAME)` and `$$`; `whole_runes` False is a kubelet before kubernetes/kubernetes#136325."""
    return b"".join(_pieces(text.encode(), values, whole_runes=whole_runes))


def _pieces(left: bytes, values: Mapping[str, str], *, whole_runes: bool) -> Iterator[bytes]:
    while left:
        plain, dollar, left = left.partition(b"$")
        yield plain
        name, closer, behind = left[1:].partition(b")")
        if left[:1] == b"$":
            yield b"$"
            left = left[1:]
        elif left[:1] == b"(" and closer:
            yield values.get(name.decode(), f"$({name.decode()})").encode()
            left = behind
        elif whole_runes or left[:1] < b"\x80":
            yield dollar  # what follows is plain, or an opening without an end, which is taken as it is
            yield left[:1]
            left = left[1:]
        else:
            yield dollar + chr(left[0]).encode()  # the byte is taken for a character of its own
            left = left[1:]


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """Return the container's own variables, each expanded with those before it; references have no value here."""
    values: dict[str, str] = {}
    for entry in container["env"]:
        if "value" in entry:
            values[entry["name"]] = expanded(entry["value"], values).decode()
    return values


def argv(container: Mapping[str, Any], values: Mapping[str, str]) -> list[bytes]:
    """Return the argv of the container's first process."""
    return [expanded(word, values) for word in (*container["command"], *container.get("args", ()))]
