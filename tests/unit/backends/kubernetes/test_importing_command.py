"""The command of a manifest becomes the one of a form, its templates stay text, and no secret is read."""

from __future__ import annotations

import base64
import subprocess
import sys

import jinja2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from siflow_provider.backends.kubernetes.importing import import_manifest
from siflow_provider.backends.kubernetes.importing_words import kept
from siflow_provider.backends.kubernetes.rendering import render
from siflow_provider.spec.reading import load
from siflow_provider.spec.resolve import resolve
from siflow_provider.spec.writing import dump, to_data
from tests.drawing import examples
from tests.golden.manifests import CONTEXT
from tests.unit.backends.kubernetes import kubelet
from tests.unit.backends.kubernetes.imports import NO_CATALOG, form_of, notes_of, pytorch
from tests.unit.backends.kubernetes.manifests import container


def test_a_hidden_value_becomes_a_template_and_never_a_mask_or_the_secret_itself() -> None:
    reference = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    source = {"secretRef": {"name": "hub"}}
    secret = {
        "kind": "Secret",
        "metadata": {"name": "hub"},
        "stringData": {"token": "canary-91"},
        "data": {"OTHER": base64.b64encode(b"canary-92").decode()},
    }
    jobs, _ = import_manifest([pytorch(env=[reference], envFrom=[source]), secret])
    text = dump(jobs[0].task, reveal=True)
    assert to_data(jobs[0].task, reveal=True)["env"] == {
        "OTHER": {"value": "{{ var.value.other }}", "hidden": True},
        "TOKEN": {"value": "{{ var.value.token }}", "hidden": True},
        "token": {"value": "{{ var.value.token }}", "hidden": True},
    }
    told = text + "".join(str(note) for note in jobs[0].notes)
    assert "canary" not in told
    assert "***" not in told
    assert base64.b64encode(b"canary-92").decode() not in told


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=12), max_size=4))
def test_argv_reaches_the_program_byte_for_byte_as_kubernetes_would_start_it(words: list[str]) -> None:
    env = [{"name": "A", "value": "1 '\"2"}, {"name": "B", "value": "$(A)x"}]
    show = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    main = container(command=[sys.executable, "-c", show], args=[*words, "$(B)", "$$(A)", "$(NONE)", "a$(A)b", "$HOME"])
    main["env"] = env
    values = kubelet.environment(main)
    manifest = pytorch(command=main["command"], args=main["args"], env=env)
    form = form_of(manifest)
    assert form["env"] == values
    # Airflow's templates make a carriage return of any form a line end, so none is drawn here
    command = jinja2.Template(form["command"], keep_trailing_newline=True).render()
    done = subprocess.run(["bash", "-c", command], env={**values, "PYTHONUTF8": "1"}, capture_output=True, check=True)
    assert done.stdout.split(b"\0") == kubelet.argv(main, values)[3:]


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["bash", "-c", "set -e\necho $HOME"], "set -e\necho $HOME"),
        (["/bin/bash", "-c", "a $(date) $(LR) '$(MASTER_ADDR)'"], "a $(date) 0.1 '${MASTER_ADDR}'"),
        (["sh", "-c", "make"], "make"),
        (["bash", "-lc", "conda run x"], "bash -lc 'conda run x'"),
        (["bash", "-c", "echo $1", "name", "one"], "bash -c 'echo $1' name one"),
        (["echo", "hi"], "exec echo hi"),
        (["A=b", "hi"], "exec A=b hi"),
        (["torchrun", "--rank=$(RANK)", "it's"], "torchrun --rank=\"${RANK}\" 'it'\"'\"'s'"),
    ],
)
def test_command_reads_as_a_person_would_write_it(argv: list[str], command: str) -> None:
    assert form_of(pytorch(command=argv, env=[{"name": "LR", "value": "0.1"}]))["command"] == command


def test_sh_is_said_to_be_bash_now() -> None:
    path = "spec.pytorchReplicaSpecs.Master.template.spec.containers[0].command"
    assert "not sh" in notes_of(pytorch(command=["sh", "-c", "make"]))[path]


def test_working_folder_is_the_first_line_of_the_command() -> None:
    form = form_of(pytorch(command=["python", "a.py"], workingDir="/my work"))
    assert form["command"] == "cd -- '/my work' || exit\npython a.py"


def test_an_image_entrypoint_is_left_to_a_template_and_said() -> None:
    manifest = pytorch(command=None, args=["--backend", "nccl"])
    assert form_of(manifest)["command"] == "{{ params.entrypoint }} --backend nccl"
    assert "entrypoint" in notes_of(manifest)["spec.pytorchReplicaSpecs.Master.template.spec.containers[0].command"]


def test_a_shell_in_args_is_the_command_and_the_passed_over_entrypoint_is_said() -> None:
    manifest = pytorch(command=None, args=["bash", "-c", "python a.py && echo"])
    assert form_of(manifest)["command"] == "python a.py && echo"
    assert set(notes_of(manifest)) == {"spec.pytorchReplicaSpecs.Master.template.spec.containers[0].args"}


def test_braces_of_the_manifest_are_kept_from_airflows_templates() -> None:
    manifest = pytorch(
        command=["bash", "-c", "docker ps --format '{{.Names}}'\n"], env=[{"name": "T", "value": "{% x"}]
    )
    form = form_of(manifest)
    assert jinja2.Template(form["command"]).render() == "docker ps --format '{{.Names}}'\n"
    assert jinja2.Template(form["env"]["T"]).render() == "{% x"
    assert any("raw" in message for message in notes_of(manifest).values())


@settings(max_examples=examples(200), deadline=None)
@given(st.text(st.sampled_from("{}%#-+ \n\\\"'é😀a")) | st.just("{% raw %}a{% endraw %} {{ b }}"))
def test_kept_text_is_rendered_to_itself(text: str) -> None:
    assert jinja2.Environment(keep_trailing_newline=True).from_string(kept(text)).render() == text


def test_a_command_of_ours_that_is_no_template_is_kept_too() -> None:
    script = 'a=(1 2)\necho "${#a[@]}"'
    text = "{% raw %}" + script + "{% endraw %}"
    form = load({**to_data(load(NO_CATALOG[0], templates=True)), "env": {}, "command": script}, rendered=True)
    documents = render(resolve(form, user="user"), CONTEXT).documents
    assert form_of(*documents)["command"] == text
