"""A stack dump of each rank, or the reason why there is none."""

from __future__ import annotations

import asyncio

import pytest

from siflow_provider.backends.local import stacks
from siflow_provider.backends.local.backend import LocalBackend
from tests.unit.backends.local.following import end_of, running
from tests.unit.backends.local.tasks import context, task

pytestmark = pytest.mark.runs

_WAITS = """
python - <<'PY'
import threading
def waits_for_a_peer_that_never_comes():
    print("waiting", flush=True)
    threading.Event().wait()
waits_for_a_peer_that_never_comes()
PY
"""


async def test_stack_of_every_rank_names_the_function_it_hangs_in(backend: LocalBackend) -> None:
    ref = await backend.submit(backend.render(task(_WAITS, workers=1), context()))
    await running(backend, ref)
    async with asyncio.timeout(60):
        while True:
            dumps = await backend.dump_stacks(ref)
            if all("waits_for_a_peer_that_never_comes" in text for text in dumps.values()):
                break
            await asyncio.sleep(0.2)
    assert sorted(dumps) == ["master-0", "worker-0"]


async def test_replica_without_python_says_so(backend: LocalBackend) -> None:
    ref = await backend.submit(backend.render(task("sleep 600"), context()))
    await running(backend, ref)
    assert await backend.dump_stacks(ref) == {"master-0": "no stack dump: no Python process runs in this replica."}


async def test_missing_py_spy_is_told_with_the_mend(backend: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = await backend.submit(backend.render(task("sleep 600"), context()))
    await running(backend, ref)
    monkeypatch.setattr(stacks, "find_py_spy", lambda: None)
    assert "pip install py-spy" in (await backend.dump_stacks(ref))["master-0"]


async def test_ended_run_has_no_stacks(backend: LocalBackend) -> None:
    ref = await backend.submit(backend.render(task("true"), context()))
    await end_of(backend, ref)
    assert await backend.dump_stacks(ref) == {}
