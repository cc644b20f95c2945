"""The task form as data: read it, check it, write it.

    from siflow_provider.spec import PyTorchJob, RayJob, load

Nothing of Airflow is imported here. The names are bound at once and not on use: `load` and `dump` are functions and
also the modules that hold them, and only an early binding makes the function win.
"""

from siflow_provider.spec.catalog import Catalog, load_catalog
from siflow_provider.spec.dump import dump
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.load import Checked, check, load
from siflow_provider.spec.task import PyTorchJob, RayJob, Task

__all__ = ["Catalog", "Checked", "Hidden", "PyTorchJob", "RayJob", "Task", "check", "dump", "load", "load_catalog"]
