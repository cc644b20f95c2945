"""The YAML documents of a manifest file, as Kubernetes reads them: a date is text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from siflow_provider.errors import Problem, SpecError
from siflow_provider.spec.document import MISFITS, faults_of, read_text, yaml_problem

__all__ = ["read_documents"]

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(_BASE):  # type: ignore[misc] # the C loader has no types
    """Leaves dates as text, since JSON, which the API server takes, has none."""

    yaml_implicit_resolvers = {
        first: [(tag, shape) for tag, shape in shapes if tag != _TIMESTAMP]
        for first, shapes in _BASE.yaml_implicit_resolvers.items()
    }


def read_documents(path: Path) -> list[Any]:
    """Return the data of every document of a file.

    Raises:
        SpecError: it can't be read, is no YAML, or gives a key twice.
    """
    problems: list[Problem] = []
    documents: list[Any] = []
    loader = _Loader(read_text(path, what="manifest"))
    try:
        while not problems and loader.check_node():
            root = loader.get_node()
            problems = faults_of(root)
            if not problems:
                documents.append(loader.construct_document(root))
    except yaml.YAMLError as error:
        problems = [yaml_problem(error)]
    except (RecursionError, *MISFITS):
        problems = [Problem("", "not valid YAML, or nested too deeply")]
    finally:
        loader.dispose()
    if problems:
        raise SpecError(problems, source=f"manifest {path}")
    return documents
