"""Files and texts: what is refused before a form is even looked at, and where in the file a problem is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from siflow_provider.errors import SpecError
from siflow_provider.spec import check, load
from siflow_provider.spec.document import read_document
from tests.unit.spec.forms import PYTORCH, changed

FORM = """\
kind: PyTorchJob
image: registry.example/a:1
command: train
compute:
  type: on_demand
  instances:
    - gpu.h100-8
workers: 1
labels:
  example.com/team: nlp
"""


def only(source: str | Path) -> tuple[str, str, int | None, int | None]:
    [problem] = check(source).errors
    return problem.path, problem.message, problem.line, problem.column


def test_file_is_read_by_path_name_and_text(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text(FORM)
    as_json = tmp_path / "train.json"
    as_json.write_text(json.dumps(PYTORCH))
    assert load(file) == load(str(file)) == load(FORM)
    assert load(as_json) == load(PYTORCH)


def test_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + FORM.encode())
    assert load(file) == load(FORM)


@pytest.mark.parametrize(
    ("before", "after", "path", "line", "column"),
    [
        ("workers: 1", "workers: 1.5", "workers", 8, 1),
        ("    - gpu.h100-8", "    - a\n    - a", "compute.instances[1]", 8, 7),
        ("  type: on_demand", "  type: ondemand", "compute.type", 5, 3),
        ("workers: 1", "wrokers: 1", "wrokers", 8, 1),
        ("example.com/team: nlp", 'example.com/team: "-"', "labels.example.com/team", 10, 3),
        ("command: train\n", "", "command", 1, 1),
    ],
)
def test_problem_names_line_and_column(before: str, after: str, path: str, line: int, column: int) -> None:
    found_path, _, found_line, found_column = only(FORM.replace(before, after))
    assert (found_path, found_line, found_column) == (path, line, column)


def test_mapping_of_a_file_gets_its_places_from_the_file() -> None:
    document = read_document(FORM.replace("workers: 1", "workers: -1"))
    [problem] = check({**document.data, "image": "a"}, line_source=document).errors
    assert (problem.path, problem.line, problem.column) == ("workers", 8, 1)


def test_key_given_twice_is_an_error_with_both_places() -> None:
    path, message, line, column = only(FORM + "workers: 2\n")
    assert (path, line, column) == ("workers", 11, 1)
    assert "given twice (first in line 8)" in message
    path, message, line, _ = only(FORM.replace("  type: on_demand", "  type: on_demand\n  type: spot"))
    assert (path, line) == ("compute.type", 6)


def test_merge_keys_of_yaml_still_work() -> None:
    text = FORM.replace("compute:\n", "compute: &c\n").replace("labels:", "ray:\n  <<: *c\n  <<: {type: x}\nlabels:")
    assert [problem.path for problem in check(text).errors] == ["ray"]


@pytest.mark.parametrize(
    ("text", "part", "line"),
    [
        ("", "is empty", None),
        ("# nothing\n", "is empty", None),
        ("- a\n- b\n", "is a list", None),
        ("just text", "is one value", None),
        (FORM + "---\n" + FORM, "several documents", 11),
        ("kind: [a\nb: c", "not valid YAML", 2),
        ("kind: 'a", "not valid YAML", 1),
        ("a: !secret b", "a tag (!name)", 1),
        ("a: !!python/object/apply:os.system [x]", "a tag (!name)", 1),
        ("a: *b", "alias (*name) without its anchor", 1),
        ("a: 2024-13-45", "looks like a date or number", 1),
        ("x: 1\na: &a [*a]", "stands inside what it names", 2),
        ("a: \x07", "not allow", None),
        ("\t a: b", "not valid YAML", 1),
        ("a: " + "[" * 5000, "", None),
    ],
)
def test_text_that_is_no_form_says_why(text: str, part: str, line: int | None) -> None:
    [problem] = check(text).errors
    assert part in problem.message
    if line is not None:
        assert problem.line == line


def test_flood_of_aliases_is_refused_quickly() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "unfold into more than" in check("\n".join(lines)).errors[0].message


def test_errors_of_yaml_never_repeat_a_value() -> None:
    for text in ("a: *top-secret", "a: !top-secret b", "a: !!int top-secret", "a: 'top-secret", "a: {b: top-secret"):
        for problem in check(text).errors:
            assert "top-secret" not in str(problem)


def test_file_that_cannot_be_read_says_which_and_why(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("command: señal".encode("latin-1"))
    folder = tmp_path / "folder.yaml"
    folder.mkdir()
    assert "there is no file" in only(tmp_path / "none.yaml")[1]
    assert "there is no file none.yaml" in only("none.yaml")[1]
    assert "there is no file ~nobody-of-this-name/none.yaml" in only("~nobody-of-this-name/none.yaml")[1]
    assert "is not UTF-8 (byte 11)" in only(latin)[1]
    assert "can't be read" in only(folder)[1]
    assert "NUL" in only("a\0.yaml")[1]
    assert "larger than 5 MiB" in only(Path("/dev/zero"))[1]


def test_file_error_is_raised_without_a_chain(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load(tmp_path / "none.yaml")
    assert caught.value.source.startswith("task ")
    assert caught.value.__cause__ is None


def test_kind_may_come_from_the_caller_but_not_against_the_form() -> None:
    form = {name: value for name, value in PYTORCH.items() if name != "kind"}
    assert load(form, kind="PyTorchJob").kind == "PyTorchJob"
    [problem] = check(PYTORCH, kind="RayJob").errors
    assert (problem.path, "RayJob" in problem.message) == ("kind", True)


def test_source_of_another_type_is_refused() -> None:
    assert "not a list" in check([PYTORCH]).errors[0].message  # type: ignore[arg-type] # what a user may do


def test_numbers_in_yaml_are_read_as_pyyaml_reads_them() -> None:
    task = load(FORM + "env: {LR: 1e-4, BIG: 1.0e+6, OCTAL: 0o17, NORWAY: no, HEX: 0x1F, N: 1_000}\n")
    assert task.env == {
        "LR": "1e-4",
        "BIG": "1000000.0",
        "OCTAL": "0o17",
        "NORWAY": "false",
        "HEX": "31",
        "N": "1000",
    }


def test_character_that_json_wrote_in_two_halves_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "train.json"
    file.write_text(json.dumps(changed(PYTORCH, {"command": "echo 😀", "env": {"A": "😀"}})))
    task = load(file)
    assert (task.command, task.env["A"]) == ("echo 😀", "😀")


def test_date_in_env_must_be_quoted() -> None:
    path, message, _, _ = only(FORM + "env: {DAY: 2024-01-02}\n")
    assert (path, "quotes" in message) == ("env.DAY", True)


def test_checking_does_not_change_the_callers_mapping() -> None:
    form = changed(PYTORCH, {"env": {"A": {"value": "secret-a", "hidden": True}}, "workers": "3"})
    before = json.dumps(form)
    check(form)
    assert json.dumps(form) == before
