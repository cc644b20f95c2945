"""Train a small network on the handwritten digits of scikit-learn, on one or many processes (DDP on gloo).

Copy it and put your own model and data in; what it shows of a good training job:

- Ranks meet by the environment: MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK, as a PyTorchJob sets them and as
  torchrun sets them for each of its processes. Started alone it trains on one process.
- A checkpoint after every epoch goes to the folder CHECKPOINT_DIR; a run that starts anew goes on behind the last one.
- Progress is one line per epoch, printed by rank 0; every rank says once that it takes part.
- Rank 0 writes the result as JSON to the file SIFLOW_RESULTS.

    python train_digits.py --epochs 8 --learning-rate 0.01
    torchrun --nproc_per_node 2 train_digits.py

Needs torch and scikit-learn. Nothing is downloaded: the data set is part of scikit-learn.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

HELD_OUT = 0.25
"""Share of the images that is never trained on and measures the accuracy."""


@dataclass(frozen=True)
class Options:
    """What the command line says.

    Attributes:
        epochs: passes over the training images, those of earlier runs with the same checkpoints included.
        learning_rate: of the Adam optimizer.
        batch_size: images per step and rank.
        seed: makes two runs of the same size equal.
    """

    epochs: int
    learning_rate: float
    batch_size: int
    seed: int


@dataclass
class Training:
    """What changes while training, and so what a checkpoint holds: weights, optimizer, epochs that are done."""

    network: nn.Module
    optimizer: torch.optim.Optimizer
    epoch: int = 0

    def state(self) -> dict[str, Any]:
        """Return everything that another process needs to go on from here."""
        return {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict(), "epoch": self.epoch}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state()` returned."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch = int(state["epoch"])


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a small network on scikit-learn's handwritten digits.")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=7)
    return Options(**vars(parser.parse_args(arguments)))


def join_group() -> tuple[int, int]:
    """Meet the other ranks; return this one's number and how many there are."""
    for name, alone in (("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500"), ("WORLD_SIZE", "1"), ("RANK", "0")):
        os.environ.setdefault(name, alone)
    dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def load_images(seed: int) -> tuple[TensorDataset, TensorDataset]:
    """Return the images to train on and the held-out ones; the same split on every rank."""
    pixels, digits = load_digits(return_X_y=True)
    parts = train_test_split(pixels / 16.0, digits, test_size=HELD_OUT, random_state=seed, stratify=digits)
    train_x, test_x = (torch.tensor(part, dtype=torch.float32) for part in parts[:2])
    train_y, test_y = (torch.tensor(part, dtype=torch.int64) for part in parts[2:])
    return TensorDataset(train_x, train_y), TensorDataset(test_x, test_y)


def build_network() -> nn.Module:
    """Return the network: 64 pixels in, one score for each of the ten digits out."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def find_checkpoint(folder: Path | None) -> Path | None:
    """Return the newest checkpoint of the folder, if there is any."""
    found = sorted(folder.glob("epoch-*.pt")) if folder is not None and folder.is_dir() else []
    return found[-1] if found else None


def save_checkpoint(training: Training, folder: Path) -> None:
    """Write a checkpoint so that a process killed in the middle leaves no half file behind."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".epoch-{training.epoch:04d}.tmp"
    torch.save(training.state(), unfinished)
    unfinished.replace(folder / f"epoch-{training.epoch:04d}.pt")


def resume(training: Training, folder: Path | None, rank: int) -> None:
    """Bring every rank to the state of the last checkpoint, which only rank 0 has to be able to read."""
    path = find_checkpoint(folder) if rank == 0 else None
    parcel: list[Any] = [torch.load(path, weights_only=True) if path is not None else None]
    dist.broadcast_object_list(parcel, src=0)
    if parcel[0] is not None:
        training.restore(parcel[0])
        if rank == 0:
            print(f"resumed behind epoch {training.epoch} from {path}", flush=True)


def train_epoch(training: Training, model: DistributedDataParallel, batches: DataLoader[Any]) -> float:
    """Train one epoch on this rank's share of the images; return the mean loss of all ranks."""
    model.train()
    total = torch.zeros(2)
    for pixels, digits in batches:
        training.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(pixels), digits)
        loss.backward()
        training.optimizer.step()
        total += torch.tensor([loss.item() * len(digits), len(digits)])
    training.epoch += 1
    dist.all_reduce(total)
    return float(total[0] / total[1])


def measure_accuracy(network: nn.Module, images: TensorDataset) -> float:
    """Return the share of images whose digit the network names."""
    pixels, digits = images.tensors
    network.eval()
    with torch.no_grad():
        return float((network(pixels).argmax(dim=1) == digits).float().mean())


def write_results(results: dict[str, Any]) -> None:
    """Leave the results where the task that started the job picks them up; do nothing when started by hand."""
    target = os.environ.get("SIFLOW_RESULTS")
    if target:
        Path(target).write_text(json.dumps(results), encoding="utf-8")


def train(options: Options, rank: int, world_size: int) -> None:
    """Train until `options.epochs` are done; rank 0 reports."""
    torch.manual_seed(options.seed)
    train_images, test_images = load_images(options.seed)
    sampler: DistributedSampler[Any] = DistributedSampler(train_images, world_size, rank, seed=options.seed)
    batches: DataLoader[Any] = DataLoader(train_images, batch_size=options.batch_size, sampler=sampler)
    network = build_network()
    model = DistributedDataParallel(network)
    training = Training(network, torch.optim.Adam(network.parameters(), lr=options.learning_rate))
    folder = Path(os.environ["CHECKPOINT_DIR"]) if os.environ.get("CHECKPOINT_DIR") else None
    print(f"rank {rank} of {world_size} on {socket.gethostname()}: {len(sampler)} images per epoch", flush=True)

    resume(training, folder, rank)
    while training.epoch < options.epochs:
        sampler.set_epoch(training.epoch)
        loss = train_epoch(training, model, batches)
        if rank == 0:
            accuracy = measure_accuracy(network, test_images)
            print(f"epoch {training.epoch}/{options.epochs} loss={loss:.4f} accuracy={accuracy:.4f}", flush=True)
            if folder is not None:
                save_checkpoint(training, folder)
    if rank == 0:
        accuracy = measure_accuracy(network, test_images)
        write_results({"accuracy": round(accuracy, 4), "epochs": training.epoch, "samples": len(train_images)})
    dist.barrier()


def main() -> None:
    """Train, and leave the group whatever happens."""
    options = parse_options()
    rank, world_size = join_group()
    try:
        train(options, rank, world_size)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
