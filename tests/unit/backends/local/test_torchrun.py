"""The form's own example of torchrun, with real torch on two replicas."""

from __future__ import annotations

from pathlib import Path

import pytest

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.core.status import Phase
from tests.unit.backends.local.following import end_of, lines_of
from tests.unit.backends.local.tasks import context, task

_TRAIN = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {total.item():g}", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.torch
async def test_torchrun_of_the_form_meets_across_two_replicas(backend: LocalBackend, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_TRAIN)
    command = (
        'torchrun --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" \\\n'
        f'  --nnodes "$WORLD_SIZE" --nproc_per_node 2 --node_rank "$RANK" {script}'
    )
    ref = await backend.submit(backend.render(task(command, workers=1), context()))
    status = await end_of(backend, ref)
    lines = await lines_of(backend, ref) + await lines_of(backend, ref, "worker-0")
    assert status.phase is Phase.SUCCEEDED, lines
    assert sorted(line for line in lines if line.startswith("rank")) == [f"rank {n} of 4: 10" for n in range(4)]
