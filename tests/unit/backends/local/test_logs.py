"""Reading logs: every byte once, in order, in bounded pieces, from any position."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.local.logs import LogFile, follow_files
from siflow_provider.core.pieces import MAX_LINE_BYTES
from siflow_provider.core.status import LogCursor, LogLine
from siflow_provider.core.veil import Veil
from tests.drawing import examples
from tests.unit.backends.local.following import end_of
from tests.unit.backends.local.tasks import context, task


def _read_all(path: Path, offset: int = 0, veil: Veil = Veil()) -> list[LogLine]:  # noqa: B008 - frozen
    file = LogFile("master-0", path, offset, veil)
    lines: list[LogLine] = []
    while new := file.read(ended=True):
        lines += new
    return lines


def _joined(lines: list[LogLine]) -> list[str]:
    out, open_line = [], ""
    for line in lines:
        open_line += line.text
        if not line.partial:
            out.append(open_line)
            open_line = ""
    return out


def test_line_of_five_megabytes_comes_in_pieces_that_join_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    long = "é🚀x" * 750_000
    path.write_text(f"before\n{long}\nafter\n")
    lines = _read_all(path)
    assert max(len(line.text.encode()) for line in lines) <= MAX_LINE_BYTES
    assert _joined(lines) == ["before", long, "after"]


def test_line_of_exactly_the_limit_is_one_piece(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("x" * MAX_LINE_BYTES + "\n")
    assert [(len(line.text), line.partial) for line in _read_all(path)] == [(MAX_LINE_BYTES, False)]


def test_what_a_command_writes_after_it_emptied_its_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("epoch 1\nepoch 2\nhalf a li")
    file = LogFile("master-0", path)
    assert [line.text for line in file.read(ended=False)] == ["epoch 1", "epoch 2"]
    path.write_text("new\n")  # as `echo new > /dev/stderr` does
    (told,) = file.read(ended=False)
    assert told.remark
    assert "/dev/stderr" in told.text
    assert [(line.text, line.position) for line in file.read(ended=False)] == [("new", "4")]
    path.write_text("end")
    assert [line.text for line in file.read(ended=True)] == ["end"]


async def test_results_of_a_command_that_emptied_its_log_are_found(backend: LocalBackend) -> None:
    command = "seq 5000; echo done > /dev/stderr; echo '{\"loss\": 1}' > $SIFLOW_RESULTS"
    ref = await backend.submit(backend.render(task(command), context()))
    await end_of(backend, ref)
    behind = LogCursor(positions={"master-0": "20000"})
    lines = [line.text async for line in backend.logs(ref, "master", behind)]
    assert lines[-2:] == ["done", '::siflow-result:: {"loss": 1}']


def test_torn_character_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LogFile("master-0", path)
    assert file.read(ended=False) == []
    path.write_bytes("ab é".encode()[:-1])
    assert file.read(ended=False) == []
    path.write_bytes("ab é\n".encode())
    assert [line.text for line in file.read(ended=False)] == ["ab é"]


def test_unfinished_line_read_now_joins_with_what_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes("50 % é".encode()[:-1])
    first = LogFile("master-0", path).read(ended=False, now=True)
    assert [(line.text, line.partial) for line in first] == [("50 % ", True)]
    path.write_text("50 % é done\n")
    assert _joined(first + _read_all(path, int(first[0].position))) == ["50 % é done"]


def test_unfinished_line_read_now_ends_before_a_hidden_value_that_is_not_all_there(tmp_path: Path) -> None:
    path, veil = tmp_path / "log", Veil.of(["canary-7391"])
    path.write_text("-" * MAX_LINE_BYTES + " canar")
    first = LogFile("master-0", path, veil=veil).read(ended=False, now=True)
    assert "c" not in "".join(line.text for line in first)
    path.write_text("-" * MAX_LINE_BYTES + " canary-7391 is it\n")
    rest = _read_all(path, int(first[-1].position), veil)
    assert _joined(first + rest) == ["-" * MAX_LINE_BYTES + " canary-7391 is it"]
    assert "".join(veil.over(line.text) for line in rest).endswith("*** is it")


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 3 * MAX_LINE_BYTES), st.sampled_from(["canary-7391", "x" * 7, "é-canary-🚀" * 4000]), st.data())
def test_a_hidden_value_in_a_long_line_is_whole_in_one_piece_also_for_who_reads_on(
    tmp_path_factory: object, before: int, value: str, data: st.DataObject
) -> None:
    path, veil = tmp_path_factory.mktemp("log") / "log", Veil.of([value])  # type: ignore[attr-defined]
    line = f"{'-' * before}{value}{value} and on {'-' * before}"
    path.write_text(f"{line}\nafter\n")
    lines = _read_all(path, veil=veil)
    assert _joined(lines) == [line, "after"]
    assert "".join(veil.over(piece.text) for piece in lines) == f"{veil.over(line)}after"
    index = data.draw(st.integers(0, len(lines) - 1))
    assert _read_all(path, int(lines[index].position), veil) == lines[index + 1 :]


def test_two_hundred_thousand_short_lines_are_read_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("x\n" * 200_000)
    started = time.monotonic()
    assert len(_read_all(path)) == 200_000
    assert time.monotonic() - started < 10


def test_bytes_that_are_no_text_are_replaced_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\xff\xfeb\nok\r\n50%\r100%\nlast without end")
    assert [line.text for line in _read_all(path)] == ["a\ufffd\ufffdb", "ok", "50%\r100%", "last without end"]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=40), max_size=30), st.data())
def test_reading_on_from_any_position_loses_and_repeats_nothing(
    tmp_path_factory: object, texts: list[str], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"  # type: ignore[attr-defined]
    path.write_bytes("".join(f"{text}\n" for text in texts).encode())
    lines = _read_all(path)
    assert [line.text for line in lines] == texts
    if lines:
        index = data.draw(st.integers(0, len(lines) - 1))
        assert _read_all(path, int(lines[index].position)) == lines[index + 1 :]


def test_backlog_of_many_megabytes_is_read_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 99 + b"\n" + b"y" * 60_000_000 + b"\n")
    file = LogFile("master-0", path)
    tracemalloc.start()
    total = 0
    while lines := file.read(ended=True):
        total += sum(len(line.text) for line in lines)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == 60_000_099
    assert peak < 2_000_000


async def test_lines_are_seen_while_the_run_is_going_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("first\n")
    over = asyncio.Event()

    async def ended() -> bool:
        return over.is_set()

    lines = follow_files([LogFile("master-0", path)], ended, follow=True)
    assert (await anext(lines)).text == "first"
    with path.open("a") as file:
        file.write("second\nthird")
    assert (await anext(lines)).text == "second"
    over.set()
    assert [line.text async for line in lines] == ["third"]


async def test_four_replicas_with_thousands_of_lines_lose_none(backend: LocalBackend) -> None:
    ref = await backend.submit(backend.render(task("seq 1 5000", workers=3), context()))
    half: list[LogLine] = []
    async for line in backend.logs(ref, "all", LogCursor()):
        half.append(line)
        if len(half) == 7000:
            break
    cursor = LogCursor()
    for line in half:
        cursor = cursor.after(line)
    rest = [line async for line in backend.logs(ref, "all", cursor)]
    await end_of(backend, ref)
    for name in ("master-0", "worker-0", "worker-1", "worker-2"):
        numbers = [int(line.text) for line in half + rest if line.replica == name]
        assert numbers == list(range(1, 5001))
