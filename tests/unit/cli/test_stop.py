"""What `stop` does to the data of a run."""

from __future__ import annotations

import pytest

from siflow_provider.backends.local.shared_data import remember, shared_folder
from siflow_provider.backends.local.store import StateDir
from tests.unit.cli.conftest import Command

pytestmark = pytest.mark.runs


@pytest.mark.parametrize(("end", "kept"), [("exit 1", True), ("sleep 600", False)], ids=["failed", "stopped"])
def test_stop_removes_data_that_is_to_go_unless_the_run_s_task_may_go_on_with_another_attempt(
    command: Command, end: str, kept: bool
) -> None:
    process = command.start_ready(command.form(f"echo ready; until [ -e go ]; do sleep 0.1; done; {end}"))
    process.kill()  # its follower, as an Airflow task between two attempts
    process.communicate()
    (command.folder / "go").touch()
    (run,) = command("ps", "--all", "--json").data
    if kept:
        command("logs", "--follow", run["name"])  # to its end
    state = StateDir(command.folder / "state")
    folder = shared_folder(command.folder, run["task_uuid"])
    folder.mkdir(parents=True)
    remember(state, run["task_uuid"], command.folder)
    assert command("stop", run["name"]).code == 0
    assert folder.exists() is kept
