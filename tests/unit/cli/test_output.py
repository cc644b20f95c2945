"""What the command prints: of a run in JSON, in tables, and to an output that is closed, full or no UTF-8."""

from __future__ import annotations

import io
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from siflow_provider.cli.output import print_table, status_data
from siflow_provider.core.status import Event, JobRef, Phase, Status
from siflow_provider.core.veil import Veil
from tests.unit.cli.conftest import Command

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_events_are_in_the_json_of_a_run_without_its_hidden_values() -> None:
    ref = JobRef(backend="kubernetes", name="train", kind="PyTorchJob", uid="u1", task_uuid="t1", attempt=1)
    event = Event(NOW, "FailedMount: no such secret canary-7391", warning=True)
    status = Status(ref, Phase.STARTING, events=(event,), veil=Veil.of(["canary-7391"]))
    assert status_data(status, NOW)["events"] == [
        {"time": "2026-11-30T12:00:00+00:00", "text": "FailedMount: no such secret ***", "warning": True}
    ]


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_brackets_in_a_table_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    print_table(("name", "why"), [("train", "no room in [flavor] for [/gpu]")])
    assert "no room in [flavor] for [/gpu]" in screen.getvalue()


def test_a_row_in_a_pipe_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "why"), [("train", "pull failed:\n\tno such image")])
    assert capsys.readouterr().out == "name\twhy\ntrain\tpull failed: no such image\n"


@pytest.mark.runs
@pytest.mark.parametrize("arguments", [("export", "{form}"), ("check", "missing.yaml")])
@pytest.mark.parametrize(
    ("closed", "code", "told"),
    [
        (">&-", 0, ""),
        (">&- 2>&- <&-", 0, ""),
        (
            ">/dev/full",
            2,
            "the output can't be written: No space left on device. Lead it elsewhere, or free some space.",
        ),
    ],
)
def test_an_output_that_is_closed_or_full_is_no_traceback(
    command: Command, arguments: tuple[str, ...], closed: str, code: int, told: str
) -> None:
    words = [word.format(form=command.form()) for word in arguments]
    done = subprocess.run(
        ["bash", "-c", f'"$@" {closed}', "bash", sys.executable, "-m", "siflow_provider.cli.main", *words],
        cwd=command.folder, env=command.environment, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == (2 if "missing.yaml" in words else code)
    assert done.stderr == (f"error: {told}\n" if told else "")


@pytest.mark.runs
def test_an_output_that_is_no_utf_8_gets_escapes(command: Command) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    process = command.start("run", command.form("echo Größe"), variables=ascii_only)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "[master-0] Gr\\xf6\\xdfe\n"), err
