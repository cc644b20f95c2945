"""`render FILE` shows a form that Airflow has not rendered yet: a template is left as it is, wherever it stands."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from siflow_provider.errors import SpecError
from siflow_provider.spec.base import Template
from siflow_provider.spec.compute import OnDemand
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.policy import Monitoring
from siflow_provider.spec.ray import Autoscaling, Debug, Head, RaySection
from tests.golden.manifests import FORMS, rendered_form, written
from tests.unit.backends.kubernetes.tasks import CPU, container, document, job, pods, pytorch, ray, rendered

N: Any = Template("{{ params.n }}")
MODE: Any = Template("{{ params.mode }}")
WHOLE: Any = Template("{{ params.env }}")


def test_number_of_workers_that_is_not_known_yet_still_has_its_worker_key() -> None:
    replicas = job(rendered(pytorch(workers=N)))["spec"]["pytorchReplicaSpecs"]
    assert replicas["Worker"]["replicas"] == N


def test_ray_workers_that_are_not_known_yet_still_have_their_group() -> None:
    group = job(rendered(ray(workers=N)))["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
    assert [group[key] for key in ("replicas", "minReplicas", "maxReplicas")] == [N, N, N]


def test_units_that_are_not_known_yet_are_shown_beside_the_amounts() -> None:
    compute = OnDemand.model_construct(None, type="on_demand", instances=("gpu.8",), units_per_replica=N)
    manifest = rendered(pytorch(compute=compute))
    assert container(manifest, "master")["resources"]["limits"] == {
        "cpu": "96 x {{ params.n }}",
        "memory": "960Gi x {{ params.n }}",
        "nvidia.com/gpu": "8 x {{ params.n }}",
    }
    shm = next(volume for volume in pods(manifest)["master"]["spec"]["volumes"] if volume["name"] == "shm")
    assert shm["emptyDir"]["sizeLimit"] == "480Gi x {{ params.n }}"


def test_head_whose_units_are_not_known_yet_shows_them() -> None:
    section = RaySection(head=Head.model_construct(None, instance="cpu.16", units=N))
    manifest = rendered(ray(section), head=CPU)
    assert container(manifest, "head")["resources"]["limits"]["cpu"] == "16 x {{ params.n }}"


def test_texts_and_numbers_keep_their_templates() -> None:
    form = pytorch(
        name_prefix="train-{{ ds_nodash }}",
        image="registry.example/a:{{ params.tag }}",
        labels={"team": "{{ params.team }}"},
        visible_in_group=Template("{{ params.shared }}"),
        shm_size=Template("{{ params.shm }}"),
        monitoring=Monitoring.model_construct(None, port=N, path="/metrics"),
        command="echo {{ ds }} {% raw %}$X{% endraw %}",
    )
    manifest = rendered(form, env={"LR": "{{ params.lr }}"}, hidden={"TOKEN": Hidden("{{ conn.hf.password }}")})
    text = json.dumps(manifest.documents)
    assert manifest.name.startswith("train-{{ ds_nodash }}-")
    assert job(manifest)["metadata"]["labels"]["team"] == "{{ params.team }}"
    assert job(manifest)["metadata"]["labels"]["siflow-provider/visible-in-group"] == "{{ params.shared }}"
    assert container(manifest, "master")["image"] == "registry.example/a:{{ params.tag }}"
    assert container(manifest, "master")["ports"][0]["containerPort"] == N
    assert container(manifest, "master")["args"][-1] == form.command
    assert "{{ params.lr }}" in text
    assert "{{ params.shm }}" in text
    assert "conn.hf.password" not in text


def test_ray_numbers_keep_their_templates() -> None:
    section = RaySection(
        debug=Debug.model_construct(None, keep_seconds=N),
        autoscaling=Autoscaling.model_construct(
            None, min_workers=N, max_workers=N, idle_timeout=N, upscaling_mode=MODE
        ),
        runtime_env={"env_vars": {"A": "{{ params.a }} $X"}},
    )
    spec = job(rendered(ray(section, workers=N)))["spec"]
    assert spec["ttlSecondsAfterFinished"] == N
    assert spec["rayClusterSpec"]["autoscalerOptions"] == {
        "idleTimeoutSeconds": N,
        "upscalingMode": "{{ params.mode }}",
    }
    assert "{{ params.a }} ${SIFLOW_DOLLAR}X" in spec["runtimeEnvYAML"]


def test_runtime_env_that_is_one_template_stands_as_it_is() -> None:
    section = RaySection.model_construct(
        None, runtime_env=WHOLE, head=None, shared_storage=None, debug=None, autoscaling=None
    )
    assert job(rendered(ray(section)))["spec"]["runtimeEnvYAML"] == "{{ params.env }}"


def test_switch_that_is_a_template_is_drawn_as_on() -> None:
    manifest = rendered(pytorch(ssh=Template("{{ params.ssh }}"), workers=N))
    data = document(manifest, "ConfigMap")["data"]
    assert data["hostfile"].splitlines() == [
        f"{manifest.name}-master-0 slots=8",
        f"# {{{{ params.n }}}} workers: {manifest.name}-worker-0 and so on",
    ]


def _leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, item in items:
        yield from _leaves(item, (*path, key))
    if path:
        yield path


def _with(node: Any, path: tuple[Any, ...], value: str) -> Any:
    changed = copy.deepcopy(node)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


@pytest.mark.parametrize("name", ["everything-pytorch", "everything-ray", "minimal-ray"])
def test_template_in_any_place_of_a_form_is_shown_or_named(name: str) -> None:
    form = next(form for form in FORMS if form.stem == name)
    data = yaml.safe_load(form.read_text(encoding="utf-8"))
    places = [path for path in _leaves(data) if path[0] != "kind" and path[-1] != "hidden"]
    assert len(places) > 5
    for path in places:
        assert _shown_or_named(form, _with(data, path, "{{ params.x }}")), path


def _shown_or_named(form: Path, data: dict[str, Any]) -> bool:
    try:
        return "kind: " in written(rendered_form(form, data))
    except SpecError as error:
        return all("whole section" in problem.message and problem.path for problem in error.problems)


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("image", "registry.example/a:{{ params.tag }}", "image: registry.example/a:{{ params.tag }}"),
        ("workers", "{{ params.n }}", "replicas: '{{ params.n }}'"),
        ("command", "echo {{ ds }}", "- echo {{ ds }}"),
        ("volumes", [{"name": "pvc:{{ params.v }}", "mount_path": "/mnt/v"}], "claimName: pvc:{{ params.v }}"),
    ],
)
def test_template_of_a_file_is_found_again_in_what_is_shown(field: str, value: Any, shown: str) -> None:
    form = next(form for form in FORMS if form.stem == "minimal-pytorch")
    data = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert shown in written(rendered_form(form, {**data, field: value}))


def test_amounts_in_place_keep_their_templates() -> None:
    form = next(form for form in FORMS if form.stem == "minimal-pytorch")
    data = yaml.safe_load(form.read_text(encoding="utf-8"))
    data["compute"] = {
        "type": "on_demand",
        "instances": [{"cpu": "{{ params.cpu }}", "memory": "16Gi", "gpu": "{{ params.gpu }}"}],
        "units_per_replica": 2,
    }
    documents = rendered_form(form, data).documents
    size = documents[0]["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["resources"]
    assert size["limits"] == {
        "memory": "32Gi",
        "cpu": "{{ params.cpu }} x 2",
        "nvidia.com/gpu": "{{ params.gpu }} x 2",
    }
