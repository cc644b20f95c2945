"""The task form as data: read it, check it, write it.

    from siflow_provider.spec import PyTorchJob, RayJob, load

Nothing of Airflow is imported here, and a name is resolved on use: who needs one part of the form, as the process that
guards a local run does, does not build the models of all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siflow_provider.spec.catalog import Catalog, load_catalog
    from siflow_provider.spec.hidden import Hidden
    from siflow_provider.spec.reading import Checked, check, load
    from siflow_provider.spec.task import PyTorchJob, RayJob, Task
    from siflow_provider.spec.writing import dump

__all__ = ["Catalog", "Checked", "Hidden", "PyTorchJob", "RayJob", "Task", "check", "dump", "load", "load_catalog"]

_HOMES = {
    "Catalog": "catalog",
    "Checked": "reading",
    "Hidden": "hidden",
    "PyTorchJob": "task",
    "RayJob": "task",
    "Task": "task",
    "check": "reading",
    "dump": "writing",
    "load": "reading",
    "load_catalog": "catalog",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
