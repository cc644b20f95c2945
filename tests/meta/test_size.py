"""Files and functions stay small enough to be read in one go."""

from __future__ import annotations

from tests.meta.source import functions, python_files, relative

MODULE_LINES = 300
FUNCTION_LINES = 40
FOLDERS = ("siflow_provider", "bench", "example_dags", "scripts", "tests")


def test_no_module_is_longer_than_300_lines() -> None:
    sizes = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(*FOLDERS)}
    assert sizes, "no Python file found"
    assert {path: size for path, size in sizes.items() if size > MODULE_LINES} == {}


def test_no_function_is_longer_than_40_lines() -> None:
    long = {
        f"{relative(path)}:{node.lineno} {node.name}": length
        for path in python_files(*FOLDERS)
        for node in functions(path)
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    }
    assert long == {}
