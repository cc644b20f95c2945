"""Which lines of a run the task log holds already, so that a trigger that starts anew shows each line once.

A trigger keeps nothing when its triggerer is killed: Airflow starts `run()` again from the first arguments. What was
shown is read back from the log files that earlier triggerers of the same try wrote, where this triggerer can see them
(one machine, a shared folder); else from the last checkpoint in XCom, which may be half a minute old.

Each start writes a marker that says how many lines were shown before it, per replica. So one file alone is enough to
know the sum, and the largest sum of all files and the checkpoint wins.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from siflow_provider.core.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["SHOWN_KEY", "Shown", "fresh_logs", "keep_log", "log_path", "marker", "read_shown", "trigger_logs"]

SHOWN_KEY = "siflow_shown"
"""XCom: the last checkpoint."""
_MARKER = re.compile(r"^following (?P<run>\S+(?:, part \d+)?)(?:; shown before: (?P<before>.*))?$")
_LINE = re.compile(r"^\[(?P<replica>[a-z][a-z0-9.-]*)\] ")
_FRESH = re.compile(r".*\.trigger\.[^.]+\.log")

_log = logging.getLogger(__name__)


class Shown(Frozen):
    """How many lines of each replica the task log holds for one stretch of following.

    Attributes:
        run: the job's name, with the part's number from the second deferral of the same job on.
        lines: replica -> lines.
    """

    run: str
    lines: dict[str, int] = {}

    def merged(self, other: Shown | None) -> Shown:
        """Return the larger count for each replica; a count of another run tells nothing."""
        if other is None or other.run != self.run:
            return self
        names = {*self.lines, *other.lines}
        return Shown(run=self.run, lines={n: max(self.lines.get(n, 0), other.lines.get(n, 0)) for n in sorted(names)})

    @classmethod
    def parse(cls, value: Any) -> Shown | None:
        """Read a checkpoint; None when it is not one."""
        try:
            return cls.model_validate(value)
        except ValidationError:
            return None


def marker(shown: Shown) -> str:
    """Return the line that a trigger writes when it starts.

    Example:
        >>> marker(Shown(run="bert-3f9c1a7", lines={"master-0": 12}))
        'following bert-3f9c1a7; shown before: master-0 12'
    """
    before = ", ".join(f"{name} {count}" for name, count in sorted(shown.lines.items()) if count)
    return f"following {shown.run}" + (f"; shown before: {before}" if before else "")


def count_lines(run: str, records: Iterable[str]) -> Shown:
    """Return what one log file (JSON lines) shows of `run`; a half-written last line is not counted."""
    counts: dict[str, int] = {}
    ours = False
    for record in records:
        event = _event(record)
        start = _MARKER.match(event)
        if start is not None:
            ours = start["run"] == run
            if ours:
                counts = _before(start["before"] or "")
        elif ours and (line := _LINE.match(event)) is not None:
            counts[line["replica"]] = counts.get(line["replica"], 0) + 1
    return Shown(run=run, lines=counts)


def read_shown(run: str, files: Iterable[Path]) -> Shown:
    """Return what all these log files together show of `run`. Blocks: for a thread."""
    shown = Shown(run=run)
    for path in files:
        try:
            with path.open(encoding="utf-8", errors="replace") as lines:
                shown = shown.merged(count_lines(run, lines))
        except OSError as error:
            _log.debug("can't read %s: %s", path, error)
    return shown


def trigger_logs(instance: Any) -> list[Path]:
    """Return the log files that triggerers wrote for this try, as far as this machine sees them. Blocks.

    The name's template is Airflow's own setting; templates that need more than the task instance find nothing. Nor are
    there any where a trigger knows no instance (`airflow dags test`).
    """
    path = log_path(instance)
    return [] if path is None else _logs_at(path)


def log_path(instance: Any) -> Path | None:
    """Return where this try's log begins, as its name's template says; None where that can't be told. Blocks."""
    from airflow.providers.common.compat.sdk import conf
    from jinja2 import TemplateError
    from jinja2.sandbox import SandboxedEnvironment

    folder = conf.get("logging", "base_log_folder", fallback="")
    template = conf.get("logging", "log_filename_template", fallback="")
    if instance is None or not folder or "{{" not in template:
        return None
    try:
        name = SandboxedEnvironment().from_string(template).render(ti=instance, try_number=instance.try_number)
    except TemplateError as error:
        _log.debug("can't tell where the log of %s is: %s", instance.task_id, error)
        return None
    return Path(folder) / name


def _logs_at(path: Path) -> list[Path]:
    if not path.parent.is_dir():
        return []
    return sorted(each for each in path.parent.iterdir() if each.name.startswith(f"{path.name}.trigger."))


def keep_log(instance: Any, run: str) -> None:
    """Keep what triggerers wrote for this stretch: Airflow empties the file when the same try is deferred again.

    Airflow opens `attempt=N.log.trigger.<job>.log` for writing from the start at each deferral (source: Airflow 3.3.2
    `airflow/jobs/triggerer_job_runner.py`, TriggerLoggingFactory), and shows every file whose name begins with
    `attempt=N.log`. Renamed, it stays visible, and lines that are still on their way reach it all the same. With remote
    logging the file is left alone: Airflow uploads it by its name, and appends. Blocks.
    """
    from airflow.providers.common.compat.sdk import conf

    if conf.getboolean("logging", "remote_logging", fallback=False):
        return
    place = log_path(instance)
    for path in fresh_logs(place) if place is not None else []:
        path.rename(path.with_name(f"{path.name}.{run.replace(', part ', '.')}.log"))


def fresh_logs(place: Path) -> list[Path]:
    """Return those of the logs at `log_path` that were not kept yet, the one written last at the end. Blocks."""
    fresh = [path for path in _logs_at(place) if _FRESH.fullmatch(path.name)]
    return sorted(fresh, key=lambda path: path.stat().st_mtime)


def _event(record: str) -> str:
    if not record.endswith("\n"):
        return ""
    try:
        parsed = json.loads(record)
    except ValueError:
        return ""
    return str(parsed.get("event", "")) if isinstance(parsed, dict) else ""


def _before(text: str) -> dict[str, int]:
    pairs: Mapping[str, str] = dict(part.rsplit(" ", 1) for part in text.split(", ") if " " in part)
    return {name: int(count) for name, count in pairs.items() if count.isdigit()}
