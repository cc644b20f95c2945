"""`export` and `import`: a form as YAML or as a DAG file, and the forms of a manifest or a DAG file as YAML."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siflow_provider.cli.forms import FileArgument
from siflow_provider.cli.output import write
from siflow_provider.errors import UsageError

if TYPE_CHECKING:
    from siflow_provider.spec.task import Task

__all__ = ["dag_source", "export", "import_", "shareable"]

TASK_ID = "train"
WIDTH = 60
"""Longer collections are written over several lines."""
MANIFESTS = (".yaml", ".yml", ".json")
ID = re.compile(r"[\w.-]+")
"""What Airflow takes for an id (source: Airflow 3.3.2 `airflow/sdk/definitions/_internal/node.py`, validate_key)."""
MAX_ID = 250
TEMPLATE = re.compile(r"\s*\{\{[^{}]*\}\}\s*")
"""One template and nothing beside it that could be part of a secret."""
OPERATORS = {"PyTorchJob": "PyTorchJobOperator", "RayJob": "RayJobOperator"}


def export(
    file: FileArgument,
    dag: Annotated[bool, typer.Option("--dag", help="Write a DAG file instead of YAML.")] = False,
    dag_id: Annotated[str | None, typer.Option("--dag-id", help="Default: the name prefix or file name.")] = None,
) -> None:
    """Print a form as tidy YAML, or as a DAG file with one operator. A hidden value becomes a look-up of a Variable."""
    from siflow_provider.spec.reading import load
    from siflow_provider.spec.writing import write_yaml

    task = load(file, templates=True)
    name = _dag_id(dag_id, task, file) if dag or dag_id is not None else ""
    data, notes = shareable(task)
    sys.stderr.writelines(f"{note}\n" for note in notes)
    write(dag_source(name, data) if dag else write_yaml(data))


def _dag_id(given: str | None, task: Task, file: Path) -> str:
    """Return the DAG's id: the one given, else one made of the form's name prefix or the file's name."""
    from siflow_provider.spec.base import is_template

    if given is not None:
        if len(given) > MAX_ID or not ID.fullmatch(given):
            raise UsageError(
                f"--dag-id {given!r} is no DAG id: letters, digits, `_`, `-` and `.` only, {MAX_ID} at most.",
                hint=f"Such as {_as_id(given)!r}.",
            )
        return given
    prefix = getattr(task, "name_prefix", None)
    return _as_id(file.stem if prefix is None or is_template(prefix) else str(prefix))


def _as_id(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text).strip("-")[:MAX_ID] or "training"


def shareable(task: Task) -> tuple[dict[str, Any], list[str]]:
    """Return the form as plain data that may be shown to anybody and still works in Airflow, and what was left out.

    A hidden value that is a template stays: the secret is where the template finds it. A literal becomes the look-up
    of an Airflow Variable; nothing but Airflow can run the form then.
    """
    from siflow_provider.spec.base import is_unknown
    from siflow_provider.spec.hidden import Hidden
    from siflow_provider.spec.writing import to_data

    data, notes = to_data(task), []
    # an `env` that is a template as a whole holds no entry yet
    for name, value in task.env.items() if isinstance(task.env, Mapping) else ():
        if not isinstance(value, Hidden):
            continue
        inner, shown = value.value, data["env"][name]
        if is_unknown(inner) and (not isinstance(inner, str) or TEMPLATE.fullmatch(inner)):
            shown["value"] = str(inner)
            continue
        shown["value"] = f"{{{{ var.value.{name.lower()} }}}}"
        notes.append(f"env.{name}: the hidden value is not written; it is read from the Variable {name.lower()!r}")
    return data, notes


def dag_source(dag_id: str, data: dict[str, Any]) -> str:
    """Return the text of a DAG file that runs the form.

    Args:
        dag_id: the DAG's id.
        data: the form as plain data, as `shareable` returns it.

    Example:
        >>> print(dag_source("d", {"kind": "PyTorchJob", "image": "a:1", "command": "true"}))  # doctest: +ELLIPSIS
        \"\"\"Runs the training task `d`...
    """
    form = dict(data)
    operator = OPERATORS[form.pop("kind")]
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

    What of a manifest is not in the form goes to stderr, one line a field. A DAG file loads Airflow; of hidden values
    only templates are printed.
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
    from siflow_provider.spec.writing import dump

    jobs, beside = import_manifest(read_documents(file))
    chosen = [job for job in jobs if only in (None, job.name)]
    if not chosen:
        names = ", ".join(job.name or "one without a name" for job in jobs)
        raise UsageError(f"{file} has no job {only!r}; there is {names}.")
    for job in chosen:
        sys.stderr.writelines(f"{job.task.kind} {job.name}: {note}\n" for note in job.notes)
        # every hidden value is a template here, so nothing is given away
        write(f"---\n# {job.task.kind} {job.name}\n{dump(job.task, reveal=True)}")
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
        write(f"---\n# task {name}\n{form}")


def _forms(file: Path) -> dict[str, str]:
    from siflow_provider.operators.order import form_at_parse
    from siflow_provider.operators.task import SiflowTaskOperator
    from siflow_provider.spec.reading import load
    from siflow_provider.spec.writing import write_yaml

    bag = _dag_bag()(str(file), safe_mode=False)
    if bag.import_errors:
        raise UsageError(f"{file} can't be read as a DAG file:\n" + "\n".join(bag.import_errors.values()))
    return {
        task.task_id: write_yaml(shareable(load(form_at_parse(task), templates=True))[0])
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
