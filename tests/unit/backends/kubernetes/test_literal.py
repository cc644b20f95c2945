from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from siflow_provider.backends.kubernetes.literal import kubelet_literal

TEXTS = st.text(alphabet="$()ab {}", max_size=20)


def kubelet(text: str, values: dict[str, str]) -> str:
    """What the kubelet makes of a value (source: Kubernetes third_party/forked/golang/expansion/expand.go)."""
    out, at = "", 0
    while at < len(text):
        char, rest = text[at], text[at + 1 :]
        if char != "$" or not rest:
            out, at = out + char, at + 1
        elif rest[0] == "$":
            out, at = out + "$", at + 2
        elif rest[0] == "(" and ")" in rest:
            name = rest[1 : rest.index(")")]
            out, at = out + values.get(name, f"$({name})"), at + len(name) + 3
        else:
            out, at = out + "$" + rest[0], at + 2
    return out


@given(TEXTS)
def test_any_text_comes_out_of_the_kubelet_as_it_went_in(text: str) -> None:
    assert kubelet(kubelet_literal(text), {"a": "wrong", "": "wrong", "a b": "wrong"}) == text


@given(st.text(max_size=30))
def test_text_without_an_expansion_is_left_readable(text: str) -> None:
    if "$(" not in text and "$$" not in text:
        assert kubelet_literal(text) == text
