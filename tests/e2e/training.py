"""What the operators' end-to-end tests share: small training DAGs, and the runs that the embedded backend knows."""

from __future__ import annotations

import asyncio
from textwrap import dedent, indent
from typing import TYPE_CHECKING

from scripts.airflow_stack import wait_until
from siflow_provider.backends import make_backend
from siflow_provider.backends.settings import Settings

if TYPE_CHECKING:
    from scripts.airflow_stack import AirflowStack
    from siflow_provider.core.status import Status

__all__ = ["WORKER_DIES_ONCE", "add_training_dag", "numbered_lines", "runs_of", "wait_no_live_run"]

HEAD = """
from datetime import timedelta

from airflow.sdk import DAG, task

from siflow_provider.operators import PyTorchJobOperator

SMALL = {{"type": "on_demand", "instances": [{{"cpu": "100m", "memory": "64Mi"}}]}}
JOB = {{"image": "registry.example/train:1", "compute": SMALL}}

with DAG("{name}", schedule=None{dag_args}):
"""

WORKER_DIES_ONCE = """
import os
import signal
from siflow_provider.operators import leg

look = leg._look

async def look_or_die(backend, order, step):
    if order.context.identity.try_number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return await look(backend, order, step)

leg._look = look_or_die

PyTorchJobOperator(
    task_id="train", command="echo at work; [ $AIRFLOW_CTX_TRY_NUMBER = 2 ] || sleep 600", retries=1,
    retry_delay=timedelta(seconds=1), **JOB,
)
"""
"""A DAG's body: the first try's worker is killed between the submission and the deferral, the second one ends."""


def add_training_dag(stack: AirflowStack, name: str, body: str, *, dag_args: str = "") -> None:
    """Add a DAG whose body may use SMALL (a tiny instance) and JOB (an image and that instance)."""
    stack.add_dag(name, HEAD.format(name=name, dag_args=dag_args) + indent(dedent(body), "    "))


def runs_of(stack: AirflowStack, prefix: str) -> list[Status]:
    """Return every run of the embedded backend whose name begins with `prefix`."""

    async def ask() -> list[Status]:
        settings = Settings(backend="local", state_dir=str(stack.settings.home / "siflow"))
        async with make_backend(settings) as backend:
            return [status for status in await backend.runs() if status.ref.name.startswith(prefix)]

    return asyncio.run(ask())


def wait_no_live_run(stack: AirflowStack, prefix: str, *, timeout: float = 60) -> list[Status]:
    """Wait until no run of that name is alive, and return them all."""

    def all_ended() -> list[Status] | None:
        found = runs_of(stack, prefix)
        return found if found and all(status.phase.terminal for status in found) else None

    return wait_until(all_ended, timeout=timeout, what=f"no run {prefix}* is alive")


def numbered_lines(log: str, replica: str, word: str) -> list[int]:
    """Return the numbers behind `word` in one replica's lines, in the order of the log."""
    marks = [line.partition(f"[{replica}] {word} ")[2] for line in log.splitlines()]
    return [int(mark.split()[0]) for mark in marks if mark.strip()]
