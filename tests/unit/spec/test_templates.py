"""Templates wherever values stand: passed while a DAG file is parsed, refused by name once rendering is over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import PurePosixPath
from typing import Any

import jinja2
import pytest

from siflow_provider.errors import SpecError
from siflow_provider.spec import Hidden, PyTorchJob, RayJob, check, dump, load, load_catalog
from siflow_provider.spec.base import Template
from siflow_provider.spec.resolve import resolve
from siflow_provider.spec.writing import to_data, to_fields
from tests.unit.spec.forms import CATALOG, PYTORCH, RAY, changed

MOUNT = {"name": "team-data", "mount_path": "/volume/data"}
PLACES: list[tuple[dict[Any, Any], str]] = [
    ({"region": "{{ x }}"}, "region"),
    ({"project_group": "{{ x }}"}, "project_group"),
    ({"name_prefix": "{{ ds_nodash }}"}, "name_prefix"),
    ({"visible_in_group": "{{ x }}"}, "visible_in_group"),
    ({"timezone": "{{ x }}"}, "timezone"),
    ({"labels": "{{ x }}"}, "labels"),
    ({"labels.team": "{{ x }}"}, "labels.team"),
    ({"image": "{{ x }}"}, "image"),
    ({"image": {"preset": "{{ x }}", "version": "1"}}, "image.preset"),
    ({"image": {"preset": "pytorch", "version": "{{ x }}"}}, "image.version"),
    ({"env": "{{ x }}"}, "env"),
    ({"env": {"LR": "{{ x }}"}}, "env.LR"),
    ({"env": {"LR": {"value": "{{ x }}", "hidden": True}}}, "env.LR"),
    ({"volumes": "{{ x }}"}, "volumes"),
    ({"volumes": ["{{ x }}"]}, "volumes[0]"),
    ({"volumes": [MOUNT | {"name": "{{ x }}"}]}, "volumes[0].name"),
    ({"volumes": [MOUNT | {"mount_path": "/mnt/{{ x }}"}]}, "volumes[0].mount_path"),
    ({"volumes": [MOUNT | {"read_only": "{{ x }}"}]}, "volumes[0].read_only"),
    ({"volumes": [MOUNT | {"sub_path": "{{ ds }}/x"}]}, "volumes[0].sub_path"),
    ({"datasets": [{"name": "imagenet", "version": "{{ x }}", "mount_path": "/mnt/a"}]}, "datasets[0].version"),
    ({"command": "train --lr {{ x }}"}, "command"),
    ({"shm_size": "{{ x }}"}, "shm_size"),
    ({"compute": "{{ x }}"}, "compute"),
    ({"compute.type": "{{ x }}"}, "compute.type"),
    ({"compute.instances": "{{ x }}"}, "compute.instances"),
    ({"compute.instances": ["{{ x }}"]}, "compute.instances[0]"),
    ({"compute.instances": [{"cpu": "{{ x }}", "memory": "1Gi"}]}, "compute.instances[0].cpu"),
    ({"compute.units_per_replica": "{{ x }}"}, "compute.units_per_replica"),
    ({"compute.nodes": {"only": ["{{ x }}"]}}, "compute.nodes.only[0]"),
    ({"workers": "{{ x }}"}, "workers"),
    ({"priority": "{% if x %}high{% endif %}"}, "priority"),
    ({"queue_timeout": "{{ x }}"}, "queue_timeout"),
    ({"fault_tolerance": {"max_retries": "{{ x }}"}}, "fault_tolerance.max_retries"),
    ({"fault_tolerance": {"retry_on": ["{{ x }}"]}}, "fault_tolerance.retry_on[0]"),
    ({"monitoring": {"port": "{{ x }}"}}, "monitoring.port"),
    ({"ssh": "{{ x }}"}, "ssh"),
    ({"alerts": [{"events": ["{{ x }}"], "to": ["a"]}]}, "alerts[0].events[0]"),
    ({"alerts": [{"events": [{"queued_too_long": "{{ x }}"}], "to": ["a"]}]}, "alerts[0].events[0].queued_too_long"),
    ({"alerts": [{"events": ["hang"], "to": ["{{ x }}"]}]}, "alerts[0].to[0]"),
    ({"kubernetes.patch": {"spec": {"a": ["{{ x }}"]}}}, "kubernetes.patch.spec.a[0]"),
    ({"kubernetes.node_selector": {"a": "{{ x }}"}}, "kubernetes.node_selector.a"),
]
RAY_PLACES: list[tuple[dict[Any, Any], str]] = [
    ({"ray": "{{ x }}"}, "ray"),
    ({"ray.head": {"instance": "{{ x }}"}}, "ray.head.instance"),
    ({"ray.runtime_env": "{{ x }}"}, "ray.runtime_env"),
    ({"ray.runtime_env": {"pip": ["{{ x }}"]}}, "ray.runtime_env.pip[0]"),
    ({"ray.shared_storage": {"volume": "{{ x }}"}}, "ray.shared_storage.volume"),
    ({"ray.autoscaling": {"min_workers": "{{ x }}", "max_workers": 2}, "workers": 2}, "ray.autoscaling.min_workers"),
]
ALL = [*((PYTORCH, *place) for place in PLACES), *((RAY, *place) for place in RAY_PLACES)]


@pytest.mark.parametrize(("base", "changes", "path"), ALL, ids=[path for _, _, path in ALL])
def test_template_is_passed_at_parse_and_refused_by_name_when_left_over(
    base: dict[str, Any], changes: dict[Any, Any], path: str
) -> None:
    form, catalog = changed(base, changes), load_catalog(CATALOG)
    parsed = check(form, catalog=catalog, templates=True)
    assert parsed.errors == ()
    assert load(dump(parsed.task, reveal=True), templates=True) == parsed.task  # type: ignore[arg-type] # no errors
    left = check(form)
    assert [problem.path for problem in left.errors] == [path]
    assert "not rendered" in left.errors[0].message


class Argument:
    """Stands for Airflow's XComArg: no plain data, but something that knows how to resolve itself."""

    def __repr__(self) -> str:  # test ids must be the same in every process
        return "Argument()"

    def resolve(self, context: object) -> object:
        return context


