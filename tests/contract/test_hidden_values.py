"""A hidden value is seen by the task alone."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import replace

import pytest

from siflow_provider.core.outcome import FollowPolicy
from siflow_provider.core.policy import follow_policy
from siflow_provider.core.protocol import TrainingBackend
from siflow_provider.core.run import run
from siflow_provider.core.status import Kind, LogCursor, Phase
from siflow_provider.core.veil import Veil
from siflow_provider.errors import NameTaken, SiflowError, UnsupportedError
from tests.contract.life import (
    Told,
    context,
    end,
    expect_nothing_running,
    first_lines,
    read,
    start,
    texts,
    until_phase,
)
from tests.contract.world import World

CHECK = 'test "$(printf %s "$SECRET" | sha256sum | cut -c1-64)" = "$EXPECTED" && echo seen'


@pytest.fixture
def secret() -> str:
    return f"canary-{secrets.token_hex(12)}"


def digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()


async def test_every_replica_sees_the_hidden_value(world: World, backend: TrainingBackend, secret: str) -> None:
    task = world.task(CHECK, workers=1, hidden={"SECRET": secret}, env={"EXPECTED": digest(secret)})
    ref = await start(backend, task)
    assert (await end(backend, ref)).phase is Phase.SUCCEEDED
    lines = await read(backend, ref)
    assert texts(lines, "master-0") == texts(lines, "worker-0") == ["seen"]


async def test_nobody_else_sees_it_while_the_run_goes_on_or_later(
    world: World, backend: TrainingBackend, secret: str
) -> None:
    task = world.task("echo begun; sleep 600", workers=1, hidden={"SECRET": secret})
    manifest = backend.render(task, context())
    assert secret not in repr(manifest)
    ref = await backend.submit(manifest)
    status = await until_phase(backend, ref, Phase.RUNNING)
    assert secret not in repr(status)
    assert secret not in repr(ref)
    assert secret not in repr(await backend.runs())
    assert secret not in world.visible_text()
    await backend.stop(ref, by="the test")
    await expect_nothing_running(world, ref)
    assert secret not in world.visible_text()


async def test_it_is_in_nothing_that_a_failing_run_tells(world: World, backend: TrainingBackend, secret: str) -> None:
    task = world.task("exit 3", hidden={"SECRET": secret}, fault_tolerance={"max_retries": 1, "retry_on": ["code"]})
    told = Told()
    ended = await run(backend, task, context(), follow_policy(task), told, quota="require")
    assert ended.outcome.failure is not None
    assert secret not in told.everything
    assert secret not in repr(ended)
    assert secret not in ended.outcome.model_dump_json()
    assert secret not in ended.outcome.failure.describe()


async def test_it_is_in_no_status_though_the_last_lines_of_a_failed_run_hold_it(
    world: World, backend: TrainingBackend, secret: str
) -> None:
    ref = await start(backend, world.task('echo "bad token $SECRET"; exit 3', hidden={"SECRET": secret}))
    status = await end(backend, ref)
    assert status.failure is not None
    assert "bad token ***" in status.failure.last_lines
    assert secret not in repr(status)


@pytest.mark.parametrize(
    "kind", ["PyTorchJob", pytest.param("RayJob", marks=[pytest.mark.ray, pytest.mark.timeout(240)])]
)
async def test_a_failing_run_that_prints_it_is_told_with_the_mask_in_its_place(
    world: World, backend: TrainingBackend, secret: str, kind: Kind
) -> None:
    """The backend masks a failure before it keeps it; lines are masked by who shows them, and who knows the values."""
    command = 'echo "bad token $SECRET"; echo "ValueError: $SECRET is no token" >&2; exit 3'
    task = world.task(command, kind=kind, hidden={"SECRET": secret})
    ended = await run(backend, task, context(), follow_policy(task), told := Told(), quota="require")
    failure = ended.outcome.failure
    assert failure is not None
    assert failure.exit_code == 3
    assert {"bad token ***", "ValueError: *** is no token"} <= set(failure.last_lines)
    assert secret not in "\n".join([failure.describe(), ended.outcome.model_dump_json(), *told.notes, *told.warnings])
    assert secret not in repr([await backend.status(ended.outcome.ref), await backend.runs()])
    shown = [Veil.of([secret]).over(line.text) for line in told.lines]
    assert "bad token ***" in shown
    assert secret not in "\n".join(shown)


CUT = """
for before in 16383 16370 16354 32760; do head -c $before /dev/zero | tr '\\0' x; echo "$SECRET, and on"; done
exit 3
"""
"""Prints the value where lines are cut: at 16 KiB or twice as much, whether it begins before or long before."""


async def test_it_is_masked_in_each_piece_of_a_line_that_is_cut_where_it_stands(
    world: World, backend: TrainingBackend, secret: str
) -> None:
    task = world.task(CUT, hidden={"SECRET": secret})
    ended = await run(backend, task, context(), follow_policy(task), told := Told(), quota="require")
    veil = Veil.of([secret])
    shown = [replace(line, text=veil.over(line.text)) for line in told.lines]
    assert texts(shown, "master-0") == [f"{'x' * size}***, and on" for size in (16383, 16370, 16354, 32760)]
    assert ended.outcome.failure is not None
    for text in (ended.outcome.model_dump_json(), repr(await backend.status(ended.outcome.ref))):
        assert "***, and on" in text
        assert "canary" not in text
        assert not any(f"{secret[at:]}, and on" in text for at in range(len(secret)))


async def test_it_is_masked_where_the_failure_s_summary_quotes_the_beginning_of_a_long_line(
    world: World, backend: TrainingBackend, secret: str
) -> None:
    command = """echo "ValueError: $(head -c 280 /dev/zero | tr '\\0' x)$SECRET is no token" >&2; exit 3"""
    task = world.task(command, hidden={"SECRET": secret})
    ended = await run(backend, task, context(), follow_policy(task), Told(), quota="require")
    assert ended.outcome.failure is not None
    assert "xx***" in ended.outcome.failure.summary
    assert "canary" not in f"{ended.outcome.model_dump_json()} {await backend.status(ended.outcome.ref)!r}"


async def test_it_is_masked_wherever_a_reader_of_a_long_line_goes_on(
    world: World, backend: TrainingBackend, secret: str
) -> None:
    ref = await start(backend, world.task(CUT, hidden={"SECRET": secret}))
    await end(backend, ref)
    whole = await read(backend, ref)
    veil, cursor = Veil.of([secret]), LogCursor()
    for index, line in enumerate(whole):
        cursor = cursor.after(line)
        assert await read(backend, ref, cursor=cursor) == whole[index + 1 :]
    assert "".join(veil.over(line.text) for line in whole).count("***, and on") == 4


async def test_no_part_of_it_is_shown_of_a_line_that_is_still_being_written(
    world: World, backend: TrainingBackend, secret: str
) -> None:
    command = 'printf "begun\\n%.12s" "$SECRET"; sleep 600'
    ref = await start(backend, world.task(command, hidden={"SECRET": secret}))
    first = await first_lines(world, backend, ref)
    assert first[0].text == "begun"
    assert "c" not in "".join(line.text for line in first[1:])
    await backend.stop(ref, by="the test")


async def test_it_is_in_no_error(world: World, backend: TrainingBackend, secret: str) -> None:
    taken = await start(backend, world.task("sleep 600"))
    manifest = backend.render(world.task("true", hidden={"SECRET": secret}), context())
    errors: list[SiflowError] = []
    with pytest.raises(NameTaken) as refused:
        await backend.submit(replace(manifest, name=taken.name))
    errors.append(refused.value)
    path, task = world.refused()[0]
    assert path
    with pytest.raises(UnsupportedError) as unsupported:
        backend.render(replace(task, hidden=manifest.hidden), context())
    errors.append(unsupported.value)
    for error in errors:
        assert secret not in f"{error} {error!r} {vars(error)}"


async def test_the_policy_that_crosses_a_database_holds_no_secret(world: World, secret: str) -> None:
    policy: FollowPolicy = follow_policy(world.task("true", hidden={"SECRET": secret}))
    assert secret not in policy.model_dump_json()
