"""The embedded backend on a state directory of its own, with a machine of two cores."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.local.grace import GRACE_ENV
from siflow_provider.backends.settings import Settings
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext, TrainingBackend
from siflow_provider.core.status import JobRef, Kind, Phase
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor, Mount, ResolvedTask
from siflow_provider.spec.task import PyTorchJob, RayJob
from tests.contract.world import Size, World

_AMOUNTS: dict[Size, dict[str, str]] = {
    "small": {"cpu": "20m", "memory": "16Mi"},
    "whole": {"cpu": "2", "memory": "16Mi"},
    "impossible": {"cpu": "64", "memory": "16Mi"},
}
_RAY_AMOUNTS = {"cpu": "1", "memory": "1Gi"}
_GRACE = "2s"
"""Long enough for a shell that ends in order, short enough for tests of one that does not."""
_MANY = 40
_TRIES = 10


class LocalWorld:
    """Real processes of this machine."""

    name = "local"
    patience_seconds = 30.0

    def __init__(self, folder: Path) -> None:
        self._grace_before = os.environ.get(GRACE_ENV)
        os.environ[GRACE_ENV] = _GRACE
        self._state = folder / "state"
        self._state.mkdir()
        (self._state / "capacity.json").write_text(json.dumps({"cpu": 2, "memory": "4Gi", "gpus": 0}))
        self._thawing: set[asyncio.Task[None]] = set()

    def backend(self) -> TrainingBackend:
        return LocalBackend(Settings(state_dir=str(self._state)))

    def task(
        self,
        command: str,
        *,
        workers: int = 0,
        size: Size = "small",
        kind: Kind = "PyTorchJob",
        hidden: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        **form: Any,
    ) -> ResolvedTask:
        amounts = _RAY_AMOUNTS if kind == "RayJob" else _AMOUNTS[size]
        form_of = RayJob if kind == "RayJob" else PyTorchJob
        raw = {
            "image": "registry.example/torch:2",
            "command": command,
            "workers": workers,
            "compute": {"type": "on_demand", "instances": [amounts]},
            **form,
        }
        mounts = (Mount("volume", "nowhere", "/mnt/nowhere"),) if "volumes" in raw else ()
        return ResolvedTask(
            task=form_of.model_validate(raw),
            image="registry.example/torch:2",
            env=env or {},
            hidden={name: Hidden(value) for name, value in (hidden or {}).items()},
            flavors=(Flavor(instance="in-place", resources=Resources.of(amounts)),),
            mounts=mounts,
        )

    def refused(self) -> Sequence[tuple[str, ResolvedTask]]:
        compute = {"type": "on_demand", "instances": [_AMOUNTS["small"]]}
        fields: list[tuple[str, dict[str, Any]]] = [
            ("compute.nodes", {"compute": {**compute, "nodes": {"only": ["n1"]}}}),
            ("compute.guarantee", {"compute": {**compute, "guarantee": True}}),
            ("kubernetes.patch", {"kubernetes": {"patch": {"spec": {}}}}),
            ("kubernetes.service_account", {"kubernetes": {"service_account": "trainer"}}),
            ("kubernetes.image_pull_secrets", {"kubernetes": {"image_pull_secrets": ["regcred"]}}),
            ("kubernetes.node_selector", {"kubernetes": {"node_selector": {"zone": "a"}}}),
            ("kubernetes.tolerations", {"kubernetes": {"tolerations": [{"operator": "Exists"}]}}),
            ("kubernetes.annotations", {"kubernetes": {"annotations": {"a": "b"}}}),
            ("volumes[0]", {"volumes": [{"name": "nowhere", "mount_path": "/mnt/nowhere"}]}),
            ("command", {"command": "x" * 200_000}),
        ]
        return [(path, self.task(form.pop("command", "true"), **form)) for path, form in fields]

    async def vanish(self, ref: JobRef) -> None:
        aside = self._folder(ref).rename(self._state / f"{ref.uid}.removed")
        await asyncio.to_thread(shutil.rmtree, aside)

    async def stuck_start(self, backend: TrainingBackend) -> JobRef:
        """Freeze the supervisor of a large gang between its admission and its last replica."""
        for _ in range(_TRIES):
            context = RenderContext(identity=Identity.random("stuck"))
            ref = await backend.submit(backend.render(self.task("sleep 600", workers=_MANY), context))
            if await asyncio.to_thread(self._freeze, ref):
                thaw = asyncio.create_task(self._thaw_when_stopped(ref))
                self._thawing.add(thaw)
                return ref
            await backend.delete(ref)
        raise AssertionError("no supervisor could be frozen in its start")

    async def still_running(self, ref: JobRef) -> list[str]:
        return await asyncio.to_thread(self._processes, ref)

    def visible_text(self) -> str:
        """Return names and contents of all state files but the replicas' logs, and all command lines."""
        files = [path for path in self._state.rglob("*") if path.is_file() and path.parent.name != "logs"]
        texts = [f"{path}\n{path.read_text(errors='replace')}" for path in files if path.exists()]
        return "\n".join([*texts, *_command_lines()])

    async def close(self) -> None:
        async with self.backend() as backend:
            for status in await backend.runs():
                await backend.delete(status.ref)
        for thaw in self._thawing:
            thaw.cancel()
        await asyncio.gather(*self._thawing, return_exceptions=True)
        del os.environ[GRACE_ENV]
        if self._grace_before is not None:
            os.environ[GRACE_ENV] = self._grace_before

    def _folder(self, ref: JobRef) -> Path:
        return self._state / "runs" / ref.name

    def _state_of(self, ref: JobRef) -> dict[str, Any]:
        raw: dict[str, Any] = json.loads((self._folder(ref) / "state.json").read_text())
        return raw

    def _processes(self, ref: JobRef) -> list[str]:
        """Name what is a run's: a supervisor has its name on the command line, a replica a mark in its environment."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if ref.name in process.cmdline() or process.environ().get("SIFLOW_RUN_UID") == ref.uid:
                    found.append(process.name())
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def _freeze(self, ref: JobRef) -> bool:
        """Return whether the supervisor now stands still in phase `starting`."""
        while True:
            state = self._state_of(ref)
            if state["phase"] == Phase.STARTING:
                os.kill(state["supervisor"], signal.SIGSTOP)
                break
            if state["phase"] != Phase.QUEUED:
                return False
        if self._state_of(ref)["phase"] == Phase.STARTING:
            return True
        os.kill(state["supervisor"], signal.SIGCONT)
        return False

    async def _thaw_when_stopped(self, ref: JobRef) -> None:
        supervisor = self._state_of(ref)["supervisor"]
        try:
            await self._until((self._folder(ref) / "stop.json").exists, "the run is stopped", seconds=300)
        finally:
            os.kill(supervisor, signal.SIGCONT)

    async def _until(self, done: Any, what: str, *, seconds: float = 30.0) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not await asyncio.to_thread(done):
            assert loop.time() < deadline, f"waited in vain until {what}"
            await asyncio.sleep(0.05)


def _command_lines() -> list[str]:
    lines = []
    for process in psutil.process_iter():
        try:
            lines.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return lines


_: type[World] = LocalWorld
