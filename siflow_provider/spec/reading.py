"""One door to the form: read a task, check everything of it at once, and say all that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siflow_provider.errors import Problem, SpecError
from siflow_provider.spec import rules
from siflow_provider.spec.base import Mode, plain_text
from siflow_provider.spec.document import Document, as_mapping, is_file_name, read_document
from siflow_provider.spec.lookup import Lookup
from siflow_provider.spec.mix_up import refuse_other
from siflow_provider.spec.resolve import Defaults
from siflow_provider.spec.second_look import validated
from siflow_provider.spec.task import PyTorchJob, RayJob, Task
from siflow_provider.spec.templates import unreadable_templates
from siflow_provider.spec.wording import kind_of, nearest, none_of
from siflow_provider.spec.writing import to_fields

if TYPE_CHECKING:
    import jinja2

    from siflow_provider.spec.catalog_model import Catalog

__all__ = ["KINDS", "Checked", "Source", "check", "load"]

Source = Path | str | Mapping[str, Any] | Task
KINDS: dict[str, type[PyTorchJob] | type[RayJob]] = {"PyTorchJob": PyTorchJob, "RayJob": RayJob}


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of checking a form: the task when it has no error, and all problems.

    Attributes:
        task: None as soon as there is one error.
        errors: what must be mended.
        warnings: what is doubtful.
    """

    task: Task | None
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def check(
    source: Source,
    *,
    catalog: Catalog | None = None,
    templates: bool = False,
    kind: str | None = None,
    line_source: Document | Path | str | None = None,
    rendered: bool = False,
    jinja: Callable[[], jinja2.Environment] | None = None,
    read_templates: bool = True,
) -> Checked:
    """Check a whole form; a wrong one is an answer here and never an exception.

    Args:
        source: a file (`Path`, or one line ending in .yaml, .yml, .json), YAML text, a mapping, or a task.
        catalog: names are looked up in it where it is given.
        templates: Airflow templates may still stand in it; what they touch is checked after rendering.
        kind: what a form without `kind` is.
        line_source: where lines and columns come from when `source` is a mapping read from that file.
        rendered: Airflow has rendered the form, so that braces in its free text are the author's own.
        jinja: makes the environment that reads the templates; Airflow's usual one by default.
        read_templates: tell each template that can't be read; else that is left to whoever renders, if anybody does.
    """
    errors: list[Problem] = []
    try:
        document = _document(source, errors)
        data = dict(as_mapping(document.data, what="task"))
        refuse_other(data)
    except SpecError as error:
        return Checked(None, error.problems)
    mode = Mode(templates=templates, rendered=rendered)
    model = KINDS[_kind(data, kind, errors)]
    if templates and read_templates:
        errors.extend(unreadable_templates(data, jinja))
    task = validated(data, model, mode, errors)
    warnings = list(mode.warnings)
    if task is not None:
        _check_whole(task, catalog, errors, warnings)
    marks = _marks(document, line_source)
    return Checked(None if errors else task, _in_order(errors, marks), _in_order(warnings, marks))


def load(
    source: Source,
    *,
    catalog: Catalog | None = None,
    templates: bool = False,
    kind: str | None = None,
    rendered: bool = False,
) -> Task:
    """Return the validated task; the arguments are those of `check`.

    Raises:
        SpecError: with every problem of the form.

    Example:
        task = load("specs/train.yaml", catalog=load_catalog("catalog.yaml"))
    """
    checked = check(source, catalog=catalog, templates=templates, kind=kind, rendered=rendered, read_templates=False)
    if checked.task is None:
        is_file = isinstance(source, Path) or (isinstance(source, str) and is_file_name(source))
        name = str(source) if is_file else ""
        raise SpecError(checked.errors, source=f"task {name}".strip())
    return checked.task


def expect(data: Mapping[str, Any], *, kind: str) -> None:
    """Raise SpecError when a form made in Python is wrong; templates may stand in it."""
    load(data, templates=True, kind=kind)


def _document(source: Source, twice: list[Problem]) -> Document:
    if isinstance(source, PyTorchJob | RayJob):
        return Document(to_fields(source))
    if isinstance(source, Mapping):
        return Document(source)
    if isinstance(source, str | Path):
        return read_document(source, twice=twice)
    message = f"a task is a file, a YAML text, a mapping or a model, not {kind_of(source)}"
    raise SpecError([Problem("", message)])


def _kind(data: dict[Any, Any], wanted: str | None, errors: list[Problem]) -> str:
    """Return the form's kind and write it into the form; for a wrong one, the kind that is most likely meant."""
    given = data.get("kind")
    if given is None and wanted is None:
        errors.append(Problem("kind", "is required: PyTorchJob or RayJob"))
    elif given is not None and not (isinstance(given, str) and given in KINDS):
        rule = "written out, since it decides which fields exist"
        errors.append(Problem("kind", f"{none_of(given, KINDS)} ({rule})"))
    elif given is not None and wanted is not None and given != wanted:
        errors.append(Problem("kind", f"{given!r} is not what is run here: {wanted}"))
    if errors or given is None:
        data["kind"] = wanted or nearest(given, KINDS) or ("RayJob" if "ray" in data else "PyTorchJob")
    kind: str = plain_text(data["kind"])
    return kind


def _check_whole(task: Task, catalog: Catalog | None, errors: list[Problem], warnings: list[Problem]) -> None:
    """Add what is wrong or doubtful between the fields, and between the form and the catalog."""
    errors.extend(rules.errors_of(task))
    warnings.extend(rules.warnings_of(task))
    if catalog is not None:
        lookup = Lookup(task, catalog, Defaults(), final=False)
        lookup.resolved()
        errors.extend(lookup.findings.errors)
        warnings.extend(lookup.findings.warnings)


def _marks(document: Document, line_source: Document | Path | str | None) -> Document:
    if document.root is not None or line_source is None:
        return document
    if isinstance(line_source, Document):
        return line_source
    try:
        return read_document(line_source)
    except SpecError:
        return document


def _in_order(problems: list[Problem], marks: Document) -> tuple[Problem, ...]:
    """Return each problem once, with its place, in the order of the file."""
    placed = (marks.placed(problem) for problem in dict.fromkeys(problems))
    return tuple(sorted(placed, key=lambda problem: problem.line or 0))
