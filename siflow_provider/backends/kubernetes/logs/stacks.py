"""Where each Python process of a replica stands now: py-spy, run inside the container where the image has it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from siflow_provider.backends.kubernetes.cluster.errors import Unavailable
from siflow_provider.backends.kubernetes.cluster.resources import PODS, RAYJOBS
from siflow_provider.backends.kubernetes.logs.pods import Stage, main_container, stage_of
from siflow_provider.backends.kubernetes.logs.view import PodView
from siflow_provider.backends.kubernetes.state.objects import Object, dig
from siflow_provider.core.status import JobRef
from siflow_provider.errors import BackendError

if TYPE_CHECKING:
    from siflow_provider.backends.kubernetes.cluster.api import Api
    from siflow_provider.backends.kubernetes.cluster.shared import Cluster

__all__ = ["dump_stacks"]

_DUMP_SECONDS = 30.0
_AT_ONCE = 8
_MAX_TEXT = 64 * 1024
_NO_PROGRAM, _NO_PROCESS, _NO_SHELL = 3, 4, (126, 127)
_SCRIPT = f"""\
spy=$(command -v py-spy) || exit {_NO_PROGRAM}
count=0
for exe in /proc/[0-9]*/exe; do
  case "$(readlink "$exe")" in */python*) ;; *) continue ;; esac
  pid=${{exe#/proc/}}
  pid=${{pid%/exe}}
  count=$((count + 1))
  [ "$count" -le 16 ] || break
  "$spy" dump --pid "$pid" 2>&1 || echo "no stack dump of process $pid: may this container trace (SYS_PTRACE)?"
  echo
done
[ "$count" -gt 0 ] || exit {_NO_PROCESS}
"""
_REASONS = {
    _NO_PROGRAM: "no stack dump: py-spy is not in the image. Install it there with `pip install py-spy`.",
    _NO_PROCESS: "no stack dump: no Python process runs in this replica.",
    **dict.fromkeys(_NO_SHELL, "no stack dump: the image has no shell to run py-spy from."),
}


async def dump_stacks(cluster: Cluster, ref: JobRef) -> dict[str, str]:
    """Return a text per replica that runs: its stacks, or why they can't be had.

    Ray's submitter is left out: it only waits for the program, which runs on the cluster.

    Raises:
        BackendError: the pods can't be looked at.
    """
    pods = cluster.store(PODS, ref.namespace)
    jobs = cluster.store(RAYJOBS, ref.namespace) if ref.kind == "RayJob" else None
    for store in (pods, jobs):
        if store is not None:
            await store.ready()
    view = PodView(ref, pods, jobs)
    view.refresh()
    running = {
        name: view.pod(pod)
        for pod, name in view.names().items()
        if not name.startswith("submitter-")
        and stage_of(view.pod(pod), main_container(view.pod(pod), name)) is Stage.OPEN
    }
    turns = asyncio.Semaphore(_AT_ONCE)
    texts = await asyncio.gather(*(_dump(cluster.api, ref, pod, name, turns) for name, pod in running.items()))
    return dict(zip(running, texts, strict=True))


async def _dump(api: Api, ref: JobRef, pod: Object, replica: str, turns: asyncio.Semaphore) -> str:
    argv = ["sh", "-c", _SCRIPT]
    try:
        async with turns:
            code, output, error = await api.execute(
                ref.namespace, str(dig(pod, "metadata", "name")), main_container(pod, replica), argv, _DUMP_SECONDS
            )
    except Unavailable:
        return f"no stack dump: py-spy did not answer within {_DUMP_SECONDS:g} s."
    except BackendError as refusal:
        return f"no stack dump: {refusal.message}"
    if code in _REASONS:
        return _REASONS[code]
    return (output.strip() or f"no stack dump: {error.strip() or f'exit code {code}'}")[:_MAX_TEXT]
