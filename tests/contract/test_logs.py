from __future__ import annotations

import asyncio

from siflow_provider.core.protocol import TrainingBackend
from siflow_provider.core.pump import closing_stream
from siflow_provider.core.status import LogCursor, LogLine, Phase
from tests.contract.life import end, first_lines, read, start, texts, until_phase
from tests.contract.world import World

LONG = 40_000


async def test_all_lines_of_all_replicas_come_in_order(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task('for n in $(seq 2000); do echo "$RANK:$n"; done', workers=2))
    lines = await read(backend, ref)
    for rank, replica in enumerate(("master-0", "worker-0", "worker-1")):
        assert texts(lines, replica) == [f"{rank}:{number}" for number in range(1, 2001)]


async def test_lines_of_the_last_moment_are_not_lost(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task("seq 20000; exit 1"))
    reading = asyncio.create_task(read(backend, ref))
    await end(backend, ref)
    assert texts(await reading, "master-0") == [str(number) for number in range(1, 20001)]


async def test_reading_goes_on_from_any_cursor(world: World, backend: TrainingBackend) -> None:
    command = 'for n in $(seq 12); do echo "$RANK:$n"; done; printf "%0.sä" $(seq 9000); echo; printf "no line end"'
    ref = await start(backend, world.task(command, workers=1))
    await end(backend, ref)
    whole = await read(backend, ref)
    assert len(whole) > 26
    cursor = LogCursor()
    async with world.backend() as other:
        for index, line in enumerate(whole):
            cursor = cursor.after(line)
            rest = await read(other, ref, cursor=LogCursor.model_validate_json(cursor.model_dump_json()))
            assert by_replica(rest) == by_replica(whole[index + 1 :])


def by_replica(lines: list[LogLine]) -> dict[str, list[LogLine]]:
    out: dict[str, list[LogLine]] = {}
    for line in lines:
        out.setdefault(line.replica, []).append(line)
    return out


async def test_lines_come_as_they_are(world: World, backend: TrainingBackend) -> None:
    command = (
        r"""echo; echo '  two blanks  '; echo 'ünï 漢字 🎉'; printf 'a\tb\n'; printf 'bad \xff byte\n'; printf end"""
    )
    ref = await start(backend, world.task(command))
    assert texts(await read(backend, ref), "master-0") == [
        "",
        "  two blanks  ",
        "ünï 漢字 🎉",
        "a\tb",
        "bad \ufffd byte",
        "end",
    ]


async def test_a_line_without_an_end_comes_even_when_it_is_the_only_one(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task("printf 'no line end'"))
    await end(backend, ref)
    assert texts(await read(backend, ref), "master-0") == ["no line end"]


async def test_a_long_line_comes_in_pieces_that_say_so(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task(f"head -c {LONG} /dev/zero | tr '\\0' x; echo; echo after"))
    lines = await read(backend, ref)
    assert texts(lines, "master-0") == ["x" * LONG, "after"]
    assert all(len(line.text.encode()) <= 16 * 1024 for line in lines)
    assert [line.partial for line in lines] == [True] * (len(lines) - 2) + [False, False]


async def test_only_the_named_replicas_are_read(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task('echo "$RANK"', workers=2))
    await end(backend, ref)
    assert [line.replica for line in await read(backend, ref, ("worker-1",))] == ["worker-1"]
    assert [line.replica for line in await read(backend, ref, "master")] == ["master-0"]
    assert await read(backend, ref, "none") == []


async def test_reading_may_begin_before_the_run_does(world: World, backend: TrainingBackend) -> None:
    first = await start(backend, world.task("sleep 600", size="whole"))
    await until_phase(backend, first, Phase.RUNNING)
    second = await start(backend, world.task("echo hello", size="whole"))
    await until_phase(backend, second, Phase.QUEUED)
    reading = asyncio.create_task(read(backend, second))
    await backend.stop(first, by="the test")
    assert texts(await reading, "master-0") == ["hello"]


async def test_lines_come_while_the_run_goes_on(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task("echo begun; sleep 600"))
    async with asyncio.timeout(world.patience_seconds):
        async for line in backend.logs(ref, "master", LogCursor()):
            assert line.text == "begun"
            break
    assert not (await backend.status(ref)).phase.terminal


async def test_reading_without_following_ends_at_now(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task("echo begun; sleep 600"))
    assert [line.text for line in await first_lines(world, backend, ref)] == ["begun"]


async def test_whoever_follows_has_all_lines_of_a_stopped_run(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task("echo begun; sleep 600"))
    async with asyncio.timeout(world.patience_seconds), closing_stream(backend.logs(ref, "all", LogCursor())) as lines:
        assert (await anext(lines)).text == "begun"
        await backend.stop(ref, by="the test")
        assert [line async for line in lines if not line.remark] == []


async def test_logs_of_a_run_that_is_gone_end(world: World, backend: TrainingBackend) -> None:
    ref = await start(backend, world.task("echo begun"))
    await end(backend, ref)
    await backend.delete(ref)
    assert await read(backend, ref) == []
