from __future__ import annotations

import re

import pytest

from siflow_provider.core.launch import launch
from siflow_provider.core.protocol import TrainingBackend
from siflow_provider.errors import UnsupportedError
from tests.contract.life import Told, context
from tests.contract.world import World


async def test_each_field_that_is_refused_has_its_reason(world: World, backend: TrainingBackend) -> None:
    assert world.refused()
    for path, task in world.refused():
        reasons = [reason for reason in backend.unsupported(task) if reason.path == path]
        assert len(reasons) == 1, f"{path}: {backend.unsupported(task)}"
        assert re.fullmatch(r"([A-Z][a-z0-9]*)+", reasons[0].code), reasons[0]
        assert len(reasons[0].message.split()) >= 5, reasons[0]


async def test_a_refused_task_is_never_rendered_nor_submitted(world: World, backend: TrainingBackend) -> None:
    for path, task in world.refused():
        with pytest.raises(UnsupportedError) as caught:
            backend.render(task, context())
        assert path in str(caught.value)
        with pytest.raises(UnsupportedError):
            await launch(backend, task, context(), quota="ignore", reporter=Told())
    assert await backend.runs() == []


async def test_a_plain_task_has_no_reasons(world: World, backend: TrainingBackend) -> None:
    assert backend.unsupported(world.task("true", workers=2)) == []


async def test_what_is_honoured_in_part_is_told_at_launch(world: World, backend: TrainingBackend) -> None:
    task, told = world.task("true"), Told()
    await launch(backend, task, context(), quota="ignore", reporter=told)
    assert told.warnings == backend.warnings(task)
