"""What importing loads: a command that starts fast, and DAG files that load no client library."""

from __future__ import annotations

import subprocess
import sys

CLIENTS = ("kubernetes", "kubernetes_asyncio", "ray", "torch", "apprise")


def loaded_by(statement: str, *, beyond: str = "") -> set[str]:
    """Return the modules that a fresh interpreter has loaded by `statement`, and not already by `beyond`."""
    code = f"import sys\n{beyond}\nbefore = {{*sys.modules}}\n{statement}\nprint(*sys.modules.keys() - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_the_form_and_the_core_load_without_airflow_and_clients() -> None:
    loaded = loaded_by("import siflow_provider.spec, siflow_provider.core.follow, siflow_provider.core.launch")
    assert not loaded & {"airflow", "httpx", *CLIENTS}


def test_the_command_starts_without_airflow_and_clients() -> None:
    loaded = loaded_by("import siflow_provider.cli.main")
    assert not loaded & {"airflow", "httpx", *CLIENTS}


def test_a_dag_file_loads_no_client_library() -> None:
    ours = loaded_by(
        "from siflow_provider.operators import PyTorchJobOperator, RayJobOperator\n"
        "from siflow_provider.sensors import QuotaSensor, TrainingJobSensor",
        beyond="from airflow.sdk import DAG",
    )
    assert "siflow_provider.operators.pytorch" in ours
    assert not ours & {"httpx", *CLIENTS}
