"""`export` and `import`: a form as YAML or as a DAG file, and the forms of a manifest or a DAG file as YAML."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from siflow_provider.cli.forms import FileArgument
from siflow_provider.errors import UsageError

__all__ = ["dag_source", "export", "import_"]

TASK_ID = "train"
WIDTH = 60
"""Longer collections are written over several lines."""
MANIFESTS = (".yaml", ".yml", ".json")
OPERATORS = {"PyTorchJob": "PyTorchJobOperator", "RayJob": "RayJobOperator"}


def export(
    file: FileArgument,
    dag: Annotated[bool, typer.Option("--dag", help="Write a DAG file instead of YAML.")] = False,
    dag_id: Annotated[str | None, typer.Option("--dag-id", help="Default: the name prefix or file name.")] = None,
) -> None:
    """Print a form as tidy YAML, or as a DAG file with one operator. Hidden values are left to a template."""
    from siflow_provider.spec.dump import dump, to_data
    from siflow_provider.spec.load import load

    task = load(file, templates=True)
    if not dag:
        sys.stdout.write(dump(task))
        return
    name = dag_id or getattr(task, "name_prefix", None) or file.stem
    sys.stdout.write(dag_source(str(name), to_data(task)))


def dag_source(dag_id: str, data: dict[str, Any]) -> str:
    """Return the text of a DAG file that runs the form; a hidden value becomes a look-up of an Airflow Variable.

    Args:
        dag_id: the DAG's id.
        data: the form as plain data, hidden values masked.

    Example:
        >>> print(dag_source("d", {"kind": "PyTorchJob", "image": "a:1", "command": "true"}))  # doctest: +ELLIPSIS
        \"\"\"Runs the training task `d`...
    """
    form = dict(data)
    operator = OPERATORS[form.pop("kind")]
    form["env"] = {name: _environment(name, value) for name, value in form.get("env", {}).items()}
    if not form["env"]:
        del form["env"]
    arguments = "".join(f"        {key}={_literal(value, 8)},\n" for key, value in form.items())
    return (
        f'"""Runs the training task `{dag_id}`; made by `siflow-provider export --dag`."""\n\n'
        "from __future__ import annotations\n\n"
        "from airflow.sdk import DAG\n"
        f"from siflow_provider.operators import {operator}\n\n"
        f"with DAG(dag_id={dag_id!r}, schedule=None, catchup=False):\n"
        f"    {operator}(\n"
        f"        task_id={TASK_ID!r},\n"
        f"{arguments}"
        "    )\n"
    )


def _environment(name: str, value: Any) -> Any:
    if isinstance(value, dict) and value.get("hidden") and value.get("value") == "***":
        return {"value": f"{{{{ var.value.{name.lower()} }}}}", "hidden": True}
    return value


def _literal(value: Any, indent: int) -> str:
    """Return Python source for plain data, long texts and collections over several lines."""
    pad = " " * (indent + 4)
    if isinstance(value, dict) and len(repr(value)) > WIDTH:
        items = "".join(f"{pad}{key!r}: {_literal(item, indent + 4)},\n" for key, item in value.items())
        return "{\n" + items + " " * indent + "}"
    if isinstance(value, list | tuple) and len(repr(value)) > WIDTH:
        items = "".join(f"{pad}{_literal(item, indent + 4)},\n" for item in value)
        return "[\n" + items + " " * indent + "]"
    if isinstance(value, str) and "\n" in value:
        lines = "".join(f"{pad}{line!r}\n" for line in value.splitlines(keepends=True))
        return "(\n" + lines + " " * indent + ")"
    return repr(str(value)) if isinstance(value, str) else repr(value)


def import_(
    file: Annotated[
        Path, typer.Argument(help="Kubernetes manifest (YAML or JSON) or a DAG file (.py).", metavar="FILE")
    ],
    task: Annotated[str | None, typer.Option("--task", help="Only this task id, or the job of this name.")] = None,
) -> None:
    """Print the forms of a manifest's PyTorchJobs and RayJobs, or of a DAG file's training operators, as YAML.

    What of a manifest is not in the form goes to stderr, one line a field. A DAG file loads Airflow; hidden values are
    masked.
    """
    if not file.is_file():
        raise UsageError(f"{file} does not exist.")
    if file.suffix in MANIFESTS:
        _import_manifest(file, task)
    elif file.suffix == ".py":
        _import_dag(file, task)
    else:
        raise UsageError(
            f"{file} is neither a manifest nor a DAG file.", hint=f"Their names end in {', '.join(MANIFESTS)} or .py."
        )


def _import_manifest(file: Path, only: str | None) -> None:
    from siflow_provider.backends.kubernetes.importing import import_manifest
    from siflow_provider.backends.kubernetes.importing_documents import read_documents
    from siflow_provider.spec.dump import dump

    jobs, beside = import_manifest(read_documents(file))
    chosen = [job for job in jobs if only in (None, job.name)]
    if not chosen:
        names = ", ".join(job.name or "one without a name" for job in jobs)
        raise UsageError(f"{file} has no job {only!r}; there is {names}.")
    for job in chosen:
        sys.stderr.writelines(f"{job.task.kind} {job.name}: {note}\n" for note in job.notes)
        # every hidden value is a template here, so nothing is given away
        sys.stdout.write(f"---\n# {job.task.kind} {job.name}\n{dump(job.task, reveal=True)}")
    sys.stderr.writelines(f"{note}\n" for note in beside)


def _import_dag(file: Path, task: str | None) -> None:
    with contextlib.redirect_stdout(sys.stderr):  # Airflow logs to stdout, where only the forms belong
        forms = {name: form for name, form in _forms(file).items() if task in (None, name)}
    if not forms:
        raise UsageError(
            f"{file} has no training operator{f' with task id {task!r}' if task else ''}.",
            hint="PyTorchJobOperator and RayJobOperator are looked for.",
        )
    for name, form in forms.items():
        sys.stdout.write(f"---\n# task {name}\n{form}")


def _forms(file: Path) -> dict[str, str]:
    from siflow_provider.operators.order import form_at_parse
    from siflow_provider.operators.task import SiflowTaskOperator
    from siflow_provider.spec.dump import dump
    from siflow_provider.spec.load import load

    bag = _dag_bag()(str(file), safe_mode=False)
    if bag.import_errors:
        raise UsageError(f"{file} can't be read as a DAG file:\n" + "\n".join(bag.import_errors.values()))
    return {
        task.task_id: dump(load(form_at_parse(task), templates=True))
        for dag in bag.dags.values()
        for task in dag.tasks
        if isinstance(task, SiflowTaskOperator)
    }


def _dag_bag() -> Any:
    """Return Airflow's own loader of DAG files; it moved after 3.1."""
    from importlib import import_module

    try:
        return import_module("airflow.dag_processing.dagbag").DagBag
    except ModuleNotFoundError:
        return import_module("airflow.models.dagbag").DagBag
