"""The lines of one container: each once and in order, however the bytes come and wherever the reading was cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siflow_provider.backends.kubernetes.logs.position import Position
from siflow_provider.backends.kubernetes.logs.splitter import MISSING, LineSplitter
from siflow_provider.core.pieces import MAX_LINE_BYTES
from siflow_provider.core.status import LogLine
from siflow_provider.core.veil import Veil
from tests.drawing import examples
from tests.unit.backends.kubernetes.logs.written import Record, joined, sent, stamp

SECOND = 10**9
HIDDEN = "canary-7391"
VEIL = Veil.of([HIDDEN, "é🚀xé🚀x"])


def splitter(after: Position | None = None, label: str = "", *, veil: Veil = VEIL) -> LineSplitter:
    return LineSplitter("worker-1", "c0ffee", "pytorch", after=after, label=label, veil=veil)


def read(
    data: bytes, after: Position | None = None, *, chunk: int = 4096, complete: bool = True, veil: Veil = VEIL
) -> list[LogLine]:
    cutter, lines = splitter(after, veil=veil), []
    for start in range(0, len(data), chunk):
        lines += cutter.feed(data[start : start + chunk])
    return lines + cutter.finish(complete=complete)


texts = st.one_of(
    st.binary(max_size=12).map(lambda raw: raw.replace(b"\n", b"")),
    st.sampled_from(["ünï 漢字 🎉", "", " two  blanks ", "50%\r60%", "2026-05-01T10:00:01Z not a stamp"]).map(
        str.encode
    ),
    st.sampled_from([0, 1, 10, len(HIDDEN)]).map(lambda inside: b"-" * (MAX_LINE_BYTES - inside) + HIDDEN.encode() * 2),
    st.sampled_from([MAX_LINE_BYTES, MAX_LINE_BYTES + 1, 2 * MAX_LINE_BYTES + 9]).map(
        lambda size: ("é🚀x" * (size // 7 + 1)).encode()[:size]
    ),
)
gaps = st.sampled_from([0, 0, 1, 999, SECOND // 3, SECOND, 5 * SECOND])


@st.composite
def files(draw: st.DrawFn) -> list[Record]:
    """Log files: times that do not fall, some alike; long lines in the pieces that the runtime makes of them."""
    records, at = [], draw(st.integers(0, SECOND))
    for content in draw(st.lists(texts, min_size=1, max_size=8)):
        pieces = [content[start : start + MAX_LINE_BYTES] for start in range(0, len(content), MAX_LINE_BYTES)] or [b""]
        for index, piece in enumerate(pieces):
            at += draw(gaps)
            records.append(Record(at, piece, ends=index == len(pieces) - 1))
    return records


@settings(max_examples=examples(80), deadline=None)
@given(files(), st.data())
def test_any_chunks_give_the_same_lines(records: list[Record], data: st.DataObject) -> None:
    whole = sent(records, None)
    lines = read(whole)
    assert read(whole, chunk=data.draw(st.sampled_from([61, 4096, MAX_LINE_BYTES + 1, 1 << 20]))) == lines
    wanted, unfinished = [], b""
    for record in records:
        unfinished += record.content
        if record.ends:
            wanted.append(unfinished.removesuffix(b"\r"))
            unfinished = b""
    assert joined(lines) == [text.decode("utf-8", "replace") for text in wanted]
    assert all(len(line.text.encode()) <= MAX_LINE_BYTES for line in lines if line.partial)
    shown = [replace(line, text=VEIL.over(line.text)) for line in lines]
    assert joined(shown) == [VEIL.over(text.decode("utf-8", "replace")) for text in wanted]


@settings(max_examples=examples(80), deadline=None)
@given(files(), st.data())
def test_reading_again_behind_any_line_gives_the_rest_and_no_more(records: list[Record], data: st.DataObject) -> None:
    whole = read(sent(records, None))
    index = data.draw(st.integers(0, len(whole) - 1))
    place = Position.parse(whole[index].position)
    assert place is not None
    assert read(sent(records, place.since), place, chunk=data.draw(st.sampled_from([61, 5000]))) == whole[index + 1 :]


@settings(max_examples=examples(80), deadline=None)
@given(files(), st.data())
def test_a_connection_that_is_cut_anywhere_costs_and_repeats_nothing(
    records: list[Record], data: st.DataObject
) -> None:
    lines: list[LogLine] = []
    place: Position | None = None
    for _ in range(data.draw(st.integers(1, 4))):
        answer = sent(records, place.since if place else None)
        lines += splitter(place).feed(answer[: data.draw(st.integers(0, len(answer)))])
        place = Position.parse(lines[-1].position) if lines else None
    lines += read(sent(records, place.since if place else None), place)
    assert lines == read(sent(records, None))


def test_lines_of_one_very_moment_are_told_apart_by_their_number() -> None:
    records = [Record(5, str(number).encode()) for number in range(6)]
    place = Position.parse(read(sent(records, None))[3].position)
    assert place == Position("c0ffee", "pytorch", stamp(5), 4, 0)
    assert joined(read(sent(records, place.since), place)) == ["4", "5"]


def test_a_line_that_is_younger_than_the_one_behind_it_is_neither_lost_nor_repeated() -> None:
    records = [Record(2 * SECOND, b"out"), Record(2 * SECOND - 1, b"err"), Record(2 * SECOND + 1, b"next")]
    for index, rest in enumerate((["err", "next"], ["next"], [])):
        place = Position.parse(read(sent(records, None))[index].position)
        assert place is not None
        assert joined(read(sent(records, place.since), place)) == rest


def test_lines_that_were_rotated_away_leave_a_note_and_the_rest_is_read() -> None:
    records = [Record(number * SECOND, str(number).encode()) for number in range(20)]
    place = Position.parse(read(sent(records, None))[3].position)
    assert place is not None
    rest = read(sent(records[10:], place.since), place)
    assert joined(rest) == [MISSING, *map(str, range(10, 20))]
    told = Position.parse(rest[0].position)
    assert told is not None
    assert joined(read(sent(records[10:], told.since), told)) == list(map(str, range(10, 20)))


def test_the_servers_own_words_are_no_line() -> None:
    cutter = splitter()
    lines = cutter.feed(sent([Record(1, b"one")], None) + b"failed to create fsnotify watcher: too many open files")
    lines += cutter.finish(complete=True)
    assert joined(lines) == ["one"]
    assert cutter.words == "failed to create fsnotify watcher: too many open files"


def test_an_unfinished_line_read_now_joins_with_what_comes_later() -> None:
    start, end = Record(1, "50 % é".encode()[:-1], ends=False), Record(2, "é done".encode()[1:])
    first = read(sent([start], None), complete=False, veil=Veil())
    assert [(line.text, line.partial) for line in first] == [("50 % ", True)]
    place = Position.parse(first[0].position)
    assert place is not None
    assert joined([*first, *read(sent([start, end], place.since), place)]) == ["50 % é done"]


def test_an_unfinished_line_read_now_ends_before_a_hidden_value_that_is_not_all_there() -> None:
    start, end = Record(1, b"-" * MAX_LINE_BYTES + b" canar", ends=False), Record(2, b"y-7391 is it")
    first = read(sent([start], None), complete=False)
    assert "c" not in "".join(line.text for line in first)
    place = Position.parse(first[-1].position)
    assert place is not None
    rest = read(sent([start, end], place.since), place)
    assert joined([*first, *rest]) == ["-" * MAX_LINE_BYTES + " canary-7391 is it"]
    assert "".join(VEIL.over(line.text) for line in rest).endswith("*** is it")


def test_a_last_line_without_an_end_is_a_line() -> None:
    lines = read(sent([Record(1, b"no line end", ends=False)], None))
    assert [(line.text, line.partial) for line in lines] == [("no line end", False)]


def test_the_lines_of_an_init_container_say_whose_they_are() -> None:
    cutter = splitter(label="[init wait] ")
    lines = cutter.feed(sent([Record(1, b"x" * 20_000)], None))
    assert lines[0].text.startswith("[init wait] xxx")
    assert max(len(line.text.encode()) for line in lines) <= MAX_LINE_BYTES


@pytest.mark.parametrize("text", ["", "12", "a b", "a b c d e", "u c 2026 1 0", "u c 2026-05-01T10:00:00Z -1 0"])
def test_what_is_no_place_is_none(text: str) -> None:
    assert Position.parse(text) is None
