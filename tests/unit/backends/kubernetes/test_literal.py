from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siflow_provider.backends.kubernetes.literal import kubelet_literal
from siflow_provider.backends.kubernetes.scripts import render_wrapper
from tests.unit.backends.kubernetes.kubelet import expanded
from tests.unit.backends.kubernetes.tasks import pytorch, resolved

TEXTS = st.text(alphabet="$$$(()ab {}-é日\n", max_size=24)
VALUES = dict.fromkeys(["", "a", "b", "ab", "ba", "a-b"], "wrong")


@given(TEXTS, st.booleans())
def test_any_text_comes_out_of_the_kubelet_as_it_went_in(text: str, whole_runes: bool) -> None:
    assert expanded(kubelet_literal(text), VALUES, whole_runes=whole_runes) == text.encode()


@given(st.text(max_size=30).filter(lambda text: not re.search(r"\$[^\x00-\x23\x25-\x27\x29-\x7f]", text)))
def test_text_without_an_expansion_is_left_as_it_is(text: str) -> None:
    assert kubelet_literal(text) == text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("$HOME ${A:-b} $1 $? $'x' $", "$HOME ${A:-b} $1 $? $'x' $"),
        ("x=$(date +%F); y=$((1 + 2)); z=$(cat $FILE | wc -l)", "x=$(date +%F); y=$((1 + 2)); z=$(cat $FILE | wc -l)"),
        ("echo $(NAME) $(date) $$", "echo $$(NAME) $$(date) $$$$"),
        ("kill $(cat /tmp/$$.pid)", "kill $$(cat /tmp/$$$$.pid)"),
        ("echo $(basename $(pwd))", "echo $$(basename $$(pwd))"),
        ("costs 5 $€ or $(echo $€)", "costs 5 $$€ or $$(echo $$€)"),
        ("$( $(", "$$( $("),
    ],
)
def test_only_what_the_kubelet_would_change_is_doubled(text: str, written: str) -> None:
    assert kubelet_literal(text) == written


def test_long_text_of_openings_is_written_at_once() -> None:
    assert kubelet_literal("$(" * 60_000) == "$$(" * 59_999 + "$("


@pytest.mark.parametrize("ssh", [False, True])
def test_wrapper_reads_in_the_manifest_as_it_runs(ssh: bool) -> None:
    text = render_wrapper(resolved(pytorch(ssh=ssh)), lingers=True)
    assert kubelet_literal(text) == text
    assert [line for line in text.split("\n") if line != line.rstrip() or "\t" in line] == []
