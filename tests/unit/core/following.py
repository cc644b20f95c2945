"""Follows a script from submission to outcome, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass

from siflow_provider.core.follow import follow
from siflow_provider.core.meter import Sizes
from siflow_provider.core.outcome import FollowPolicy, Outcome
from siflow_provider.core.status import LogCursor
from siflow_provider.spec.task import PyTorchJob, RayJob
from tests.unit.core.recorder import Recorder
from tests.unit.core.script import Script, now
from tests.unit.core.scripted_backend import ScriptedBackend
from tests.unit.core.tasks import context, make_task

DAY = 86400.0


@dataclass
class Followed:
    """What came of it."""

    outcome: Outcome
    told: Recorder
    backend: ScriptedBackend


async def follow_script(
    script: Script,
    policy: FollowPolicy | None = None,
    *,
    recorder: Recorder | None = None,
    cursor: LogCursor | None = None,
    sizes: Sizes = Sizes(),  # noqa: B008 - frozen
    kind: type[PyTorchJob] | type[RayJob] = PyTorchJob,
) -> Followed:
    """Submit the script's run and follow it."""
    backend, told = ScriptedBackend(script), recorder or Recorder()
    ref = await backend.submit(backend.render(make_task(kind=kind), context()))
    outcome = await follow(
        backend, ref, policy or FollowPolicy(), told, cursor=cursor or LogCursor(), sizes=sizes, clock=now
    )
    return Followed(outcome, told, backend)
