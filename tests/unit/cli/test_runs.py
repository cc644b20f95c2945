"""`run`, `ps`, `show`, `logs`, `stop`, `quota`, `doctor` on the embedded backend, with real processes."""

from __future__ import annotations

import json
import re
import signal
import subprocess

import pytest

from tests.unit.cli.conftest import Command

pytestmark = pytest.mark.runs

NEVER = "compute: {type: on_demand, instances: [{cpu: 4000, memory: 1Gi}]}\n"


def test_run_follows_to_success_with_a_rank_prefix(command: Command) -> None:
    done = command("run", command.form("echo rank $RANK of $WORLD_SIZE", workers=1), "--logs", "all")
    assert done.code == 0, done.err
    assert "[master-0] rank 0 of 2" in done.out
    assert "[worker-0] rank 1 of 2" in done.out
    assert "submitted PyTorchJob" in done.err
    assert "succeeded" in done.err


def test_a_failing_run_exits_1_and_names_rank_code_and_last_lines(command: Command) -> None:
    done = command("run", command.form("echo about to fail >&2; exit 7"))
    assert done.code == 1
    assert "7" in done.err
    assert "about to fail" in done.err
    assert "master-0" in done.err


def test_a_wrong_form_exits_2(command: Command) -> None:
    done = command("run", command.form(extra="workerz: 3\n"))
    assert done.code == 2
    assert "workers" in done.err
    assert "Traceback" not in done.err


def test_an_unrendered_template_is_refused_by_name(command: Command) -> None:
    done = command("run", command.form(extra='priority: "{{ params.priority }}"\n'))
    assert done.code == 2
    assert "priority" in done.err


def test_ctrl_c_stops_the_run_and_exits_3(command: Command) -> None:
    process = command.start_ready(command.form("echo ready; exec sleep 600"))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    listed = command("ps", "--all", "--json")
    assert [run["phase"] for run in listed.data] == ["stopped"]
    assert listed.data[0]["stopped_by"] == "Ctrl-C"


