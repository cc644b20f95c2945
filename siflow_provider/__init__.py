"""Airflow provider for AI training jobs.

Public names are resolved on use: importing this package loads neither Airflow nor a client library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siflow_provider.operators import PyTorchJobOperator, RayJobOperator
    from siflow_provider.sensors import QuotaSensor, TrainingJobSensor
    from siflow_provider.spec import PyTorchJob, RayJob, load

__version__ = "0.1.0"

__all__ = [
    "PyTorchJob",
    "PyTorchJobOperator",
    "QuotaSensor",
    "RayJob",
    "RayJobOperator",
    "TrainingJobSensor",
    "__version__",
    "load",
]

_HOMES = {
    "PyTorchJob": "spec",
    "PyTorchJobOperator": "operators",
    "QuotaSensor": "sensors",
    "RayJob": "spec",
    "RayJobOperator": "operators",
    "TrainingJobSensor": "sensors",
    "load": "spec",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
