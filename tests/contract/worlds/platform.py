"""The platform backend on the fake platform, whose pods are real bash processes of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil

from siflow_provider.backends.platform.backend import PlatformBackend
from siflow_provider.backends.platform.pace import Pace
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext, TrainingBackend
from siflow_provider.core.status import JobRef, Kind, Phase
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor, Mount, ResolvedTask
from siflow_provider.spec.task import PyTorchJob, RayJob
from tests.contract.life import until_phase
from tests.contract.world import Size, World
from tests.platform.client import connection
from tests.platform.names import OTHER_ID, OTHER_SECRET, POOL, signed
from tests.platform.platform import Platform
from tests.platform.server import RunningPlatform

_UNITS: dict[Size, int] = {"small": 1, "whole": 100, "impossible": 5000}
_INSTANCE = "cpu.demo-1"
QUICK = Pace(
    listing=0.15,
    longest_listing=0.3,
    pods=0.1,
    pods_per_minute=1e6,
    logs=0.1,
    longest_logs=0.1,
    settle=0.0,
    visible=2.0,
    first_pause=0.05,
    stopping=30.0,
)
"""Asks far more often than a real platform should be asked."""


class PlatformWorld:
    """A platform of its own for each test."""

    name = "platform"
    patience_seconds = 30.0

    def __init__(self, folder: Path) -> None:
        # as strict as a platform may be: whoever asks for what is so already is told off
        self._running = RunningPlatform(Platform(folder / "platform", stop_again="409")).__enter__()
        # what an admin would write who knows these spellings of the fake
        self._settings = connection(self._running.url, body_overrides={"kind": {"type": "rayjob"}})

    def backend(self) -> TrainingBackend:
        return PlatformBackend(self._settings, QUICK)

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
        units = _UNITS[size]
        raw = {
            "image": "registry.example/torch:2",
            "command": command,
            "workers": workers,
            "compute": {"type": "on_demand", "instances": [_INSTANCE], "units_per_replica": units},
            **form,
        }
        return ResolvedTask(
            task=(RayJob if kind == "RayJob" else PyTorchJob).model_validate(raw),
            image="registry.example/torch:2",
            env=env or {},
            hidden={name: Hidden(value) for name, value in (hidden or {}).items()},
            flavors=(Flavor(_INSTANCE, Resources.of({"cpu": "1", "memory": "1Gi"}) * units, resource_pool=POOL),),
            mounts=tuple(_mount(volume) for volume in form.get("volumes", ())),
        )

    def refused(self) -> Sequence[tuple[str, ResolvedTask]]:
        compute = {"type": "on_demand", "instances": [_INSTANCE]}
        volume = {"name": "team", "mount_path": "/mnt/team"}
        fields: list[tuple[str, dict[str, Any]]] = [
            ("compute.nodes", {"compute": {**compute, "nodes": {"only": ["n1"]}}}),
            ("compute.type", {"compute": {**compute, "type": "spot"}}),
            ("compute.stability", {"compute": {**compute, "type": "idle", "stability": "high"}}),
            ("visible_in_group", {"visible_in_group": True}),
            ("shm_size", {"shm_size": "1Gi"}),
            ("ssh", {"ssh": True}),
            ("monitoring", {"monitoring": {"port": 9000}}),
            ("image_pull_retries", {"image_pull_retries": 0}),
            ("region", {"region": "elsewhere"}),
            ("kubernetes.patch", {"kubernetes": {"patch": {"spec": {}}}}),
            ("volumes[0].name", {"volumes": [{**volume, "name": "pvc:team"}]}),
            ("volumes[0].sub_path", {"volumes": [{**volume, "sub_path": "a"}]}),
            ("volumes[0].read_only", {"volumes": [{**volume, "read_only": True}]}),
            ("command", {"command": "x" * 200_000}),
        ]
        return [(path, self.task(form.pop("command", "true"), **form)) for path, form in fields]

    async def vanish(self, ref: JobRef) -> None:
        await asyncio.to_thread(self._running.call, lambda: self._take_away(ref.uid))

    def _take_away(self, uid: str) -> None:
        engine = self._running.platform.engine
        engine.stop(engine.tasks[uid])
        del engine.tasks[uid]

    async def stuck_start(self, backend: TrainingBackend) -> JobRef:
        await asyncio.to_thread(self._running.change, hold_starts=True)
        context = RenderContext(identity=Identity.random("stuck"))
        ref = await backend.submit(backend.render(self.task("sleep 600", workers=2), context))
        await until_phase(backend, ref, Phase.STARTING)
        await asyncio.to_thread(self._running.change, hold_starts=False)
        return ref

    async def still_running(self, ref: JobRef) -> list[str]:
        return await asyncio.to_thread(_processes, ref.uid)

    def visible_text(self) -> str:
        """Return what another user of the platform sees, and all command lines."""
        with httpx.Client(base_url=self._running.url, trust_env=False) as client:

            def seen(path: str) -> str:
                return client.get(path, headers=signed(OTHER_ID, OTHER_SECRET)).text

            uuids = self._running.call(lambda: list(self._running.platform.engine.tasks))
            paths = [f"/task-service/v1/tasks/{uuid}{part}" for uuid in uuids for part in ("", "/pods")]
            texts = [seen(path) for path in ("/task-service/v1/tasks?isTaskAdmin=true&pageSize=500", *paths)]
        return "\n".join([*texts, *_command_lines()])

    async def close(self) -> None:
        await asyncio.to_thread(self._running.__exit__)


def _mount(volume: dict[str, Any]) -> Mount:
    return Mount(
        "volume",
        volume["name"].removeprefix("pvc:"),
        volume["mount_path"],
        sub_path=volume.get("sub_path", ""),
        read_only=volume.get("read_only", False),
    )


def _processes(uid: str) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("TASK_UUID") == uid:
                found.append(process.name())
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def _command_lines() -> list[str]:
    lines = []
    for process in psutil.process_iter():
        try:
            lines.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return lines


_: type[World] = PlatformWorld
