"""The task form as data: read it, check it, write it.

    from siflow_provider.spec import PyTorchJob, RayJob, load

Nothing of Airflow is imported here. `load` and `dump` are bound at once: they are functions and also the modules that
hold them, and only an early binding makes the function win. The catalog's models are built on use: a DAG file without
a catalog does not pay for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siflow_provider.spec.dump import dump
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.load import Checked, check, load
from siflow_provider.spec.task import PyTorchJob, RayJob, Task

if TYPE_CHECKING:
    from siflow_provider.spec.catalog import Catalog, load_catalog

__all__ = ["Catalog", "Checked", "Hidden", "PyTorchJob", "RayJob", "Task", "check", "dump", "load", "load_catalog"]


def __getattr__(name: str) -> Any:
    if name in {"Catalog", "load_catalog"}:
        from siflow_provider.spec import catalog

        return getattr(catalog, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
