"""What must not stand in the project: paths of one machine, hosts of package registries, unfinished work."""

from __future__ import annotations

import re
from pathlib import Path

from tests.meta.source import python_files, relative, tracked

# written in pieces so that this file does not find itself
REGISTRIES = (
    "py" + "pi.org",
    "python" + "hosted.org",
    "deb" + ".debian.org",
    "registry" + ".npmjs",
    "proxy" + ".golang.org",
)
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|NotImplemented" + r"Error)\b")
OTHER_WORDS = re.compile(r"\b(chi" + r"ef|sla" + r"ve)\b", re.IGNORECASE)
VAGUE_MODULES = {"utils", "helpers", "common", "manager", "misc"}


def _lines(paths: tuple[Path, ...]) -> list[tuple[str, str]]:
    return [
        (f"{relative(path)}:{number}", line)
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
    ]


def test_no_registry_host_and_no_path_of_one_machine_is_named() -> None:
    home = str(Path.home())
    here = str(Path(__file__).parents[3])
    forbidden = [*REGISTRIES, *(f"{path}/" for path in (home, here) if len(path) > 1)]
    allowed = {"/root/hostfile"}  # the form's own paths inside a container
    found = []
    for where, line in _lines(tracked()):
        text = line
        for path in allowed:
            text = text.replace(path, "")
        found += [f"{where}: {word}" for word in forbidden if word in text]
    assert found == []


def test_nothing_is_left_unfinished() -> None:
    found = [
        where
        for where, line in _lines(python_files("siflow_provider", "bench", "example_dags", "tests", "scripts"))
        if UNFINISHED.search(line)
    ]
    assert found == []


def test_roles_have_the_names_of_the_field() -> None:
    found = [where for where, line in _lines(python_files("siflow_provider")) if OTHER_WORDS.search(line)]
    assert found == []


def test_no_module_has_a_vague_name() -> None:
    assert [relative(path) for path in python_files("siflow_provider") if path.stem in VAGUE_MODULES] == []
