"""A hidden value stays whole where a line is cut, so that whoever shows a piece can mask it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siflow_provider.core.pieces import behind_cut, first_piece, pieces, settled
from siflow_provider.core.veil import Veil
from tests.drawing import examples

LIMIT = 24
VALUES = ["canary-7391", "ünï-🎉-geheim", "a-value-that-is-longer-than-a-piece-may-be"]
PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----\n"

values = st.one_of(
    st.sampled_from([VALUES, VALUES[:1], [PEM], []]),
    st.lists(st.text("ab", min_size=5, max_size=9), min_size=1, max_size=2),
)


@st.composite
def lines(draw: st.DrawFn) -> tuple[Veil, str]:
    hidden = draw(values)
    parts = [line for value in hidden for line in value.splitlines()]
    noise = st.text("ab é🚀", max_size=30)
    whole = st.sampled_from(parts) if parts else noise
    torn = st.tuples(whole, st.integers(0, 40)).map(lambda drawn: drawn[0][: drawn[1]])
    return Veil.of(hidden), "".join(draw(st.lists(st.one_of(noise, whole, torn), max_size=8)))


def masked(veil: Veil, parts: list[bytes]) -> str:
    return "".join(veil.over(part.decode()) for part in parts)


@settings(max_examples=examples(200), deadline=None)
@given(lines())
def test_pieces_are_the_line_and_masked_one_by_one_they_are_the_masked_line(drawn: tuple[Veil, str]) -> None:
    veil, line = drawn
    cut = list(pieces(line.encode(), LIMIT, veil))
    assert b"".join(cut) == line.encode()
    assert masked(veil, cut) == veil.over(line)
    assert all(len(piece) <= LIMIT or veil.over(piece.decode()) == "***" for piece in cut)


@settings(max_examples=examples(200), deadline=None)
@given(lines(), st.integers(1, 60))
def test_a_line_is_cut_alike_however_its_bytes_come(drawn: tuple[Veil, str], chunk: int) -> None:
    veil, line = drawn
    raw, cut, have = line.encode(), [], b""
    for start in range(0, len(raw), chunk):
        have += raw[start : start + chunk]
        while size := first_piece(have, LIMIT, veil, whole=False):
            cut.append(have[:size])
            have = have[size:]
    assert [*cut, *pieces(have, LIMIT, veil)] == list(pieces(raw, LIMIT, veil))


@settings(max_examples=examples(200), deadline=None)
@given(lines(), st.data())
def test_what_is_shown_of_an_unfinished_line_ends_before_a_value_that_is_not_all_there(
    drawn: tuple[Veil, str], data: st.DataObject
) -> None:
    veil, line = drawn
    raw = line.encode()
    there = raw[: data.draw(st.integers(0, len(raw)))]
    size = settled(there, veil)
    assert masked(veil, [raw[:size], raw[size:]]) == veil.over(line)


def test_an_unfinished_line_without_a_hidden_value_is_shown_to_its_last_whole_character() -> None:
    assert settled("50 % é".encode()[:-1], Veil()) == 5
    assert settled(b"", Veil.of(VALUES)) == 0


def test_bytes_that_are_no_text_move_no_cut() -> None:
    veil = Veil.of(VALUES)
    line = b"\xff\xfe\xe4" * 6 + b" canary-7391 \xf0\x9f"
    assert list(pieces(line, LIMIT, veil)) == [b"\xff\xfe\xe4" * 6 + b" ", b"canary-7391 \xf0\x9f"]


@pytest.mark.parametrize("inside", range(1, len(VALUES[0])))
def test_the_end_of_a_log_that_was_cut_in_a_hidden_value_begins_behind_it(inside: int) -> None:
    veil = Veil.of(VALUES[:1])
    assert veil.over(behind_cut(f"{VALUES[0][inside:]} canary-7391 canary-7391 end\nlast", veil)).endswith(
        "*** end\nlast"
    )
    assert "7391" not in veil.over(behind_cut(f"{VALUES[0][inside:]} canary-7391 canary-7391 end\nlast", veil))
    assert behind_cut(f"{VALUES[0][inside:]}\ncanary-7391", veil) == "\ncanary-7391"
    assert behind_cut("all of it\nis there", Veil()) == "all of it\nis there"
