"""Commands about forms: `check`, `render`, `schema`, `catalog check`. They talk to no backend."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siflow_provider.cli.connection import CatalogOption, JsonOption
from siflow_provider.cli.output import print_json, problem_data, write
from siflow_provider.errors import Problem, SpecError, UsageError

if TYPE_CHECKING:
    from siflow_provider.core.protocol import Manifest, RenderContext
    from siflow_provider.spec.catalog import Catalog
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["catalog_check", "check", "load_catalog_option", "render", "schema"]

RENDERERS = ("kubernetes", "local", "platform")
FilesArgument = Annotated[list[Path], typer.Argument(help="Task forms (YAML or JSON).", metavar="FILE...")]
CatalogsArgument = Annotated[list[Path], typer.Argument(help="Catalogs (YAML or JSON).", metavar="FILE...")]
FileArgument = Annotated[Path, typer.Argument(help="Task form (YAML or JSON).", metavar="FILE")]


def load_catalog_option(path: str | None) -> Catalog | None:
    """Return the catalog of `--catalog`, or None when the option was not given."""
    if path is None:
        return None
    from siflow_provider.spec.catalog import load_catalog

    return load_catalog(Path(path))


def check(files: FilesArgument, catalog: CatalogOption = None, json: JsonOption = False) -> None:
    """Check task forms: all errors of all files. Exit code 2 when any has one."""
    from siflow_provider.spec.reading import check as check_form

    try:
        known = load_catalog_option(catalog)
    except SpecError as error:
        if not json:
            raise
        _report([(str(catalog), error.problems, ())], json=True)
        return
    results = []
    for file in files:
        checked = check_form(file, catalog=known, templates=True)
        results.append((str(file), checked.errors, checked.warnings))
    _report(results, json=json)


def catalog_check(files: CatalogsArgument, json: JsonOption = False) -> None:
    """Check catalogs: all errors of all files. Exit code 2 when any has one."""
    from siflow_provider.spec.catalog import load_catalog

    results: list[tuple[str, tuple[Problem, ...], tuple[Problem, ...]]] = []
    for file in files:
        try:
            load_catalog(file)
        except SpecError as error:
            results.append((str(file), error.problems, ()))
        else:
            results.append((str(file), (), ()))
    _report(results, json=json)


def _report(results: list[tuple[str, tuple[Problem, ...], tuple[Problem, ...]]], *, json: bool) -> None:
    if json:
        print_json(
            [
                {
                    "file": file,
                    "ok": not errors,
                    "errors": [problem_data(problem) for problem in errors],
                    "warnings": [problem_data(problem) for problem in warnings],
                }
                for file, errors, warnings in results
            ]
        )
    else:
        for file, errors, warnings in results:
            write(f"{file}: {'ok' if not errors else f'{len(errors)} to mend'}\n")
            for word, problems in (("error", errors), ("warning", warnings)):
                write("".join(f"  {word}: {problem}\n" for problem in problems))
    if any(errors for _, errors, _ in results):
        raise typer.Exit(2)


def render(
    file: FileArgument,
    backend: Annotated[str, typer.Option("--backend", help="kubernetes, local or platform.")] = "kubernetes",
    reveal: Annotated[bool, typer.Option("--reveal", help="Show hidden values.")] = False,
    catalog: CatalogOption = None,
) -> None:
    """Print what would be submitted, as YAML documents: as for a cluster with Kueue, with a placeholder identity.

    Warnings of the form and of the backend go to stderr.
    """
    from siflow_provider.core.identity import Identity
    from siflow_provider.core.protocol import RenderContext
    from siflow_provider.spec.reading import check as check_form
    from siflow_provider.spec.resolve import resolve
    from siflow_provider.spec.writing import write_yaml

    known = load_catalog_option(catalog)
    checked = check_form(file, catalog=known, templates=True)
    if checked.task is None:
        raise SpecError(checked.errors, source=f"task {file}")
    task = resolve(checked.task, known, user="user", templates=True)
    identity = Identity(dag_id="dag", task_id="task", run_id="run")
    manifest, warnings = _render(backend, task, RenderContext(identity=identity, user_name="user"))
    sys.stderr.writelines(f"warning: {warning}\n" for warning in (*checked.warnings, *warnings))
    for document in _revealed(backend, manifest) if reveal else manifest.documents:
        write("---\n" + write_yaml(document))


def _render(backend: str, task: ResolvedTask, context: RenderContext) -> tuple[Manifest, list[str]]:
    """Return what would be submitted, and what of it the backend honours only in part."""
    if backend == "kubernetes":
        from siflow_provider.backends.kubernetes.limits import warnings
        from siflow_provider.backends.kubernetes.rendering import render as render_kubernetes

        return render_kubernetes(task, context), warnings(task)
    if backend in {"local", "platform"}:
        from siflow_provider.backends import make_backend
        from siflow_provider.backends.settings import Settings

        form = task.task
        settings = Settings.model_validate({"backend": backend, "region": form.region, "cluster": form.cluster})
        made = make_backend(settings)
        return made.render(task, context), made.warnings(task)
    raise UsageError(f"no rendering for the backend {backend!r}.", hint=f"Choose one of: {', '.join(RENDERERS)}.")


def _revealed(backend: str, manifest: Manifest) -> Iterable[Mapping[str, Any]]:
    """Return the documents with the hidden values in them: in the Secret, in the body, or beside their names."""
    if backend == "kubernetes":
        from siflow_provider.backends.kubernetes.rendering import revealed

        return revealed(manifest)
    if backend == "platform":
        from siflow_provider.backends.platform.submit import revealed as revealed_body

        return [revealed_body(manifest)]
    values = {name: value.reveal() for name, value in sorted(manifest.hidden.items())}
    return [{**document, "hidden_env": values} for document in manifest.documents]


def schema(catalog: CatalogOption = None) -> None:
    """Print the JSON Schema of task forms, for editors; with a catalog they complete and check its names too."""
    from siflow_provider.spec.schema import TEMPLATE, json_schema
    from siflow_provider.spec.schema_names import with_names

    known = load_catalog_option(catalog)
    form = json_schema()
    print_json(form if known is None else with_names(form, known, TEMPLATE))
