"""Read a catalog from a file, a text or a connection's mapping; a file once as long as it does not change."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from siflow_provider.errors import Problem, SpecError
from siflow_provider.spec.base import Mode
from siflow_provider.spec.catalog_model import Catalog
from siflow_provider.spec.catalog_rules import dangling
from siflow_provider.spec.document import Document, as_mapping, is_file_name, read_document
from siflow_provider.spec.mix_up import refuse_task
from siflow_provider.spec.paths import expanded
from siflow_provider.spec.problems import problems_of
from siflow_provider.spec.wording import kind_of

__all__ = ["Catalog", "load_catalog"]


def load_catalog(source: Path | str | Mapping[str, Any]) -> Catalog:
    """Return the catalog of a file (`Path`, or one line ending in .yaml, .yml, .json), a YAML text or a mapping.

    Raises:
        SpecError: with every problem of it, names that point to nothing among them.

    Example:
        catalog = load_catalog("catalog.yaml")
    """
    if isinstance(source, Path) or (isinstance(source, str) and is_file_name(source)):
        path = expanded(source)
        try:
            stat = path.stat()
        except (OSError, ValueError):
            return _read(path)
        return _cached(path.absolute(), stat.st_mtime_ns, stat.st_size, stat.st_ino)
    if isinstance(source, str):
        return _read(source)
    if isinstance(source, Mapping):
        return _checked(Document(source), [])
    message = f"a catalog is a file, a YAML text or a mapping, not {kind_of(source)}"
    raise SpecError([Problem("", message)], source="catalog")


@lru_cache(maxsize=32)
def _cached(path: Path, _modified: int, _size: int, _inode: int) -> Catalog:
    return _read(path)


def _read(source: Path | str) -> Catalog:
    twice: list[Problem] = []
    return _checked(read_document(source, what="catalog", twice=twice), twice)


def _checked(document: Document, problems: list[Problem]) -> Catalog:
    """Return the catalog; `problems` holds what is known to be wrong already."""
    data = dict(as_mapping(document.data, what="catalog"))
    source = f"catalog {document.name}".strip()
    refuse_task(data, source=source)
    unread: set[str] = set()
    catalog: Catalog | None
    try:
        catalog = Catalog.model_validate(data, context=Mode(templates=False, rendered=True))
    except ValidationError as error:
        problems.extend(problems_of(error, Catalog))
        unread = {str(detail["loc"][0]) for detail in error.errors(include_url=False, include_input=False)}
        catalog = _rest(data, unread)
    if catalog is not None:
        problems.extend(dangling(catalog, unread=unread))
    if catalog is None or problems:
        placed = [document.placed(problem) for problem in dict.fromkeys(problems)]
        raise SpecError(placed, source=source)
    return catalog


def _rest(data: dict[str, Any], unread: set[str]) -> Catalog | None:
    """Return the catalog without its wrong sections, so that the names of the right ones are checked as well."""
    rest = {name: value for name, value in data.items() if name not in unread}
    try:
        return Catalog.model_validate(rest, context=Mode(templates=False, rendered=True))
    except ValidationError:
        return None