@pytest.mark.parametrize("field", ["volumes", "compute", "env", "labels", "workers", "image", "alerts", "command"])
def test_object_that_resolves_itself_may_stand_for_any_value(field: str) -> None:
    argument = Argument()
    form = changed(PYTORCH, {field: argument})
    checked = check(form, catalog=load_catalog(CATALOG), templates=True)
    assert checked.errors == ()
    assert getattr(checked.task, field) is argument
    assert to_fields(checked.task)[field] is argument  # type: ignore[arg-type] # no errors
    assert [problem.path for problem in check(form).errors] == [field]


def test_object_that_resolves_itself_may_stand_deep_inside() -> None:
    argument = Argument()
    form = changed(
        PYTORCH,
        {
            "compute.instances": [argument],
            "volumes": [argument, MOUNT | {"mount_path": argument}],
            "env": {"A": argument, "B": {"value": argument, "hidden": True}},
            "labels.x": argument,
            "alerts": [{"events": [argument], "to": argument}],
            "kubernetes.patch": {"spec": argument},
        },
    )
    checked = check(form, catalog=load_catalog(CATALOG), templates=True)
    assert checked.errors == ()
    assert isinstance(checked.task, PyTorchJob)
    hidden = checked.task.env["B"]
    assert isinstance(hidden, Hidden)
    assert hidden.value is argument


def test_real_airflow_arguments_pass_and_nothing_of_them_is_touched() -> None:
    from airflow.sdk import DAG, task

    with DAG("templates"):
        argument = task(lambda: ["gpu.h100-8"], task_id="choose")()  # type: ignore[call-overload]
        form = changed(PYTORCH, {"compute.instances": argument, "workers": argument["n"], "env": {"A": argument}})
        checked = check(form, catalog=load_catalog(CATALOG), templates=True)
    assert checked.errors == ()
    assert checked.task is not None
    assert checked.task.compute.instances is argument


def test_path_is_not_taken_for_something_that_airflow_resolves() -> None:
    form = changed(PYTORCH, {"image": PurePosixPath("a/b")})
    assert [problem.path for problem in check(form, templates=True).errors] == ["image"]


def test_rules_that_touch_a_template_wait_and_the_others_do_not() -> None:
    form = changed(
        RAY,
        {
            "workers": "{{ params.n }}",
            "ray.autoscaling": {"min_workers": 5, "max_workers": 4},
            "volumes": [MOUNT, MOUNT],
            "compute.instances": ["gpu.a100-8", "{{ x }}", "gpu.a100-8"],
        },
    )
    paths = [problem.path for problem in check(form, templates=True).errors]
    assert paths == ["volumes[1].mount_path", "compute.instances[2]", "ray.autoscaling.max_workers"]


def test_template_of_the_kind_is_refused() -> None:
    assert check(changed(PYTORCH, {"kind": "{{ x }}"}), templates=True).errors[0].path == "kind"


