"""What ends a run that `run` follows: Ctrl-C, SIGTERM, a closed terminal, a reader of the output that is gone."""

from __future__ import annotations

import asyncio
import signal
from types import TracebackType
from typing import TYPE_CHECKING, Self

from siflow_provider.cli.terminal import TerminalReporter

if TYPE_CHECKING:
    from siflow_provider.core.protocol import TrainingBackend
    from siflow_provider.core.status import JobRef

__all__ = ["GaveUp", "Stopper"]

SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP (its terminal was closed)"}


class GaveUp(Exception):
    """Somebody asked twice: the command ends without waiting for the end of the run."""


class Stopper:
    """Turns a signal, or an output that nobody reads any more, into a stop of the run.

    The follower then sees the end and reports it as any other. A second Ctrl-C or SIGTERM ends the command at once.
    Used as `async with`, inside the loop that follows the run.

    Attributes:
        asked: done, with who asked, as soon as the run shall end.
    """

    def __init__(self, backend: TrainingBackend, reporter: TerminalReporter) -> None:
        self._backend, self._reporter = backend, reporter
        self._loop = asyncio.get_running_loop()
        self._follower = asyncio.current_task()
        self._ref: JobRef | None = None
        self._gave_up = False
        self._tasks: set[asyncio.Task[bool]] = set()
        self.asked: asyncio.Future[str] = self._loop.create_future()

    def take(self, ref: JobRef) -> None:
        """Remember the attempt that a stop would end; end it at once when the stop came first."""
        self._ref = ref
        if self.asked.done():
            self._stop()

    async def __aenter__(self) -> Self:
        """Listen to signals and to the reporter; a SIGHUP that is ignored (`nohup`) stays so."""
        self._reporter.on_closed = self._closed
        for number in SIGNALS:
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._loop.add_signal_handler(number, self._signalled, number)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listen no longer.

        Raises:
            GaveUp: the block was left because somebody asked twice.
        """
        for number in SIGNALS:
            self._loop.remove_signal_handler(number)
        self._reporter.on_closed = None
        if self._gave_up:
            raise GaveUp from None

    def _signalled(self, number: signal.Signals) -> None:
        if not self.asked.done():
            self._ask(SIGNALS[number], f"{SIGNALS[number]}: stopping the run")
        elif number is not signal.SIGHUP and self._follower is not None:
            name = "a run that is being submitted" if self._ref is None else self._ref.name
            self._reporter.note(f"not waited for: {name} may still run; `siflow-provider ps` tells", warning=True)
            self._gave_up = True
            self._follower.cancel()

    def _closed(self, reason: str) -> None:
        if not self.asked.done():
            self._ask("a closed output", f"the output can't be written ({reason}): stopping the run")

    def _ask(self, by: str, note: str) -> None:
        self.asked.set_result(by)
        self._reporter.note(note)
        if self._ref is not None:
            self._stop()

    def _stop(self) -> None:
        from siflow_provider.core.expiry import stop_run

        if self._ref is None:
            return
        # the loop keeps only weak references to tasks
        stopping = stop_run(self._backend, self._ref, self._reporter, by=self.asked.result())
        task = asyncio.ensure_future(stopping)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