@pytest.mark.parametrize(("number", "by"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP")])
def test_a_signal_stops_the_run_and_is_told_by_its_name(command: Command, number: signal.Signals, by: str) -> None:
    process = command.start_ready(command.form("echo ready; exec sleep 600"))
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert f"the run was stopped by {by}" in err
    assert [run["phase"] for run in command("ps", "--all", "--json").data] == ["stopped"]


def test_ctrl_c_during_the_back_off_before_a_retry_ends_the_run_there(command: Command) -> None:
    form = command.form("echo ready; exit 3", extra="fault_tolerance: {max_retries: 3, retry_on: [code]}\n")
    process = command.start_ready(form)
    _read_until(process, "attempt 2 of 4 in")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert "stopped by Ctrl-C before another attempt; attempt 1 had failed: code" in err
    assert [run["attempt"] for run in command("ps", "--all", "--json").data] == [1]


def test_a_second_ctrl_c_ends_the_command_without_waiting_for_the_run(command: Command) -> None:
    process = command.start_ready(command.form("trap '' TERM; echo ready; while :; do sleep 1; done"))
    process.send_signal(signal.SIGINT)
    _read_until(process, "stopping the run")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    (run,) = command("ps", "--all", "--json").data
    assert f"{run['name']} may still run" in err
    assert command("stop", run["name"]).code == 0


def test_a_run_whose_output_nobody_reads_any_more_is_stopped_and_that_is_said(command: Command) -> None:
    process = command.start_ready(command.form("while :; do echo ready; sleep 0.1; done"))
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert "the output can't be written (Broken pipe): stopping the run" in err
    assert "Traceback" not in err
    assert [run["phase"] for run in command("ps", "--all", "--json").data] == ["stopped"]


def test_a_reader_that_has_seen_enough_changes_no_exit_code(command: Command) -> None:
    assert command("run", command.form("seq 1 20000")).code == 0
    (run,) = command("ps", "--all", "--json").data
    for arguments in (("ps", "--all"), ("show", run["name"], "--json"), ("logs", run["name"]), ("schema",)):
        process = command.start(*arguments)
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")


def _read_until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    pytest.fail(f"the command ended without saying {text!r}")


def test_hidden_values_are_masked_in_what_run_shows(command: Command) -> None:
    form = command.form("echo my token is $TOKEN", extra="env: {TOKEN: {value: canary-7f3a, hidden: true}}\n")
    done = command("run", form)
    assert done.code == 0, done.err
    assert "my token is ***" in done.out
    assert "canary-7f3a" not in done.out + done.err


def test_hidden_values_are_masked_in_what_is_told_of_a_failed_run(command: Command) -> None:
    form = command.form(
        """echo '{"token": "'$TOKEN'"}' > $SIFLOW_RESULTS; echo bad token $TOKEN; exit 3""",
        extra="env: {TOKEN: {value: canary-7f3a, hidden: true}}\n",
    )
    plain, data = command("run", form), command("run", form, "--json")
    assert "bad token ***" in plain.err
    assert data.data["results"] == {"token": "***"}
    assert data.data["failure"]["last_lines"][0] == "bad token ***"
    shown = [command("show", data.data["name"], *options) for options in ((), ("--json",))]
    for done in (plain, data, *shown):
        assert "canary-7f3a" not in done.out + done.err


def test_run_json_prints_the_result_that_the_operator_pushes(command: Command) -> None:
    done = command("run", command.form("""echo '{"accuracy": 0.9}' > "$SIFLOW_RESULTS" """), "--json")
    assert done.code == 0, done.err
    assert done.data["results"] == {"accuracy": 0.9}
    assert done.data["phase"] == "succeeded"
    assert done.data["attempts"] == 1


def test_a_run_can_be_listed_shown_read_and_stopped(command: Command) -> None:
    process = command.start_ready(command.form("echo ready; exec sleep 600"))
    (run,) = command("ps", "--json").data
    assert run["phase"] == "running"
    assert run["name"] in command("ps").out
    assert "master-0" in command("show", run["name"]).out
    assert "[master-0] ready" in command("logs", run["name"]).out
    stopped = command.anew("stop", run["name"])
    assert stopped.code == 0
    assert "stopped" in stopped.out
    process.communicate(timeout=60)
    assert process.returncode == 3
    assert command("stop", run["name"]).code == 0


def test_run_tells_its_place_in_the_queue_until_it_is_let_go(command: Command) -> None:
    (command.folder / "state").mkdir()
    (command.folder / "state" / "capacity.json").write_text('{"cpu": 1, "memory": "1Gi", "gpus": 0}', encoding="utf-8")
    holder = command.start_ready(command.form("echo ready; exec sleep 600", name="holder.yaml"))
    waiting = command.start("run", command.form("echo trained"))
    _read_until(waiting, "position 1")
    phases = {run["phase"]: run for run in command("ps", "--json").data}
    assert set(phases) == {"running", "queued"}
    assert phases["queued"]["queue"]["position"] == 1
    holder.send_signal(signal.SIGINT)
    holder.communicate(timeout=60)
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    assert "[master-0] trained" in out


def test_an_unknown_run_gets_the_nearest_name(command: Command) -> None:
    assert command("run", command.form()).code == 0
    (run,) = command("ps", "--all", "--json").data
    done = command("show", run["name"][:-1])
    assert (done.code, run["name"] in done.err) == (2, True)
    assert command("run", command.form(extra="name_prefix: ab\n")).code == 0
    assert re.search(r"Nearest: ab-\w+\.$", command("show", "ab").err)


def test_quota_says_which_number_is_short(command: Command) -> None:
    form = command.form()
    text = (command.folder / form).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("compute")]
    (command.folder / form).write_text("\n".join(lines) + "\n" + NEVER, encoding="utf-8")
    done = command("quota", form, "--json")
    assert done.code == 1, done.err
    assert done.data["never"] is True
    assert done.data["ever"]["short"][0]["need"] == 4000
    assert "4000" in command("quota", form).out
    refused = command("run", form)
    assert refused.code == 2
    assert "--quota warn" in refused.err
    assert command("run", form, "--quota", "perhaps").code == 2
    process = command.start("run", form, "--quota", "warn")
    _read_until(process, "can never be admitted")
    _read_until(process, "submitted PyTorchJob")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 3


def test_quota_is_that_of_the_instance_that_would_be_chosen(command: Command) -> None:
    form = command.form()
    file = command.folder / form
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("[{cpu: 1,", "[{cpu: 4000, memory: 1Gi}, {cpu: 1,"), encoding="utf-8")
    done = command.anew("quota", form, "--json")
    assert done.code == 0, done.err
    assert (done.data["fits_now"], done.data["never"]) == (True, False)