def test_braces_that_airflow_rendered_into_free_text_stay() -> None:
    form = changed(PYTORCH, {"command": "docker inspect -f '{{.State}}'", "env": {"F": "{{.Name}}"}})
    assert check(form).errors != ()
    rendered = check(form, rendered=True)
    assert rendered.errors == ()
    assert rendered.task is not None
    assert rendered.task.command == "docker inspect -f '{{.State}}'"


def test_template_reads_as_the_text_it_is() -> None:
    task = load(changed(PYTORCH, {"workers": "{{ params.n }}"}), templates=True)
    assert isinstance(task.workers, Template)
    assert to_data(task)["workers"] == "{{ params.n }}"
    assert type(to_data(task)["workers"]) is str


def test_model_made_in_python_may_hold_templates_and_is_checked_otherwise() -> None:
    task = RayJob(
        image="a/b:1",
        command="run {{ ds }}",
        compute={"type": "spot", "instances": ["a"]},
        workers="{{ params.n }}",
    )
    assert task.kind == "RayJob"
    with pytest.raises(SpecError) as caught:
        RayJob(image="A", command=" ", compute={"type": "spot", "instances": []}, env={"RAY_IP": "x"})
    assert {one.path for one in caught.value.problems} == {"image", "command", "compute.instances", "env.RAY_IP"}
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_unrendered_task_is_resolved_when_templates_stand_in_free_text_only() -> None:
    changes = {"image": "{{ x }}", "labels.team": "{{ x }}", "volumes": [MOUNT | {"sub_path": "{{ ds }}"}]}
    resolved = resolve(load(changed(PYTORCH, changes), templates=True), load_catalog(CATALOG))
    assert (resolved.image, resolved.labels["team"], resolved.mounts[0].sub_path) == ("{{ x }}", "{{ x }}", "{{ ds }}")


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"workers": "{{ x }}"}, "workers"),
        ({"compute.instances": ["{{ x }}"]}, "compute.instances[0]"),
        ({"compute.type": "{{ x }}"}, "compute.type"),
        ({"env": "{{ x }}"}, "env"),
        ({"volumes": [MOUNT | {"name": "{{ x }}"}]}, "volumes[0].name"),
        ({"command": Argument()}, "command"),
    ],
    ids=str,
)
def test_template_that_decides_something_is_not_resolved(changes: dict[Any, Any], path: str) -> None:
    with pytest.raises(SpecError) as caught:
        resolve(load(changed(PYTORCH, changes), templates=True), load_catalog(CATALOG))
    assert [problem.path for problem in caught.value.problems] == [path]
    assert "rendered" in caught.value.problems[0].message


def test_form_needs_neither_airflow_nor_any_client() -> None:
    program = (
        "import sys; import siflow_provider.spec as s; s.load('kind: PyTorchJob\\nimage: a\\ncommand: b\\n"
        "compute: {type: idle, instances: [x], stability: low}');"
        "print([name for name in ('airflow', 'kubernetes', 'kubernetes_asyncio', 'ray', 'torch', 'httpx', 'apprise',"
        " 'jinja2', 'rich', 'typer') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"workers": "{{ x }"}, "workers"),
        ({"command": "echo ${#name}"}, "command"),
        ({"env": {"A": {"value": "{{ a.", "hidden": True}}}, "env.A"),
        ({"volumes": [{**MOUNT, "sub_path": "{% if a %}b"}]}, "volumes[0].sub_path"),
    ],
)
def test_text_that_jinja_cannot_read_is_told_at_parse(changes: dict[Any, Any], path: str) -> None:
    (problem,) = check(changed(PYTORCH, changes), templates=True).errors
    assert problem.path.startswith(path)
    assert "can't read it as a template" in problem.message
    assert "{% raw %}" in problem.message


def test_templates_are_read_with_the_settings_of_the_dag() -> None:
    form = changed(PYTORCH, {"command": "echo ${#name}"})
    custom = jinja2.Environment(comment_start_string="{!", comment_end_string="!}", autoescape=True)
    assert check(form, templates=True, jinja=lambda: custom).errors == ()


def test_bash_that_is_no_template_is_right_where_nobody_renders() -> None:
    form = changed(PYTORCH, {"command": "echo ${#name}"})
    assert check(form).errors == ()
    assert load(form, templates=True).command == "echo ${#name}"
    assert PyTorchJob(**form).command == "echo ${#name}"


def test_form_without_templates_loads_no_jinja() -> None:
    code = (
        "import sys; from siflow_provider.spec import check; "
        f"assert check({PYTORCH!r}, templates=True).task; assert 'jinja2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
