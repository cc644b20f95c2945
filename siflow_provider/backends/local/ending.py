"""What is said of a run at its end: its results, and why it failed with the evidence."""

from __future__ import annotations

from pathlib import Path

from siflow_provider.backends.local.record import RunState, Submission
from siflow_provider.backends.local.runner import Ending
from siflow_provider.backends.local.store import RunFolder
from siflow_provider.core.diagnosis import MAX_LAST_LINES, Evidence, diagnose
from siflow_provider.core.pieces import behind_cut
from siflow_provider.core.results import MAX_RESULT_BYTES, result_line
from siflow_provider.core.status import Failure, main_replica
from siflow_provider.core.veil import Veil

__all__ = ["failure_of", "last_lines", "oom_kills", "report_results"]

_TAIL_BYTES = 64 * 1024
_LAYOUT_ROOM = 4
_SHOWN_EVENTS = 5


def last_lines(path: Path, veil: Veil) -> tuple[str, ...]:
    """Return the last lines of a log, oldest first; () when there is none. No hidden value is cut in them."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ()
    whole = text if size <= _TAIL_BYTES else behind_cut(text, veil)
    return tuple(whole.splitlines()[-MAX_LAST_LINES:])


def report_results(folder: RunFolder, submission: Submission) -> str:
    """Put the results file, if there is one, as the marked line at the end of the main replica's log.

    Returns what the user should know when that was not possible, else "". A file that is too large for any reader is
    cut, so that the reader can say so and the log does not grow by it.
    """
    path = folder.work / "results.json"
    if path.exists() and not path.is_file():  # to open a pipe that nobody writes to would wait for ever
        return "the results file is no regular file, so it is left out"
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_RESULT_BYTES * _LAYOUT_ROOM)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"the results file could not be read: {error.strerror}"
    line = result_line(raw.decode("utf-8", "replace"))
    if line is None:
        return ""
    log = folder.logs / f"{main_replica(submission.ref.kind)}.log"
    try:
        with log.open("ab+") as file:
            size = file.seek(0, 2)
            if size:
                file.seek(size - 1)
            torn = size > 0 and file.read(1) != b"\n"
            file.write((b"\n" if torn else b"") + line.encode() + b"\n")
    except OSError as error:
        return f"the results could not be put into the log: {error.strerror}"
    return ""


def failure_of(folder: RunFolder, state: RunState, ending: Ending, *, out_of_memory: bool) -> Failure:
    """Return the failure with its class, the first failing replica and its last lines.

    The training may print a hidden value in them, and they are kept and shown to whoever asks: it is masked.
    """
    lines = last_lines(folder.logs / f"{ending.replica}.log", state.veil) if ending.replica else ()
    evidence = Evidence(
        replica=ending.replica,
        rank=ending.rank,
        exit_code=ending.exit_code,
        out_of_memory=out_of_memory,
        reason=ending.summary,
        last_lines=lines,
        events=tuple(event.text for event in state.events if event.warning)[-_SHOWN_EVENTS:],
        veil=state.veil,
    )
    return diagnose(evidence)


def oom_kills() -> int:
    """Return how many processes this machine has killed for want of memory since it was started."""
    try:
        rows = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(row.split()[1]) for row in rows if row.startswith("oom_kill ")), 0)
