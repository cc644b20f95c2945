"""Whatever a backend and a machine do to a follower, each line is shown once and the outcome is the run's own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import looptime
from hypothesis import given, settings
from hypothesis import strategies as st

from siflow_provider.core.follow import follow
from siflow_provider.core.outcome import FollowPolicy, Outcome, OutcomeKind
from siflow_provider.core.status import LogCursor, Phase
from tests.drawing import examples
from tests.unit.core.recorder import Recorder
from tests.unit.core.script import Line, Script, now, phases
from tests.unit.core.scripted_backend import ScriptedBackend
from tests.unit.core.tasks import context, make_task

_T = TypeVar("_T")
LENGTH = 1000

spans = st.tuples(st.integers(0, LENGTH + 50), st.integers(1, 200)).map(lambda span: (span[0], span[0] + span[1]))
lines = st.lists(
    st.tuples(st.integers(0, LENGTH - 1), st.sampled_from(["master-0", "worker-0", "worker-1"])), max_size=60
)
ends = st.sampled_from([Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED, Phase.LOST])


def virtual(work: Callable[[], Awaitable[_T]]) -> _T:
    """Run a coroutine in an event loop of its own, in virtual time."""
    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:

        async def whole() -> _T:
            return await work()

        return runner.run(whole())


async def killed_and_started_anew(backend: ScriptedBackend, told: Recorder, kills: list[int]) -> Outcome:
    """Follow a run; at each of the moments the follower is cancelled and another one goes on from its checkpoint."""
    ref = await backend.submit(backend.render(make_task(), context()))
    cursor = LogCursor()
    loop = asyncio.get_running_loop()
    for moment in sorted(kills):
        following = asyncio.create_task(follow(backend, ref, FollowPolicy(logs="all"), told, cursor=cursor, clock=now))
        await asyncio.wait({following}, timeout=max(0.0, moment - loop.time()))
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        cursor = told.cursors[-1] if told.cursors else cursor
    return await follow(backend, ref, FollowPolicy(logs="all"), told, cursor=cursor, clock=now)


@settings(max_examples=examples(80), deadline=None)
@given(
    written=lines,
    end=ends,
    outages=st.lists(spans, max_size=3),
    log_outages=st.lists(spans, max_size=3),
    kills=st.lists(st.integers(0, LENGTH + 300), max_size=4),
    closing=st.none() | st.integers(3, 100),
)
def test_each_line_is_shown_once_and_in_order_whatever_happens(
    *,
    written: list[tuple[int, str]],
    end: Phase,
    outages: list[tuple[int, int]],
    log_outages: list[tuple[int, int]],
    kills: list[int],
    closing: int | None,
) -> None:
    texts = [Line(at, f"{number}", replica) for number, (at, replica) in enumerate(sorted(written))]
    script = Script(
        phases((0, Phase.QUEUED), (10, Phase.STARTING), (20, Phase.RUNNING), (LENGTH, end)),
        texts,
        outages=list(outages),
        log_outages=list(log_outages),
        watch_ends_every=closing,
    )
    told = Recorder()
    outcome = virtual(lambda: killed_and_started_anew(ScriptedBackend(script), told, kills))
    assert outcome.kind == OutcomeKind(str(end))
    for replica in ("master-0", "worker-0", "worker-1"):
        shown = [line for line in told.lines if line.startswith(replica)]
        assert shown == [f"{replica}: {line.text}" for line in texts if line.replica == replica]