def test_catalog_may_stand_in_the_connection_as_text(command: Command) -> None:
    text = "instances: {small: {resources: {cpu: 1, memory: 256Mi}}}\n"
    conn = json.dumps({"conn_type": "siflow", "extra": {"catalog": text}})
    form = command.form()
    file = command.folder / form
    file.write_text(file.read_text(encoding="utf-8").replace("{cpu: 1, memory: 256Mi}", "small"), encoding="utf-8")
    done = command("quota", form, "--json", "--conn", conn)
    assert done.code == 0, done.err
    assert done.data["fits_now"] is True
    found = {one["name"]: one["found"] for one in command("doctor", "--json", "--conn", conn).data}
    assert found["catalog"] == "in the connection"


def test_doctor_says_what_is_there(command: Command) -> None:
    done = command.anew("doctor", "--json")
    assert done.code == 0, done.out + done.err
    names = {finding["name"]: finding for finding in done.data}
    assert names["backend local"]["ok"]
    assert {"apache-airflow", "connection", "catalog", "ray", "py-spy"} <= set(names)


@pytest.mark.parametrize("extra", [{"backendd": "local"}, {"backend": "slurm"}])
def test_doctor_says_how_to_mend_a_wrong_connection(command: Command, extra: dict[str, str]) -> None:
    done = command("doctor", "--json", "--conn", json.dumps({"conn_type": "siflow", "extra": extra}))
    assert done.code == 1
    (finding,) = [one for one in done.data if one["name"] == "connection"]
    assert "backend" in finding["found"]
    assert finding["mend"] == "correct the text given with --conn"


def test_a_wrong_connection_is_explained(command: Command) -> None:
    done = command("ps", "--conn", '{"conn_type": "siflow", "extra": {"backendd": "local"}}')
    assert done.code == 2
    assert "backend" in done.err
    assert "Traceback" not in done.err


def test_hidden_values_are_masked_in_the_logs_of_a_run_that_anybody_reads(command: Command) -> None:
    form = command.form("echo token=$TOKEN", extra="env: {TOKEN: {value: canary-7f3a, hidden: true}}\n")
    assert command("run", form).code == 0
    (run,) = command("ps", "--all", "--json").data
    shown = command("logs", run["name"])
    assert shown.out == "[master-0] token=***\n"
    state = next((command.folder / "state" / "runs").glob("*/state.json")).read_text(encoding="utf-8")
    assert "canary-7f3a" not in state


def test_a_private_run_shows_to_its_owner_only(command: Command) -> None:
    alice, bob = ("--conn", "siflow://alice@?backend=local"), ("--conn", "siflow://bob@?backend=local")
    assert command("run", command.form(), *alice).code == 0
    (run,) = command("ps", "--all", "--json", *alice).data
    assert run["owner"] == "alice"
    assert command("ps", "--all", "--json", *bob).data == []
    for name in ("show", "logs", "stop"):
        refused = command(name, run["name"], *bob)
        assert refused.code == 2
        assert "there is no run" in refused.err
    assert command("logs", run["name"]).code == 0  # a connection without a login sees all


def test_a_run_that_the_group_may_see_shows_to_others(command: Command) -> None:
    done = command(
        "run", command.form(extra="visible_in_group: true\n"), "--json", "--conn", "siflow://alice@?backend=local"
    )
    assert done.code == 0, done.err
    assert command("show", done.data["name"], "--conn", "siflow://bob@?backend=local").code == 0


def test_show_tells_times_in_the_time_zone_of_the_form_and_json_in_utc(command: Command) -> None:
    done = command("run", command.form(extra="timezone: Asia/Shanghai\n"), "--json")
    name = done.data["name"]
    plain = command("show", name).out
    moments = [line for line in plain.splitlines() if line.startswith(("submitted_at", "ended_at"))]
    assert [line[-6:] for line in moments] == ["+08:00", "+08:00"]
    assert command("show", name, "--json").data["submitted_at"].endswith("+00:00")
