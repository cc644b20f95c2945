"""What is rendered under the real bash: what the author wrote arrives byte for byte, and the end is told right."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from siflow_provider.backends.kubernetes.limits import MAX_COMMAND_BYTES
from siflow_provider.backends.kubernetes.names import RUN_DIR, SCRIPTS_DIR
from siflow_provider.core.results import MAX_RESULT_BYTES, ResultReader
from siflow_provider.core.status import LogLine
from tests.drawing import examples
from tests.unit.backends.kubernetes import kubelet
from tests.unit.backends.kubernetes.tasks import container, document, env, pytorch, ray, rendered

FORMS = [pytest.param(pytorch, id="PyTorchJob"), pytest.param(ray, id="RayJob")]
SHOW_ARGV = "import json, sys; print(json.dumps(sys.argv[1:]))"
NASTY = [
    "plain",
    "two words",
    'it\'s "quoted"',
    "$HOME ${PATH} $(id) $$ $1 $(TASK_UUID) $$(TASK_UUID) $€",
    "`id` \\`id\\`",
    "back\\slash \\n \\\\",
    "new\nline",
    "tab\tand ünïcödé 日本語 🚀",
    "-- * ? [a] {b} ~ ! # % ^ & | ; < > ( )",
    "",
    " lead and trail ",
]


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """A stand-in for a container's file system."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "run").mkdir()
    return tmp_path


def argv_of_pod(command: str) -> list[bytes]:
    master = container(rendered(pytorch(command=command)), "master")
    return kubelet.argv(master, kubelet.environment(master))


def entrypoint_of_ray(command: str, box: Path) -> list[bytes]:
    for name, text in document(rendered(ray(command=command)), "ConfigMap")["data"].items():
        here = text.replace(SCRIPTS_DIR, str(box / "scripts")).replace(RUN_DIR, str(box / "run"))
        (box / "scripts" / name).write_bytes((text if name == "command" else here).encode())
    return [b"bash", os.fsencode(box / "scripts" / "run.sh")]


