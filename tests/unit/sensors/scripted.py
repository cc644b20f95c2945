"""A machine whose room a test decides, for what a real one can't be made to say."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, Self

from siflow_provider.backends.settings import Settings
from siflow_provider.core.quota import Answer, QuotaReport, Shortage, Verdict
from siflow_provider.core.status import JobRef, Status
from siflow_provider.errors import BackendUnavailable, Reason
from siflow_provider.spec.resolve import ResolvedTask

YES = Answer(Verdict.YES, "it fits")
SHORT = Answer(Verdict.NO, "the queue is full", (Shortage("nvidia.com/gpu", 8, 3, "GPUs", "queue od-h100"),))
NEVER = Answer(Verdict.NO, "no such queue", (Shortage("nvidia.com/gpu", 8, 0, "GPUs", "queue od-h10"),))


def report(*, available: Answer = YES, ever: Answer = YES) -> QuotaReport:
    """Return what a backend says."""
    return QuotaReport("od-h100", remaining=YES, available=available, idle=YES, ever=ever)


class Scripted:
    """Answers quota questions from a list, the last answer for ever; an exception is raised."""

    name = "local"
    answers: ClassVar[list[QuotaReport | Exception]] = []
    asked: ClassVar[list[ResolvedTask]] = []
    opened: ClassVar[list[int]] = []
    closed_doors: ClassVar[list[Exception]] = []
    reasons: ClassVar[list[Reason]] = []
    found: ClassVar[Callable[[], list[Status]]] = staticmethod(lambda: [])

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @classmethod
    def reset(cls, *answers: QuotaReport | Exception) -> None:
        """Begin a new script."""
        cls.answers[:] = answers
        cls.asked.clear()
        cls.opened.clear()
        cls.closed_doors.clear()
        cls.reasons.clear()
        cls.found = staticmethod(lambda: [])

    async def __aenter__(self) -> Self:
        self.opened.append(1)
        if self.closed_doors:
            raise self.closed_doors.pop(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def unsupported(self, task: ResolvedTask) -> list[Reason]:
        return list(self.reasons)

    async def quota(self, task: ResolvedTask, *, idle: bool = True) -> QuotaReport:
        self.asked.append(task)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def find_named(self, name: str) -> list[Status]:
        return [status for status in type(self).found() if status.ref.name == name]

    async def find_latest(self, run: JobRef, *, trail: object = None) -> JobRef | None:
        refs = [status.ref for status in type(self).found() if status.ref.task_uuid == run.task_uuid]
        return max(refs, key=lambda ref: ref.attempt, default=None)

    async def status(self, ref: JobRef) -> Status:
        return next(status for status in type(self).found() if status.ref == ref)


UNREACHABLE = BackendUnavailable("the API server does not answer.")


def instance(**more: Any) -> dict[str, Any]:
    """Return a catalog with two instances that queue in two queues."""
    return {
        "instances": {
            name: {"accelerator": "gpu", "resources": {"cpu": 12, "memory": "120Gi", "nvidia.com/gpu": 8}}
            for name in ("gpu.h100", "gpu.a100")
        },
        "queues": [
            {"type": "on_demand", "instance": "gpu.h100", "queue": "od-h100"},
            {"type": "on_demand", "instance": "gpu.a100", "queue": "od-a100"},
        ],
        **more,
    }
