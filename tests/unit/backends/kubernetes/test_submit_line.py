"""A RayJob's way through KubeRay's submit line, round by round, with the real bash and sh."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from siflow_provider.spec.ray import RaySection
from tests.drawing import examples
from tests.unit.backends.kubernetes.tasks import container, job, ray, rendered

NASTY = {
    "env_vars": {
        "PATH": "/x:${PATH}",
        "A": "$(id) `id` $$ $1 !x",
        "B": 'it\'s "quoted" \\ back\\\\slash \\n',
        "C": "line\nline\ttab",
        "D": "ünï 日本 🚀 \u2028\u0085\x01 <&>",
        "E": "; && || > /dev/null #",
    },
    "pip": ["a==1", "b>=2; python_version < '4'"],
}


def go_quoted(text: str) -> str:
    """Go's strconv.Quote, for text whose odd characters JSON has escaped already."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def submit_line(spec: dict[str, Any], address: str = "http://head:8265", job_id: str = "id") -> str:
    """The submitter's shell text (source: KubeRay v1.6.0 controllers/ray/common/job.go, BuildJobSubmitCommand)."""
    runtime_env = json.dumps(yaml.safe_load(spec["runtimeEnvYAML"]), ensure_ascii=False)
    status = f"ray job status --address {address} {job_id} >/dev/null 2>&1"
    submit = f"ray job submit --address {address} --no-wait --runtime-env-json {go_quoted(runtime_env)}"
    logs = f"ray job logs --address {address} --follow {job_id}"
    return f"if ! {status} ; then {submit} --submission-id {job_id} -- {spec['entrypoint'].strip()} ; fi ; {logs}"


def submitted(runtime_env: dict[str, Any], box: Path) -> list[str]:
    """Run the line with a `ray` that writes down its arguments; return those of `ray job submit`."""
    manifest = rendered(ray(RaySection(runtime_env=runtime_env)))
    tool = box / "ray"
    tool.write_text('#!/bin/sh\ncase "$2" in\nstatus) exit 1 ;;\nsubmit) printf "%s\\0" "$@" > "$BOX/argv" ;;\nesac\n')
    tool.chmod(0o755)
    env = {"PATH": f"{box}:{os.environ['PATH']}", "BOX": str(box)}
    env |= {entry["name"]: entry["value"] for entry in container(manifest, "submitter")["env"]}
    line = submit_line(job(manifest)["spec"])
    subprocess.run(["/bin/bash", "-ce", "--", line], env=env, check=True, capture_output=True)
    return (box / "argv").read_bytes().decode().split("\0")[:-1]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("box")


def test_runtime_env_reaches_ray_unchanged(box: Path) -> None:
    argv = submitted(NASTY, box)
    assert json.loads(argv[argv.index("--runtime-env-json") + 1]) == NASTY


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=st.sampled_from("$`\"'\\ {}()!\n\tab;&|<>*~#ü日"), max_size=12))
def test_any_text_of_the_runtime_env_reaches_ray_unchanged(box: Path, text: str) -> None:
    argv = submitted({"env_vars": {"A": text}}, box)
    assert json.loads(argv[argv.index("--runtime-env-json") + 1]) == {"env_vars": {"A": text}}


def test_entrypoint_is_the_same_two_words_after_every_round(box: Path) -> None:
    argv = submitted(NASTY, box)
    words = argv[argv.index("--") + 1 :]
    # Ray joins the words again and gives them to a shell on the head
    # (source: Ray 2.60 dashboard/modules/job/cli.py and job_supervisor.py)
    line = shlex.join(words).replace("bash ", "printf '%s\\n' bash ", 1)
    head = subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=True, text=True)
    assert head.stdout.splitlines() == ["bash", "/etc/siflow/run.sh"]
