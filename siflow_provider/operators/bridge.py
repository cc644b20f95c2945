"""The one bridge from Airflow's blocking calls to our async code.

The coroutine runs in a thread of its own, with its own event loop: `on_kill` is called from a signal handler on the
main thread while that thread waits in here, and a second call must work then. Airflow's timers raise in the waiting
main thread, which then ends the coroutine before it lets the exception pass.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["Interrupt", "run_blocking"]

T = TypeVar("T")
_GRACE_SECONDS = 10.0


class Interrupt:
    """Cancels the coroutine of a `run_blocking` from another thread or a signal handler, before or while it runs."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may come while this very thread holds it
        self._asked = False
        self._cancel: Callable[[], object] | None = None

    def arm(self, cancel: Callable[[], object] | None) -> None:
        """Say how to cancel; None once there is nothing to cancel any more."""
        with self._lock:
            self._cancel = cancel
            if self._asked and cancel is not None:
                cancel()

    def __call__(self) -> None:
        """Cancel."""
        with self._lock:
            self._asked = True
            if self._cancel is not None:
                self._cancel()


def run_blocking(
    make: Callable[[], Coroutine[Any, Any, T]],
    *,
    timeout: float | None = None,
    late: type[BaseException] | tuple[type[BaseException], ...] = (),
    overtime: float = 0.0,
    interrupt: Interrupt | None = None,
) -> T:
    """Run the coroutine that `make` returns to its end and return its value.

    Args:
        make: called in the thread that runs the loop.
        timeout: seconds; None = no limit.
        late: exceptions that a timer of Airflow raises in this thread; the coroutine may still end by itself then.
        overtime: seconds that it gets for that.
        interrupt: cancels the coroutine from elsewhere.

    Raises:
        TimeoutError: the time is over; the coroutine has been cancelled.
        CancelledError: it was interrupted.
    """
    done: Future[T] = Future()
    stop = interrupt or Interrupt()
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(_serve, make, done, stop), name="siflow-bridge", daemon=True)
    thread.start()
    try:
        return _result(done, timeout, late, overtime)
    except BaseException:
        # also when Airflow's timer or a signal raised here: nothing of ours may go on behind the caller's back
        stop()
        thread.join(_GRACE_SECONDS)
        raise


def _result(
    done: Future[T], timeout: float | None, late: type[BaseException] | tuple[type[BaseException], ...], overtime: float
) -> T:
    try:
        return done.result(timeout)
    except late as error:
        try:
            return done.result(overtime)
        except TimeoutError:
            raise error from None


def _serve(make: Callable[[], Coroutine[Any, Any, T]], done: Future[T], stop: Interrupt) -> None:
    async def main() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(make())
        stop.arm(lambda: loop.call_soon_threadsafe(task.cancel))
        try:
            return await task
        finally:
            stop.arm(None)

    try:
        result = asyncio.run(main())
    except BaseException as error:
        done.set_exception(error)
    else:
        done.set_result(result)
