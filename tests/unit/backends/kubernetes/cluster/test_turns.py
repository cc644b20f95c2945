from __future__ import annotations

import asyncio
import time

from siflow_provider.backends.kubernetes.cluster.turns import Turns

MANY = 2000
WORK_SECONDS = 0.0005


async def test_thousands_who_wake_together_leave_the_loop_time_for_others() -> None:
    turns, bell, done = Turns(), asyncio.Event(), []

    async def look(number: int) -> None:
        await bell.wait()
        await turns.mine()
        end = time.perf_counter() + WORK_SECONDS
        while time.perf_counter() < end:
            pass
        done.append(number)

    waiting = [asyncio.create_task(look(number)) for number in range(MANY)]
    await asyncio.sleep(0)
    bell.set()
    rounds = 0
    while len(done) < MANY:
        await asyncio.sleep(0)
        rounds += 1
    await asyncio.gather(*waiting)
    assert done == list(range(MANY))
    assert rounds >= MANY // 10


async def test_who_is_alone_passes_at_once() -> None:
    turns = Turns()
    for _ in range(3):
        async with asyncio.timeout(1):
            await asyncio.gather(turns.mine(), turns.mine())


async def test_who_is_cancelled_while_it_waits_holds_up_nobody() -> None:
    turns = Turns(at_once=1)
    await turns.mine()
    waiting = [asyncio.create_task(turns.mine()) for _ in range(10)]
    await asyncio.sleep(0)
    for task in waiting[:9]:
        task.cancel()
    async with asyncio.timeout(1):
        await waiting[9]
        await turns.mine()
