"""Blocking calls into async code, from any thread, within a time limit, and interruptible."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from siflow_provider.operators.bridge import Interrupt, run_blocking

where: ContextVar[str] = ContextVar("where", default="nowhere")


async def forever(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("ended")


def test_value_and_context_go_through() -> None:
    where.set("in the task")

    async def ask() -> str:
        return where.get()

    assert run_blocking(ask) == "in the task"


def test_error_of_the_coroutine_is_the_callers() -> None:
    async def fail() -> None:
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        run_blocking(fail)


def test_limit_cancels_the_coroutine() -> None:
    ended: list[str] = []
    with pytest.raises(TimeoutError):
        run_blocking(lambda: forever(ended), timeout=0.05)
    assert ended == ["ended"]


def test_exception_of_a_signal_handler_ends_the_coroutine() -> None:
    class Alarm(BaseException):
        pass

    def ring(*_: object) -> None:
        raise Alarm

    ended: list[str] = []
    with pytest.raises(Alarm), alarm_after(0.05, ring):
        run_blocking(lambda: forever(ended))
    assert ended == ["ended"]


def test_late_timer_leaves_the_coroutine_time_to_end_by_itself() -> None:
    class Alarm(BaseException):
        pass

    def ring(*_: object) -> None:
        raise Alarm

    async def slow() -> str:
        await asyncio.sleep(0.3)
        return "its own words"

    with alarm_after(0.05, ring):
        assert run_blocking(slow, late=Alarm, overtime=5.0) == "its own words"
    with pytest.raises(Alarm), alarm_after(0.05, ring):
        run_blocking(lambda: forever([]), late=Alarm, overtime=0.05)


def test_second_call_works_inside_a_signal_handler_while_the_first_waits() -> None:
    interrupt, done = Interrupt(), []

    async def stop() -> str:
        return "stopped"

    def on_kill(*_: object) -> None:
        interrupt()
        done.append(run_blocking(stop, timeout=4))

    with pytest.raises(asyncio.CancelledError), alarm_after(0.05, on_kill):
        run_blocking(lambda: forever([]), interrupt=interrupt)
    assert done == ["stopped"]


def test_interrupt_before_the_start_counts() -> None:
    interrupt = Interrupt()
    interrupt()
    with pytest.raises(asyncio.CancelledError):
        run_blocking(lambda: forever([]), interrupt=interrupt)


def test_no_thread_is_left() -> None:
    async def nothing() -> None:
        return None

    run_blocking(nothing)
    deadline = time.monotonic() + 5
    while any(thread.name == "siflow-bridge" for thread in threading.enumerate()):
        assert time.monotonic() < deadline


class alarm_after:  # noqa: N801 - reads as a statement
    def __init__(self, seconds: float, handler: Callable[..., None]) -> None:
        self.seconds, self.handler = seconds, handler

    def __enter__(self) -> None:
        self.before = signal.signal(signal.SIGALRM, self.handler)
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)
