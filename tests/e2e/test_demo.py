"""README's first command: what a newcomer sees, and that nothing of it is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from scripts.airflow_stack import wait_until

ROOT = Path(__file__).parents[2]
QUICK = ("--conf", '{"epochs": 2, "trials": 1}')
DEMO_SECONDS = 240


def environment(home: Path) -> dict[str, str]:
    return os.environ | {"DEMO_PYTHON": sys.executable, "DEMO_HOME": str(home)}


@contextmanager
def demo(home: Path, *arguments: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """Start scripts/demo in this very environment, and make sure that nothing of it is up after the block."""
    settings = environment(home) | env
    output = (home.parent / "output").open("a+", encoding="utf-8")
    argv = [str(ROOT / "scripts" / "demo"), *arguments]
    process = subprocess.Popen(argv, env=settings, stdout=output, stderr=output, text=True, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        output.close()
        down = subprocess.run([argv[0], "--down"], env=settings, capture_output=True, timeout=90, check=False)
        assert down.returncode == 0


def output_of(home: Path) -> str:
    return (home.parent / "output").read_text(encoding="utf-8")


def processes_of(home: Path) -> list[str]:
    """Return the command lines of all processes that were started for this home."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if (
                str(home) in " ".join([*process.cmdline(), *process.environ().values()])
                and process.status() != "zombie"
            ):
                found.append(" ".join(process.cmdline()))
    return found


def until(look: Callable[[], object], home: Path, what: str, timeout: float = DEMO_SECONDS) -> None:
    wait_until(look, timeout=timeout, what=what, describe=lambda: output_of(home)[-4000:])


@pytest.mark.timeout(600)
def test_demo_trains_promotes_and_the_second_run_compares_with_the_promoted_model(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with demo(home) as first:
        assert first.wait(DEMO_SECONDS) == 0, output_of(home)
    shown = output_of(home)
    assert "watch it in the browser: http://127.0.0.1:" in shown
    for phrase in ("rank 1 of 2", "epoch 8/8", "best of", "this is the first one", "promoted", "core-seconds"):
        assert phrase in shown
    assert processes_of(home) == []
    begin = time.monotonic()
    with demo(home) as second:
        assert second.wait(DEMO_SECONDS) == 0, output_of(home)
    shown = output_of(home).removeprefix(shown)
    assert "promoted before" in shown
    assert "no, not better" in shown
    assert processes_of(home) == []
    assert time.monotonic() - begin < DEMO_SECONDS


@pytest.mark.timeout(400)
def test_kept_demo_stays_up_until_it_is_ended_by_name(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with demo(home, *QUICK, KEEP="1") as process:
        assert process.wait(DEMO_SECONDS) == 0, output_of(home)
        assert "stays up at http://127.0.0.1:" in output_of(home)
        assert any("scheduler" in line for line in processes_of(home))
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        with demo(elsewhere / "home", "--down") as other:
            assert other.wait(60) == 0
        assert "nothing is up" in output_of(elsewhere / "home")
        again = subprocess.run(
            [ROOT / "scripts" / "demo"], env=environment(home), capture_output=True, text=True, timeout=60, check=False
        )
        assert again.returncode == 1
        assert "a demo is up already; `scripts/demo --down` ends it" in again.stderr
        assert any("scheduler" in line for line in processes_of(home))
    assert processes_of(home) == []


@pytest.mark.timeout(400)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_demo_interrupted_while_training_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    home = tmp_path / "home"
    with demo(home, "--conf", '{"epochs": 100000}') as process:
        until(lambda: "epoch 2/" in output_of(home) or process.poll() is not None, home, "the training is shown")
        process.send_signal(number)
        until(lambda: process.poll() is not None, home, "the demo has ended", timeout=60)
        until(lambda: processes_of(home) == [], home, "no process is left", timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)


@pytest.mark.timeout(400)
def test_failed_training_is_shown_with_its_traceback_and_is_the_exit_code(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "checkpoints").write_text("a file where the training wants a folder", encoding="utf-8")
    with demo(home, *QUICK) as process:
        assert process.wait(DEMO_SECONDS) == 1, output_of(home)
    shown = output_of(home)
    assert "NotADirectoryError" in shown
    assert "train failed" in shown
    assert "the DAG run ended as failed" in shown


@pytest.mark.timeout(200)
def test_wrong_parameter_is_refused_by_its_name(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with demo(home, "--conf", '{"learning_rate": "fast"}') as process:
        assert process.wait(DEMO_SECONDS) == 1, output_of(home)
    assert "learning_rate" in output_of(home)
    assert "Traceback" not in output_of(home)