@contextmanager
def started(form: Callable[..., object], command: str, box: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command as a pod would: by the argv that the kubelet makes, or with the files of its ConfigMap."""
    argv = argv_of_pod(command) if form is pytorch else entrypoint_of_ray(command, box)
    env = {"PATH": os.environ["PATH"], "SIFLOW_RESULTS": str(box / "run" / "results.json"), "BOX": str(box)}
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def finished(form: Callable[..., object], command: str, box: Path) -> tuple[int, bytes, bytes]:
    with started(form, command, box) as process:
        out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def expect_file(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} did not appear"
        time.sleep(0.02)


def reported(out: bytes) -> ResultReader:
    reader = ResultReader()
    for text in out.decode().split("\n"):
        reader.feed(LogLine(replica="master-0", text=text, position=""))
    return reader


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.mark.parametrize("form", FORMS)
def test_quotes_dollars_backticks_newlines_and_unicode_reach_the_program_unchanged(
    form: Callable[..., object], box: Path
) -> None:
    words = " ".join(quoted(word) for word in NASTY)
    code, out, err = finished(form, f"{sys.executable} -c {quoted(SHOW_ARGV)} {words}", box)
    assert (code, err) == (0, b"")
    assert json.loads(out) == NASTY


@pytest.mark.parametrize("form", FORMS)
def test_shell_text_is_run_by_bash_as_it_stands(form: Callable[..., object], box: Path) -> None:
    command = 'set -u\nfor n in 1 2; do\n  echo "n=$n"\ndone && cat <<\'EOF\'\n$n `x` "q"\n\nEOF\n'
    code, out, err = finished(form, command, box)
    expected = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert (code, out, err) == (0, expected.stdout, expected.stderr)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet="$$()NA{}'\"`\\ \n\r\té日🚀;&|<", max_size=60))
@example(text="\n".join(NASTY))
@example(text="$(SIFLOW_ATTEMPT) $$(SIFLOW_ATTEMPT) $(echo $(SIFLOW_ATTEMPT)) $((1)) $( $")
def test_bash_c_gets_the_very_bytes_of_the_form(text: str, box: Path) -> None:
    command = f'printf %s "$BASH_EXECUTION_STRING"; exit 4\n{text}'
    code, out, err = finished(pytorch, command, box)
    assert (code, out, err) == (4, command.encode(), b"")


def test_container_runs_bash_c_with_the_text_of_the_form() -> None:
    command = "set -e\necho \"$HOME\" 'x' `id` $(date +%F)\npython train.py"
    for role in ("master", "worker"):
        shown = container(rendered(pytorch(command=command, workers=1)), role)
        assert shown["args"] == ["bash", "-c", command]
        assert shown["command"][:2] == ["bash", "-c"]
        assert shown["command"][3:] == ["siflow"]


def test_name_of_a_variable_in_the_command_is_left_to_bash() -> None:
    manifest = rendered(pytorch(command="echo $(TASK_UUID) $$"))
    assert "TASK_UUID" in env(manifest, "master")
    assert container(manifest, "master")["args"][-1] == "echo $$(TASK_UUID) $$$$"
    assert argv_of_pod("echo $(TASK_UUID) $$")[-3:] == [b"bash", b"-c", b"echo $(TASK_UUID) $$"]


def test_longest_command_is_taken_by_the_system_as_one_argument(box: Path) -> None:
    command = "exit 5 # $$" + "x" * (MAX_COMMAND_BYTES - 11)
    assert finished(pytorch, command, box)[0] == 5


def test_ray_run_without_its_command_does_not_pass_for_a_success(box: Path) -> None:
    code, out, err = finished(ray, "", box)
    assert (code, out) == (1, b"")
    assert b"command is not there" in err


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("code", [0, 1, 2, 42, 127, 255])
def test_exit_code_is_the_commands_own(form: Callable[..., object], code: int, box: Path) -> None:
    assert finished(form, f"exit {code}", box)[0] == code


@pytest.mark.parametrize("form", FORMS)
def test_command_killed_by_a_signal_ends_with_128_and_its_number(form: Callable[..., object], box: Path) -> None:
    code, out, err = finished(form, "echo begun; kill -KILL $$", box)
    assert (code, out) == (128 + signal.SIGKILL, b"begun\n")
    assert err == b""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("code", [0, 3])
def test_results_file_becomes_the_marked_line_whatever_the_end(
    form: Callable[..., object], code: int, box: Path
) -> None:
    value = {"accuracy": 0.97, "note": 'ü "q" \\ $x `y`', "list": [1, 2]}
    text = json.dumps(value, indent=2, ensure_ascii=False)
    command = f"printf '50%%'; cat > \"$SIFLOW_RESULTS\" <<'EOF'\n{text}\nEOF\nexit {code}"
    got, out, _ = finished(form, command, box)
    assert got == code
    assert reported(out).value == value


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("content", [None, "", " \n\n "])
def test_nothing_is_printed_where_nothing_was_reported(
    form: Callable[..., object], content: str | None, box: Path
) -> None:
    if content is not None:
        (box / "run" / "results.json").write_text(content)
    assert finished(form, "echo done", box)[:2] == (0, b"done\n")


@pytest.mark.parametrize("form", FORMS)
def test_results_of_the_longest_size_come_through_and_longer_ones_are_told(
    form: Callable[..., object], box: Path
) -> None:
    for size, note in ((MAX_RESULT_BYTES, None), (MAX_RESULT_BYTES * 8, "at most")):
        (box / "run" / "results.json").write_text('"' + "ü" * ((size - 2) // 2) + '"')
        code, out, _ = finished(form, "true", box)
        reader = ResultReader()
        line = out.decode("utf-8", "replace").strip("\n")
        told = reader.feed(LogLine(replica="master-0", text=line, position=""))
        assert code == 0
        assert len(out) < MAX_RESULT_BYTES + 100
        assert (told is None) == (note is None)
        assert note is None or note in str(told)


def test_stop_reaches_every_process_of_the_command_and_they_may_finish(box: Path) -> None:
    child = (
        "import os, pathlib, signal, sys, time\n"
        "box = pathlib.Path(os.environ['BOX'])\n"
        "def stop(*_):\n"
        "    time.sleep(0.5)\n"
        "    (box / 'checkpoint').write_text('saved')\n"
        "    sys.exit(7)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "(box / 'ready').touch()\n"
        "signal.pause()\n"
    )
    command = f"{sys.executable} -c {quoted(child)}; true"  # bash itself does not wait for it when it is told to stop
    with started(pytorch, command, box) as process:
        expect_file(box / "ready")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert (box / "checkpoint").read_text() == "saved"
    assert process.returncode == 128 + signal.SIGTERM


def test_command_that_handles_the_stop_keeps_its_own_exit_code_and_results(box: Path) -> None:
    command = 'trap \'echo 5 > "$SIFLOW_RESULTS"; exit 9\' TERM; touch "$BOX/ready"; while :; do sleep 0.05; done'
    with started(pytorch, command, box) as process:
        expect_file(box / "ready")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 9
    assert reported(out).value == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
def test_other_signals_are_handed_on_too(number: signal.Signals, box: Path) -> None:
    command = f"trap 'exit 21' {number.name}; touch \"$BOX/ready\"; while :; do sleep 0.05; done"
    with started(pytorch, command, box) as process:
        expect_file(box / "ready")
        process.send_signal(number)
        process.communicate(timeout=30)
    assert process.returncode == 21


def test_rays_own_stop_of_the_process_group_still_prints_the_results(box: Path) -> None:
    command = 'echo 5 > "$SIFLOW_RESULTS"; touch "$BOX/ready"; while :; do sleep 0.05; done'
    with started(ray, command, box) as process:
        expect_file(box / "ready")
        os.killpg(process.pid, signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert reported(out).value == 5
