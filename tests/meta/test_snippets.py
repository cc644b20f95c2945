"""What documents show works: DAGs import, forms pass the product's own check, command lines are ones that it takes."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import takewhile
from typing import Any

import pytest
import typer
import yaml
from airflow.sdk import DAG

from siflow_provider.backends.settings import parse_connection
from siflow_provider.cli.main import app
from siflow_provider.spec import check, load_catalog
from tests.meta.snippets import PAGES, Snippet, command_lines, commands_in_sentences, in_language, snippets
from tests.meta.source import ROOT, tracked

LANGUAGES = {"python", "yaml", "json", "bash", "ini", "text"}
"""Blocks of `text` show output or a picture in characters: there is nothing to check in them."""
OTHER_PROGRAMS = {
    "scripts/demo": "runs in tests/e2e",
    "scripts/test": "is what runs this",
    "scripts/clean-clone": "takes a clone and minutes",
    "scripts/bare-debian": "takes a whole Debian and minutes",
    "scripts/control-plane": "runs in tests/integration",
    "pip": "asks a package registry",
    "kubectl": "is the reader's own, and speaks to the reader's cluster",
}
"""Commands of shell blocks that are not parsed further, and why."""
MINIMAL: dict[str, Any] = {
    "kind": "PyTorchJob",
    "image": "registry.example/ai/pytorch:2.9",
    "command": "true",
    "compute": {"type": "on_demand", "instances": [{"cpu": 1, "memory": "1Gi"}]},
}


def test_every_block_says_its_language() -> None:
    assert len(snippets()) >= 8
    assert [str(snippet) for snippet in snippets() if snippet.language not in LANGUAGES] == []


def test_no_block_hides_behind_an_indent() -> None:
    """An indented block has no language, so nothing would check it."""
    indented = re.compile(r"(?:^|\n)\n {4}(?! *[-*\d]).*")
    pages = tracked(*PAGES)
    assert [
        str(page) for page in pages if indented.search(re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S))
    ] == []


@pytest.mark.parametrize("snippet", in_language("python"), ids=str)
def test_python_imports_as_a_dag_file(snippet: Snippet) -> None:
    names: dict[str, Any] = {}
    exec(compile(snippet.text, str(snippet), "exec"), names)
    for dag in (value for value in names.values() if isinstance(value, DAG)):
        assert dag.task_ids
        dag.check_cycle()
    fields = {name: value for name, value in names.items() if name in {"alerts", "env", "compute", "volumes"}}
    assert check({**MINIMAL, **fields}, templates=True).errors == ()


@pytest.mark.parametrize("snippet", in_language("yaml"), ids=str)
def test_yaml_passes_the_check(snippet: Snippet) -> None:
    for document in yaml.safe_load_all(snippet.text):
        if "kind" in document:
            assert check(yaml.safe_dump(document), templates=True).errors == ()
        elif document.keys() <= {"alerts", "env", "compute", "volumes", "kubernetes", "fault_tolerance", "monitoring"}:
            assert check({**MINIMAL, **document}, templates=True).errors == ()
        else:
            load_catalog(document)


@pytest.mark.parametrize("snippet", in_language("json"), ids=str)
def test_json_is_json(snippet: Snippet) -> None:
    assert isinstance(json.loads(snippet.text), dict | list)


@pytest.mark.parametrize("snippet", in_language("bash"), ids=str)
def test_commands_are_ones_that_exist(snippet: Snippet) -> None:
    subprocess.run(["bash", "-n"], input=snippet.text, text=True, check=True, capture_output=True)
    for line in command_lines(snippet):
        words = line[1:] if line[0] == "export" else line
        while words and re.match(r"[A-Z_]+=", words[0]):
            expect_variable(words.pop(0))
        if words and words[0].endswith("siflow-provider"):
            expect_command(list(takewhile(lambda word: word not in {">", "|"}, words[1:])))
        elif words:
            assert words[0] in OTHER_PROGRAMS, f"{snippet}: add a check for {words[0]!r}, or say why there is none"


@pytest.mark.parametrize(("page", "words"), commands_in_sentences(), ids=str)
def test_a_command_in_a_sentence_is_one_that_exists(page: str, words: list[str]) -> None:
    expect_command(words[1:], bare=True)


def test_every_example_form_is_valid_with_the_catalog_beside_it() -> None:
    folder = ROOT / "example_dags" / "specs"
    catalog = load_catalog(folder / "catalog.yaml")
    forms = sorted(path for path in folder.glob("*.yaml") if path.name != "catalog.yaml")
    assert len(forms) >= 3
    for form in forms:
        assert check(form, catalog=catalog, templates=True).errors == (), form.name


def test_a_wrong_command_would_be_noticed() -> None:
    for words in (["chekc", "task.yaml"], ["check"], ["check", "task.yaml", "--jsn"], ["catalog", "chekc", "c.yaml"]):
        with pytest.raises(AssertionError):
            expect_command(words)


def expect_variable(assignment: str) -> None:
    """Check what a line sets for its command."""
    name, _, value = assignment.partition("=")
    if name.startswith("AIRFLOW_CONN_"):
        parse_connection(value)


def expect_command(words: list[str], *, bare: bool = False) -> None:
    """Let the command's own parser read the words, without running anything; `bare` takes a command's mere name."""
    command: Any = typer.main.get_command(app)
    name = "siflow-provider"
    while hasattr(command, "commands") and words:
        name, *words = words
        assert name in command.commands, f"there is no command {name!r}; there are {', '.join(command.commands)}"
        command = command.commands[name]
    if not words and bare:
        return
    try:
        command.make_context(name, list(words))
    except Exception as error:
        if hasattr(error, "format_message"):
            raise AssertionError(f"{name} {' '.join(words)}: {error}") from None
        raise
