"""What the real containers of the end-to-end tests run."""

from __future__ import annotations

__all__ = ["DDP", "SHARE", "SSH"]

DDP = """
python3 - <<'END'
import json, os, pathlib, signal
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
checkpoint, begin = pathlib.Path("/mnt/checkpoints/last.pt"), 0
if checkpoint.exists():
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    begin = saved["step"]
for step in range(begin, 4):
    optimizer.zero_grad()
    model(torch.ones(4, 2) * rank).sum().backward()
    optimizer.step()
    if rank == 0:
        torch.save({"model": model.state_dict(), "step": step + 1}, checkpoint)
    dist.barrier()
    if begin == 0 and step == 1 and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
total = sum(float(each.detach().sum()) for each in model.parameters())
print(f"rank {rank} of {dist.get_world_size()} began at step {begin} and has {total:.4f}", flush=True)
if rank == 0:
    with open(os.environ["SIFLOW_RESULTS"], "w") as file:
        json.dump({"total": round(total, 4), "began": begin}, file)
dist.destroy_process_group()
END
"""
"""Its second rank is killed once two steps are saved; the next attempt goes on from there."""

SSH = """
[ "$RANK" = 0 ] || sleep 600
while read -r host; do ssh -n "$host" 'echo "reached $(hostname)"'; done < /root/hostfile.hostname
"""

SHARE = """
python - <<'END'
import pathlib, socket, time
import ray

shared = pathlib.Path("/tmp/ray")
shared.joinpath("of-the-driver").write_text("read it")
ray.init(log_to_driver=False)

@ray.remote(num_cpus=1)
def work(number):
    shared.joinpath(f"of-{number}").touch()
    end = time.monotonic() + 120
    while len(list(shared.glob("of-?"))) < 3 and time.monotonic() < end:
        time.sleep(0.1)
    session = pathlib.Path(ray._private.worker._global_node.get_session_dir_path())
    has_socket = session.joinpath("sockets", "raylet").is_socket()
    return socket.gethostname(), shared.joinpath("of-the-driver").read_text(), shared in session.parents, has_socket

hosts, texts, on_volume, sockets = map(set, zip(*ray.get([work.remote(number) for number in range(3)])))
print(f"{len(hosts)} pods, {texts}, sessions on the volume: {on_volume}, with sockets: {sockets}")
print(sorted(path.name for path in shared.iterdir()))
END
echo "colour $COLOUR"
echo '{"loss": 0.5}' > "$SIFLOW_RESULTS"
"""
"""Three parts, each of which waits for the others: one worker more than there was must come."""
