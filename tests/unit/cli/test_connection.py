"""Which connection a command takes when none is named."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Command

pytestmark = pytest.mark.runs


@dataclass(frozen=True)
class CommandAtHome(Command):
    """A command whose user has a home folder of their own, and no AIRFLOW_HOME."""

    variables: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in super().environment.items() if name != "AIRFLOW_HOME"}
        return {**own, "HOME": str(self.folder), **self.variables}


def store_with_a_catalog(folder: Path) -> dict[str, str]:
    """Return Airflow's options for a store that knows `siflow_default`, with a catalog in it."""
    file = folder / "connections.json"
    catalog = "instances: {small: {resources: {cpu: 1, memory: 256Mi}}}\n"
    connection = {"conn_type": "siflow", "extra": {"catalog": catalog}}
    file.write_text(json.dumps({"siflow_default": connection}), encoding="utf-8")
    return {
        "backend": "airflow.secrets.local_filesystem.LocalFilesystemBackend",
        "backend_kwargs": json.dumps({"connections_file_path": str(file)}),
    }


def catalog_of(command: Command) -> str:
    done = command("doctor", "--json")
    return next(str(finding["found"]) for finding in done.data if finding["name"] == "catalog")


def test_doctor_says_what_this_machine_may_hold_and_how_to_mend_its_file(command: Command) -> None:
    found = {one["name"]: one for one in command("doctor", "--json").data}
    assert found["state folder"]["found"] == str(command.folder / "state")
    assert "GiB of memory" in found["capacity"]["found"]
    (command.folder / "state" / "capacity.json").write_text('{"cpus": 3}', encoding="utf-8")
    done = command("doctor", "--json")
    (wrong,) = [one for one in done.data if not one["ok"] and one["needed"]]
    assert (done.code, wrong["name"]) == (1, "capacity")
    assert wrong["mend"].startswith('Write it like this: {"cpu": 4')


def test_stored_default_connection_is_found_in_the_airflow_of_the_home_folder(tmp_path: Path) -> None:
    options = store_with_a_catalog(tmp_path)
    (tmp_path / "airflow").mkdir()
    lines = [f"{key} = {value}" for key, value in options.items()]
    (tmp_path / "airflow" / "airflow.cfg").write_text("\n".join(["[secrets]", *lines, ""]), encoding="utf-8")
    assert catalog_of(CommandAtHome(tmp_path)) == "in the connection"


def test_stored_default_connection_is_found_where_variables_configure_airflow(tmp_path: Path) -> None:
    options = store_with_a_catalog(tmp_path)
    variables = {f"AIRFLOW__SECRETS__{key.upper()}": value for key, value in options.items()}
    assert catalog_of(CommandAtHome(tmp_path, variables)) == "in the connection"


def test_airflow_without_the_default_connection_leaves_the_output_to_the_command(tmp_path: Path) -> None:
    (tmp_path / "airflow").mkdir()
    (tmp_path / "airflow" / "airflow.cfg").touch()
    done = CommandAtHome(tmp_path)("ps", "--json")
    assert (done.code, done.data) == (0, []), done.out + done.err
