"""Every public name of the package says what it does."""

from __future__ import annotations

import ast

from tests.meta.source import python_files, relative


def test_every_public_class_and_function_has_a_docstring() -> None:
    bare = [
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in python_files("siflow_provider")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and ast.get_docstring(node) is None
    ]
    assert bare == []


def test_every_module_says_why_it_exists() -> None:
    bare = [
        relative(path)
        for path in python_files("siflow_provider", "bench", "example_dags")
        if (text := path.read_text(encoding="utf-8")).strip() and ast.get_docstring(ast.parse(text)) is None
    ]
    assert bare == []
