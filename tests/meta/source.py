"""Where the project's files are, as git knows them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def tracked(*patterns: str) -> tuple[Path, ...]:
    """Return the files of the project that match, tracked or new, without those that git ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    out = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(path for path in (ROOT / line for line in sorted(set(out.splitlines()))) if path.is_file())


def python_files(*folders: str) -> tuple[Path, ...]:
    """Return the Python files below the folders."""
    return tracked(*(f"{folder}/**/*.py" for folder in folders), *(f"{folder}/*.py" for folder in folders))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def relative(path: Path) -> str:
    """Return a path as a message shows it."""
    return str(path.relative_to(ROOT))
