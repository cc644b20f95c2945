"""The fake platform as one object: its engine, its keys, and what a test has changed about it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.platform.control import Control, Fault
from tests.platform.engine import Engine, Pool
from tests.platform.lists import demo_lists
from tests.platform.names import KEY_ID, KEY_SECRET, OTHER_ID, OTHER_SECRET, OTHER_USER, POOL, RESERVED, USER
from tests.platform.signing import Keys
from tests.platform.workflows import Workflow


def demo_pools() -> list[Pool]:
    """Return the pools that a platform starts with: invented names in the documented shape."""
    return [
        Pool(11, POOL, "cpu.demo-1", 100, {USER: 100}),
        Pool(12, POOL, "gpu.demo-1", 16, {USER: 16}),
        Pool(13, RESERVED, "gpu.demo-1", 8, {USER: 4}),
    ]


@dataclass
class Platform:
    """All that the routes look at.

    Attributes:
        requests: (method, path) of every signed request, in order.
    """

    folder: Path
    keys: Keys = field(default_factory=lambda: Keys({KEY_ID: (KEY_SECRET, USER), OTHER_ID: (OTHER_SECRET, OTHER_USER)}))
    commands: bool = True
    visibility_seconds: float = 0.0
    name_filter: str = "contains"
    missing: str = "404"
    stop_again: str = "fine"
    max_page: int = 1000
    page_total: bool = True
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    node_rules: dict[int, dict[str, Any]] = field(default_factory=dict)
    lists: dict[str, list[dict[str, Any]]] = field(default_factory=demo_lists)
    workflows: dict[int, Workflow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.engine = Engine(self.folder, demo_pools(), commands=self.commands)
        self._numbers = itertools.count(1)

    def ids(self) -> dict[str, str]:
        """Return fresh ids for support."""
        number = next(self._numbers)
        return {"requestID": f"r-{number}", "traceID": f"t-{number}"}

    def number(self) -> int:
        """Return a number that nothing else has."""
        return next(self._numbers)

    async def close(self) -> None:
        """End everything."""
        for workflow in self.workflows.values():
            if workflow.work is not None:
                workflow.work.cancel()
        await self.engine.close()

    def change(self, control: Control) -> None:
        """Apply what is given."""
        given = control.model_dump(exclude_none=True, exclude={"faults", "quotas"})
        for name, value in given.items():
            owner = next((part for part in (self.engine, self.keys) if hasattr(part, name)), self)
            setattr(owner, name, value)
        if control.faults is not None:
            self.faults[:] = control.faults
        for pool in self.engine.pools:
            pool.quota = (control.quotas or {}).get(pool.key, pool.quota)
        if control.quotas:
            self.engine.schedule()
