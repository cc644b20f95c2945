"""A stack dump of each rank, or the reason why there is none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from siflow_provider.backends.local import stacks
from siflow_provider.backends.local.backend import LocalBackend
from tests.unit.backends.local.following import end_of, running, stacks_with
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
    assert await backend.dump_stacks(ref) == {
        "master-0": "no stack dump: no Python process of the training runs in this replica."
    }


async def test_ray_s_own_processes_leave_the_place_in_the_dump_to_the_training_s(
    backend: LocalBackend, tmp_path: Path
) -> None:
    (tmp_path / "ray" / "_private").mkdir(parents=True)
    (tmp_path / "ray" / "dashboard").mkdir()
    (tmp_path / "ray" / "_private" / "log_monitor.py").write_text("import time; time.sleep(600)")
    (tmp_path / "ray" / "dashboard" / "dashboard.py").write_text(
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    )
    services = f"""for n in `seq 16`; do python {tmp_path}/ray/_private/log_monitor.py & done
python -u {tmp_path}/ray/dashboard/dashboard.py &"""
    ref = await backend.submit(backend.render(task(services + _WAITS), context()))
    await running(backend, ref)
    dumps = await stacks_with(backend, ref, "waits_for_a_peer_that_never_comes")
    assert dumps["master-0"].count("Process ") == 1


async def test_dump_of_more_processes_than_it_shows_says_so(backend: LocalBackend) -> None:
    many = "for n in `seq 17`; do python -c 'import time; time.sleep(600)' & done; wait"
    ref = await backend.submit(backend.render(task(many), context()))
    await running(backend, ref)
    dumps = await stacks_with(backend, ref, "the first 16 of 17 Python processes:")
    assert dumps["master-0"].count("Process ") == 16


async def test_missing_py_spy_is_told_with_the_mend(backend: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = await backend.submit(backend.render(task("sleep 600"), context()))
    await running(backend, ref)
    monkeypatch.setattr(stacks, "find_py_spy", lambda: None)
    assert "pip install py-spy" in (await backend.dump_stacks(ref))["master-0"]


async def test_ended_run_has_no_stacks(backend: LocalBackend) -> None:
    ref = await backend.submit(backend.render(task("true"), context()))
    await end_of(backend, ref)
    assert await backend.dump_stacks(ref) == {}
