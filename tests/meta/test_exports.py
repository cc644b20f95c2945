"""The public names: what `__all__` lists is what users may rely on, and a change here changes the contract."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

PUBLIC = {
    "siflow_provider": [
        "PyTorchJob",
        "PyTorchJobOperator",
        "QuotaSensor",
        "RayJob",
        "RayJobOperator",
        "TrainingJobSensor",
        "__version__",
        "load",
    ],
    "siflow_provider.decorators": ["pytorch_job_task", "ray_job_task"],
    "siflow_provider.notifications": ["TrainingNotifier"],
    "siflow_provider.operators": ["PyTorchJobOperator", "RayJobOperator"],
    "siflow_provider.sensors": ["QuotaSensor", "TrainingJobSensor"],
    "siflow_provider.spec": [
        "Catalog",
        "Checked",
        "Hidden",
        "PyTorchJob",
        "RayJob",
        "Task",
        "check",
        "dump",
        "load",
        "load_catalog",
    ],
    "siflow_provider.spec.diff": ["Change", "diff"],
    "siflow_provider.spec.need": ["Need", "need"],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_a_package_offers_exactly_its_public_names(module: str) -> None:
    assert sorted(import_module(module).__all__) == PUBLIC[module]


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_exists(module: str) -> None:
    found = import_module(module)
    assert [name for name in PUBLIC[module] if not hasattr(found, name)] == []
    assert set(PUBLIC[module]) <= set(dir(found))


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    import siflow_provider

    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        _ = siflow_provider.Nope


def test_importing_the_package_loads_neither_airflow_nor_the_form() -> None:
    code = "import siflow_provider, sys; print(sorted({'airflow', 'pydantic', 'yaml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
