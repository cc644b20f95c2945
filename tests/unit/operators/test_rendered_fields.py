"""Every field of the form may be a template or another task's output: its value arrives in the submitted form."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
import yaml
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.definitions.mappedoperator import MappedOperator

from siflow_provider.operators import PyTorchJobOperator, RayJobOperator
from siflow_provider.operators.form import form_fields
from siflow_provider.operators.order import order_of
from siflow_provider.sensors import QuotaSensor
from siflow_provider.spec import PyTorchJob, RayJob
from siflow_provider.spec.resolve import ResolvedTask
from siflow_provider.triggers.run import Carried
from tests.golden.manifests import CATALOG, GOLDEN
from tests.unit.operators.conftest import Instance

pytestmark = pytest.mark.many

OPERATORS: dict[str, tuple[type[Any], type[PyTorchJob] | type[RayJob]]] = {
    "PyTorchJob": (PyTorchJobOperator, PyTorchJob),
    "RayJob": (RayJobOperator, RayJob),
}
CASES = [(kind, field) for kind, (_, model) in OPERATORS.items() for field in form_fields(model)]
NEEDED = ("project_group", "labels", "image", "command", "compute", "workers")
"""What no task of the catalog goes without, and the workers that autoscaling starts with."""
IN_PLACE: Any = {"type": "on_demand", "instances": [{"cpu": 1, "memory": "1Gi"}]}
Task: TypeAlias = BaseOperator | MappedOperator
Give: TypeAlias = Callable[[str, DAG], Any]
Make: TypeAlias = Callable[[type[Any], DAG, dict[str, Any], str], Task]


@pytest.fixture(autouse=True)
def connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SIFLOW_DEFAULT", '{"conn_type": "siflow", "extra": {"backend": "local"}}')


@cache
def whole_form(kind: str) -> dict[str, Any]:
    forms = {
        name: yaml.safe_load((GOLDEN / "forms" / f"everything-{name}.yaml").read_text()) for name in ("pytorch", "ray")
    }
    form = {**forms["pytorch"], "command": forms["pytorch"]["command"].rstrip()}  # Jinja drops a line end at the end
    del form["kind"]
    return form if kind == "PyTorchJob" else {**form, "image": forms["ray"]["image"], "ray": forms["ray"]["ray"]}


def inside(value: Any, path: str, make: Callable[[str, Any], Any]) -> Any:
    """Return a value with each scalar inside it replaced; the flag of a hidden value is none."""
    if isinstance(value, dict):
        return {key: item if key == "hidden" else inside(item, f"{path}.{key}", make) for key, item in value.items()}
    if isinstance(value, list):
        return [inside(item, f"{path}.{index}", make) for index, item in enumerate(value)]
    return make(path, value)


def task_id_of(path: str) -> str:
    return path.replace("/", "-")


def template(path: str, dag: DAG) -> Any:
    return f"{{{{ dag_run.given['{task_id_of(path)}'] }}}}"


def output(path: str, dag: DAG) -> Any:
    task_id = task_id_of(path)
    return (dag.task_dict.get(task_id) or BaseOperator(task_id=task_id, dag=dag)).output


def plain(operator: type[Any], dag: DAG, form: dict[str, Any], field: str) -> Task:
    made: BaseOperator = operator(task_id="train", catalog=str(CATALOG), dag=dag, **form)
    return made


def rest_of(operator: type[Any], dag: DAG, form: dict[str, Any], mapped: str) -> Any:
    rest = {name: value for name, value in form.items() if name != mapped}
    return operator.partial(task_id="train", catalog=str(CATALOG), dag=dag, **rest)


def beside_a_mapped_field(operator: type[Any], dag: DAG, form: dict[str, Any], field: str) -> Task:
    mapped = "workers" if field != "workers" else "command"
    made: MappedOperator = rest_of(operator, dag, form, mapped).expand(**{mapped: [form[mapped]]})
    return made


def mapped_over(operator: type[Any], dag: DAG, form: dict[str, Any], field: str) -> Task:
    made: MappedOperator = rest_of(operator, dag, form, field).expand(**{field: [form[field]]})
    return made


def mapped_over_keywords(operator: type[Any], dag: DAG, form: dict[str, Any], field: str) -> Task:
    made: MappedOperator = rest_of(operator, dag, form, field).expand_kwargs([{field: form[field]}])
    return made


WAYS = (plain, beside_a_mapped_field, mapped_over, mapped_over_keywords)


class Pulling(Instance):
    """An instance whose upstream tasks have pushed their values."""

    def xcom_pull(self, *, task_ids: str, **_: Any) -> Any:
        return copy.deepcopy(self.given[task_ids])


def submitted(task: Task, given: dict[str, Any]) -> ResolvedTask:
    """Return the task as a worker would submit it."""
    index = 0 if isinstance(task, MappedOperator) else -1
    instance = Pulling(id="ti", dag_id="unit", task_id="train", run_id="r1", map_index=index, try_number=1, given=given)
    run = SimpleNamespace(dag_id="unit", run_id="r1", conf={}, given=given)
    context: Any = {
        "ti": instance, "dag": task.dag, "dag_run": run, "task": task, "params": {}, "expanded_ti_count": None,
    }  # fmt: skip
    task.render_template_fields(context)
    return order_of(context["task"], context, Carried(prefix="")).task


def as_rendered(field: str, value: Any) -> Any:
    """Return what templates for the scalars inside give where Airflow renders to text, and the form reads."""
    typed = "kubernetes.tolerations."
    return inside(value, field, lambda path, each: each if path.startswith(typed) else str(each))


def looks_like_a_literal(value: Any) -> bool:
    """Say whether native rendering takes a text for something else, as Jinja does."""
    try:
        return isinstance(value, str) and not isinstance(ast.literal_eval(value), str)
    except (ValueError, SyntaxError):
        return False


@pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
@pytest.mark.parametrize("parts", [False, True], ids=["whole", "parts"])
@pytest.mark.parametrize("give", [template, output])
@pytest.mark.parametrize(("kind", "field"), CASES)
def test_field_arrives_in_the_submitted_form(kind: str, field: str, give: Give, parts: bool, native: bool) -> None:
    operator, model = OPERATORS[kind]
    whole = whole_form(kind)
    form = {name: whole[name] for name in {*NEEDED, field}}
    given = {field: form[field]}
    inside(form[field], field, lambda path, value: given.setdefault(task_id_of(path), value))
    expected = as_rendered(field, form[field]) if parts and give is template and not native else form[field]
    for make in WAYS:
        dag = DAG("unit", schedule=None, render_template_as_native_obj=native)

        def part(path: str, value: Any, dag: DAG = dag) -> Any:
            return value if native and give is template and looks_like_a_literal(value) else give(path, dag)

        own = {**form, field: inside(form[field], field, part) if parts else give(field, dag)}
        resolved = submitted(make(operator, dag, own, field), given)
        wanted = model.model_validate({**form, field: expected})
        assert getattr(resolved.task, field) == getattr(wanted, field), make
        hidden = {name: value.reveal() for name, value in resolved.hidden.items()}
        assert hidden == ({"TOKEN": "not-for-eyes"} if field == "env" else {})


PUSHED: dict[str, Any] = {
    "command": "echo '{{ no template }}' {% nor this %}",
    "env": {"A": "{{ no template }}", "TOKEN": {"value": "not-for-eyes {{ either }}", "hidden": True}},
    "volumes": [{"name": "team-data", "mount_path": "/volume/{{ data }}"}],
}


def pulled(operator: type[Any], dag: DAG, form: dict[str, Any], field: str) -> Task:
    return plain(operator, dag, {**form, field: output("one", dag)}, field)


def mapped_over_pulled_values(operator: type[Any], dag: DAG, form: dict[str, Any], field: str) -> Task:
    made: MappedOperator = rest_of(operator, dag, form, field).expand(**{field: output("all", dag)})
    return made


@pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
@pytest.mark.parametrize("make", [pulled, mapped_over_pulled_values])
@pytest.mark.parametrize("field", PUSHED)
def test_what_another_task_pushed_is_data_and_no_template(field: str, make: Make, native: bool) -> None:
    whole, value = whole_form("PyTorchJob"), PUSHED[field]
    form = {name: whole[name] for name in NEEDED}
    dag = DAG("unit", schedule=None, render_template_as_native_obj=native)
    given = {"one": value, "all": [value]}
    task = make(PyTorchJobOperator, dag, form, field)
    resolved = submitted(task, given)
    assert getattr(resolved.task, field) == getattr(PyTorchJob.model_validate({**form, field: value}), field)


@pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
def test_sequences_that_airflow_makes_of_outputs_are_lists(native: bool) -> None:
    whole = whole_form("PyTorchJob")
    form = {name: whole[name] for name in NEEDED}
    dag = DAG("unit", schedule=None, render_template_as_native_obj=native)
    own = {
        **form,
        "volumes": output("volumes", dag).map(lambda each: each),
        "compute": {**form["compute"], "nodes": {"only": output("nodes", dag).concat(output("more", dag))}},
    }
    given = {"volumes": whole["volumes"], "nodes": ["node-1"], "more": ["node-2"]}
    task = submitted(plain(PyTorchJobOperator, dag, own, "volumes"), given).task
    wanted = PyTorchJob.model_validate({**form, "volumes": whole["volumes"]})
    assert task.volumes == wanted.volumes
    assert task.compute.nodes is not None
    assert task.compute.nodes.only == ("node-1", "node-2")


def env_of_text(dag: DAG, env: str) -> BaseOperator:
    return PyTorchJobOperator(task_id="train", dag=dag, image="a/b:1", command="true", compute=IN_PLACE, env=env)


def env_in_a_spec(dag: DAG, env: str) -> BaseOperator:
    form = {"image": "a/b:1", "command": "true", "compute": IN_PLACE, "env": env}
    return PyTorchJobOperator(task_id="train", dag=dag, spec=form)


def env_of_a_sensors_task(dag: DAG, env: str) -> BaseOperator:
    form = {"kind": "PyTorchJob", "image": "a/b:1", "command": "true", "compute": IN_PLACE, "env": env}
    return QuotaSensor(task_id="train", dag=dag, task=form)


@pytest.mark.parametrize("make", [env_of_text, env_in_a_spec, env_of_a_sensors_task])
def test_hidden_values_in_the_text_that_a_template_gives_are_in_no_rendered_field(
    make: Callable[[DAG, str], BaseOperator],
) -> None:
    task = make(DAG("unit", schedule=None), "{{ given }}")
    task.render_template_fields({"given": PUSHED["env"]})  # type: ignore[typeddict-unknown-key]
    shown = repr({name: getattr(task, name) for name in task.template_fields})
    assert "'A': '{{ no template }}'" in shown
    assert "not-for-eyes" not in shown
