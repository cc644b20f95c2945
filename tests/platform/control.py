"""What may be changed about the fake while it serves: its pace, its strictness, and what goes wrong."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Fault(BaseModel):
    """What goes wrong with the next requests that match."""

    model_config = ConfigDict(extra="forbid")

    method: str = ""
    path: str = ""
    """Regular expression, searched in the path."""
    times: int = 1
    status: int = 0
    """HTTP status of the answer; 200 with `envelope_false`."""
    envelope_false: str = ""
    """Message of an envelope that says `status: false` under HTTP 200."""
    hang_seconds: float = 0.0
    """Wait before anything else; long enough, the client gives up."""
    after: bool = False
    """Do the work first, and lose the answer."""
    body: str | None = None
    """Sent as it is in place of an envelope."""
    headers: dict[str, str] = {}


class Control(BaseModel):
    """What may be changed while the server runs; what is left out stays."""

    model_config = ConfigDict(extra="forbid")

    visibility_seconds: float | None = None
    """How long a new task is missing in listings."""
    open_pools: bool | None = None
    """A pool that is not there is made for the task that names it."""
    hold_starts: bool | None = None
    """Admitted tasks stay PartialPending."""
    clock_seconds: float | None = None
    """How far the platform's clock is ahead of this machine's."""
    page_total: bool | None = None
    """False: a listing does not say how many tasks there are."""
    name_filter: Literal["contains", "prefix"] | None = None
    missing: Literal["404", "envelope"] | None = None
    """How a task that is not there is told."""
    stop_again: Literal["fine", "404", "409", "envelope"] | None = None
    """How the stop of a task is answered that has ended or is being stopped."""
    start_seconds: float | None = None
    run_seconds: float | None = None
    """How long simulated tasks run."""
    max_page: int | None = None
    quotas: dict[str, int] | None = None
    """`POOL/INSTANCE` -> quota."""
    faults: list[Fault] | None = None
