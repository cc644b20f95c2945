"""Read one YAML (or JSON) document with the place of each value, the way PyYAML's safe loader reads it.

What differs: a key given twice is an error, as is a document that contains itself or unfolds into a flood. Messages
never repeat a value of the document, which may be a hidden one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from siflow_provider.errors import Problem, SpecError
from siflow_provider.spec.paths import expanded

__all__ = ["MISFITS", "Document", "faults_of", "is_file_name", "read_document", "read_text", "yaml_problem"]

_HALVES = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
MAX_BYTES = 5 * 2**20
MAX_NODES = 100_000
MISFITS = (ValueError, OverflowError, LookupError, TypeError, AttributeError)
"""What PyYAML's constructors raise for a scalar that is not what its look or its tag says."""
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its data and, for places, its node tree.

    Attributes:
        data: mappings, lists and scalars as PyYAML's safe loader makes them.
        root: the composed node; None when the data did not come from a text.
        name: the file's path; "" for a text.
    """

    data: Any
    root: yaml.Node | None = None
    name: str = ""

    def place(self, path: str) -> tuple[int, int] | tuple[None, None]:
        """Return line and column (from 1) of the value at `path`, or of the nearest parent that is there."""
        if self.root is None:
            return None, None
        node, mark = self.root, self.root.start_mark
        while path:
            found = _child(node, path)
            if found is None:
                break
            node, mark, path = found
        return mark.line + 1, mark.column + 1

    def placed(self, problem: Problem) -> Problem:
        """Return the problem with line and column, where it has none yet and the document knows them."""
        if problem.line is not None or self.root is None:
            return problem
        line, column = self.place(problem.path)
        return replace(problem, line=line, column=column)


def is_file_name(text: str) -> bool:
    """Say whether a text names a file: one line that ends in .yaml, .yml or .json."""
    return "\n" not in text and text.strip().lower().endswith((".yaml", ".yml", ".json")) and "{" not in text


def read_document(source: Path | str, *, what: str = "task", twice: list[Problem] | None = None) -> Document:
    """Return the one document of a file (a `Path`, or a file's name) or of a text.

    Args:
        source: the file or the text.
        what: what a message calls it.
        twice: where keys that are given twice are noted instead of being raised, so that the rest can be checked too.

    Raises:
        SpecError: no such file, not UTF-8, not YAML, not exactly one document, a key given twice.
    """
    if isinstance(source, Path) or is_file_name(source):
        path = expanded(source)
        text = read_text(path, what=what)
        return _read(_whole(text) if path.suffix == ".json" else text, name=str(path), what=what, twice=twice)
    return _read(source, name="", what=what, twice=twice)


def read_text(path: Path, *, what: str = "task") -> str:
    """Return a file's text.

    Raises:
        SpecError: it can't be read, is too large, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) <= MAX_BYTES:
            return content.decode("utf-8-sig")
        message = f"{path} is larger than {MAX_BYTES // 2**20} MiB; is this a {what}?"
    except FileNotFoundError:
        message = (
            f"there is no file {path}; the path is relative to {Path.cwd()}"
            if not path.is_absolute()
            else f"there is no file {path}"
        )
    except UnicodeDecodeError as error:
        message = f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8"
    except OSError as error:
        message = f"{path} can't be read: {error.strerror}"
    except ValueError:
        message = "the file's name holds a NUL character"
    raise SpecError([Problem("", message)], source=what) from None


def _whole(text: str) -> str:
    """Return JSON text with each character that is escaped in two halves written out: YAML knows no such halves."""
    return _HALVES.sub(lambda match: json.loads(f'"{match[0]}"'), text)


def _read(text: str, *, name: str, what: str, twice: list[Problem] | None) -> Document:
    problems: list[Problem] = []
    repeated = problems if twice is None else twice
    try:
        loader = _BASE(text)
        try:
            root = loader.get_single_node()
            if root is None:
                raise SpecError([Problem("", f"the {what} is empty; write its fields as a YAML mapping")], source=what)
            _Walk(problems, repeated).size(root)
            if not problems:
                return Document(loader.construct_document(root), root, name)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        problems = [yaml_problem(error)]
    except RecursionError:
        problems = [Problem("", "the YAML is nested too deeply")]
    except MISFITS:
        problems = [_misfit(text)]
    raise SpecError(problems, source=_called(name, what)) from None


def _called(name: str, what: str) -> str:
    return f"{what} {name}" if name else what


def yaml_problem(error: yaml.YAMLError) -> Problem:
    """Return what PyYAML says, with its place and without any value of the document."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = str(getattr(error, "problem", None) or "")
    context = str(getattr(error, "context", None) or "")
    if "single document" in context:
        message = "there are several documents; write one task a file"
    elif "undefined alias" in said:
        message = "not valid YAML: an alias (*name) without its anchor; put text that starts with * in quotes"
    elif "constructor for the tag" in said:
        message = (
            "not valid YAML here: a tag (!name) that only other programs know; put text that starts with ! in quotes"
        )
    elif isinstance(error, yaml.reader.ReaderError):
        message = f"not valid YAML: a character that YAML does not allow at position {error.position}"
        return Problem("", message)
    else:
        message = f"not valid YAML: {said.split(chr(39), maxsplit=1)[0] if 'constructor' in said else said}"
        if context and "constructing" not in context:
            message += f" ({context})"
    if mark is None:
        return Problem("", message)
    return Problem("", message, mark.line + 1, mark.column + 1)


class _Picky(_BASE):  # type: ignore[misc] # the C loader has no types
    """Names the place of a scalar that is not what its look or its tag says, such as the date 2024-13-45."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except MISFITS:
            said = "a value that looks like a date or number and is none; put it in quotes"
            raise yaml.constructor.ConstructorError(None, None, said, node.start_mark) from None


def _misfit(text: str) -> Problem:
    loader = _Picky(text)
    try:
        loader.get_single_data()
    except yaml.YAMLError as error:
        return yaml_problem(error)
    except MISFITS:
        return Problem("", "not valid YAML: a value that looks like a date or number and is none; put it in quotes")
    finally:
        loader.dispose()
    return Problem("", "not valid YAML")


def faults_of(root: yaml.Node) -> list[Problem]:
    """Return what no document may have: keys given twice, cycles, aliases that unfold into a flood."""
    problems: list[Problem] = []
    _Walk(problems, problems).size(root)
    return problems


class _Walk:
    """Visits each node once: finds keys given twice, cycles, and documents that unfold into a flood."""

    def __init__(self, problems: list[Problem], repeated: list[Problem]) -> None:
        self.problems, self.repeated = problems, repeated
        self.sizes: dict[int, int] = {}
        self.open: set[int] = set()

    def size(self, node: yaml.Node, path: str = "") -> int:
        """Return how many nodes `node` unfolds into."""
        if isinstance(node, yaml.ScalarNode):
            return 1
        known = self.sizes.get(id(node))
        if known is not None:
            return known
        if id(node) in self.open:
            self.problems.append(_at(path, node, "an alias stands inside what it names; write the value out"))
            return 1
        self.open.add(id(node))
        total = 1 + (self._mapping(node, path) if isinstance(node, yaml.MappingNode) else self._sequence(node, path))
        self.open.discard(id(node))
        if total > MAX_NODES and not self.problems:
            self.problems.append(_at(path, node, f"aliases unfold into more than {MAX_NODES} values"))
        self.sizes[id(node)] = total
        return total

    def _sequence(self, node: yaml.Node, path: str) -> int:
        return sum(self.size(item, f"{path}[{index}]") for index, item in enumerate(node.value))

    def _mapping(self, node: yaml.MappingNode, path: str) -> int:
        total = 0
        seen: dict[tuple[str, str], yaml.Node] = {}
        for key, value in node.value:
            here = path
            if isinstance(key, yaml.ScalarNode):
                here = join(path, key.value)
                first = seen.setdefault((key.tag, key.value), key)
                if first is not key and key.value != "<<":
                    where = f"first in line {first.start_mark.line + 1}"
                    self.repeated.append(_at(here, key, f"the key is given twice ({where}); keep one of them"))
            total += 1 + self.size(value, here)
        return total


def _at(path: str, node: yaml.Node, message: str) -> Problem:
    return Problem(path, message, node.start_mark.line + 1, node.start_mark.column + 1)


def join(path: str, part: str | int) -> str:
    """Return the path of `part` inside `path`: `a` and `b` give `a.b`, `a` and 0 give `a[0]`."""
    if isinstance(part, int):
        return f"{path}[{part}]"
    return f"{path}.{part}" if path else part


def _child(node: yaml.Node, path: str) -> tuple[yaml.Node, Any, str] | None:
    """Return the node at the first part of `path`, its mark, and the rest of the path."""
    if isinstance(node, yaml.SequenceNode) and path.startswith("["):
        number, _, rest = path[1:].partition("]")
        if number.isdigit() and int(number) < len(node.value):
            item = node.value[int(number)]
            return item, item.start_mark, rest.removeprefix(".")
    if isinstance(node, yaml.MappingNode):
        # the longest key first, since label keys hold dots; of a key given twice the last, which is the one that counts
        for key, value in sorted(reversed(node.value), key=lambda pair: -len(str(pair[0].value))):
            if isinstance(key, yaml.ScalarNode) and path.startswith(key.value):
                rest = path[len(key.value) :]
                if not rest or rest[0] in ".[":
                    return value, key.start_mark, rest.removeprefix(".")
    return None


def as_mapping(data: Any, *, what: str) -> Mapping[Any, Any]:
    """Return the data of a document, which must be a mapping.

    Raises:
        SpecError: it is a list or a scalar.
    """
    if isinstance(data, Mapping):
        return data
    kind = "a list" if isinstance(data, list) else "one value"
    hint = "" if isinstance(data, list) else "; the name of a file ends in .yaml, .yml or .json"
    message = f"the {what} is {kind}; write its fields as a YAML mapping (name: value){hint}"
    raise SpecError([Problem("", message)], source=what)
