"""What a RayJob finds on its volumes and on shared storage, on real Ray clusters of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.core.identity import Identity
from siflow_provider.core.outcome import FollowPolicy
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.run import run
from siflow_provider.core.status import Phase
from siflow_provider.spec.resolve import Mount
from tests.contract.life import Told
from tests.unit.backends.local.ray_tasks import lines_of, ray_task, submit, wait_for, wait_until

pytestmark = [pytest.mark.ray, pytest.mark.timeout(280)]


async def test_volumes_and_shared_storage_stand_at_their_paths_on_every_node(
    backend: LocalBackend, state_dir: Path, tmp_path: Path
) -> None:
    mount = Mount("volume", "team", "/volume/data", local=str(tmp_path / "team"))
    ray = {"shared_storage": {"volume": "team", "clean_up": True}, "debug": {"keep_seconds": 1}}
    command = """python - <<'PY'
import os, ray
ray.init(log_to_driver=False)
def write(number):
    for folder in (os.environ["SIFLOW_SHARED_STORAGE"], os.environ["SIFLOW_MOUNT_TEAM"]):
        open(f"{folder}/{number}", "w").write("it")
    return ray.get_runtime_context().get_node_id()
tasks = [ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(write).remote(number) for number in range(2)]
ray.get(tasks)
print("all see", sorted(os.listdir(os.environ["SIFLOW_SHARED_STORAGE"])))
PY
echo "at $SIFLOW_SHARED_STORAGE and $SIFLOW_MOUNT_TEAM" """
    ref = await submit(backend, ray_task(command, workers=1, mounts=(mount,), ray=ray))
    status = await wait_for(backend, ref)
    lines = await lines_of(backend, ref)
    assert status.phase is Phase.SUCCEEDED, (status.failure, lines)
    assert "all see ['0', '1']" in lines
    if any("mounted for this run alone" in event.text for event in status.events):
        assert "at /tmp/ray and /volume/data" in lines
    assert {path.name for path in (tmp_path / "team").iterdir()} == {"0", "1"}
    folder = state_dir / "shared" / "siflow-ray" / ref.task_uuid
    await backend.finish(ref)
    await wait_until(lambda: not folder.exists())


async def test_checkpoint_on_shared_storage_outlives_a_hang_and_goes_after_the_last_attempt(
    backend: LocalBackend, state_dir: Path
) -> None:
    checkpoint = "$SIFLOW_SHARED_STORAGE/checkpoint"
    command = f"""if [ -e {checkpoint} ]; then echo resumed from `cat {checkpoint}`; exit 7; fi
echo step 3 > {checkpoint}; echo hangs; sleep 600"""
    task = ray_task(command, ray={"shared_storage": {"volume": "team", "clean_up": True}})
    policy = FollowPolicy(max_retries=1, retry_on=("hang",), hang_timeout=5)
    identity = Identity.random()
    end = await run(backend, task, RenderContext(identity=identity), policy, told := Told())
    assert (end.outcome.ref.attempt, end.outcome.phase) == (2, Phase.FAILED), told.notes
    assert "resumed from step 3" in [line.text for line in told.lines]
    folder = state_dir / "shared" / "siflow-ray" / identity.task_uuid
    await wait_until(lambda: not folder.exists())
