"""Manifests become forms: what a form holds is carried, everything else is named."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from siflow_provider.backends.kubernetes.importing import Imported, import_manifest
from siflow_provider.backends.kubernetes.rendering import render, unsupported
from siflow_provider.errors import SiflowError, UsageError
from siflow_provider.spec.reading import check, load
from siflow_provider.spec.resolve import resolve
from siflow_provider.spec.writing import dump, to_data
from tests.drawing import examples
from tests.golden.crds import faults
from tests.golden.manifests import CONTEXT, FORMS, rendered
from tests.unit.backends.kubernetes.imports import NO_CATALOG, form_of, imported, notes_of, pytorch
from tests.unit.backends.kubernetes.manifests import ELASTIC, PYTORCH, RAY, RAY_SCALED
from tests.unit.backends.kubernetes.tasks import context
from tests.unit.backends.kubernetes.test_any_form import without_catalog
from tests.unit.spec.strategies import forms


@pytest.mark.parametrize("form", NO_CATALOG, ids=lambda path: path.stem)
def test_a_manifest_of_ours_comes_back_as_the_form_that_renders_the_same(form: Path) -> None:
    documents = list(rendered(form).documents)
    (job,), beside = import_manifest(documents)
    again = load(dump(job.task, reveal=True), templates=True)
    assert list(render(resolve(again, user="user", templates=True), CONTEXT).documents) == documents
    assert beside == ()
    hidden = {note.path for note in job.notes}
    assert all(".env[" in path for path in hidden)


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_every_golden_manifest_gives_a_form_that_passes_our_check(form: Path) -> None:
    job = imported(*rendered(form).documents)
    assert job.task.command == load(form, templates=True).command


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(forms)
def test_any_form_without_a_catalog_survives_rendering_and_import(form: dict[str, Any]) -> None:
    task = resolve(load({**without_catalog(form), "kubernetes": {}}), user="ada")
    assume(not unsupported(task))
    documents = list(render(task, context()).documents)
    job = imported(*documents)
    assert list(render(resolve(job.task, user="ada", templates=True), context()).documents) == documents


@pytest.mark.parametrize(
    "documents", [[PYTORCH], ELASTIC, RAY, [RAY_SCALED]], ids=["whole", "elastic", "ray", "scaled"]
)
def test_an_imported_form_renders_to_what_the_crds_know(documents: list[Any]) -> None:
    text = re.sub(r"\{\{ params\.\w*memory \}\}", "4Gi", dump(imported(*documents).task, reveal=True))
    manifest = render(resolve(load(text), user="ada"), context())
    assert faults(manifest.documents[0]) == []


@pytest.mark.parametrize(
    "documents", [[PYTORCH], ELASTIC, RAY, [RAY_SCALED]], ids=["whole", "elastic", "ray", "scaled"]
)
def test_no_field_of_a_manifest_is_lost_in_silence(documents: list[Any]) -> None:
    silent = []
    for path in _mappings(documents[0]):
        changed = json.loads(json.dumps(documents))
        node = changed[0]
        for part in path:
            node = node[part]
        if "volumeMounts" in path and node["name"] in ("settings", "code"):
            continue  # their volumes are told, and with them all that mounts them
        node["unheardOf"] = "x"
        job = imported(*changed)
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in (*path, "unheardOf"))[1:]
        told = any(place == note.path or place.startswith((f"{note.path}.", f"{note.path}[")) for note in job.notes)
        if not told and "unheardOf" not in dump(job.task, reveal=True):
            silent.append(place)
    assert silent == []


def _mappings(node: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(node, dict):
        yield path
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, item in items:
        yield from _mappings(item, (*path, key))


def test_an_elastic_job_without_master_says_each_thing_it_loses() -> None:
    form, notes = form_of(*ELASTIC), notes_of(*ELASTIC)
    worker = "spec.pytorchReplicaSpecs.Worker.template.spec"
    assert form["workers"] == 2
    assert form["command"].startswith("export PET_NPROC_PER_NODE=2\npython -m torch.distributed.run")
    assert form["kubernetes"]["patch"]["spec"] == {
        "runPolicy": {"ttlSecondsAfterFinished": 60},
        "pytorchReplicaSpecs": {
            role: {"template": {"spec": {"hostNetwork": True, "priorityClassName": "high"}}}
            for role in ("Master", "Worker")
        },
    }
    assert form["env"] == {"LEVEL": "debug", "COPY": "debug!"}
    assert set(notes) == {
        "metadata.namespace",
        "metadata.labels.kueue.x-k8s.io/queue-name",
        "spec.elasticPolicy",
        "spec.nprocPerNode",
        "spec.runPolicy.backoffLimit",
        "spec.runPolicy.activeDeadlineSeconds",
        "spec.pytorchReplicaSpecs.Master",
        "spec.pytorchReplicaSpecs.Worker.restartPolicy",
        f"{worker}.initContainers[0]",
        f"{worker}.containers[0]",
        f"{worker}.containers[1].imagePullPolicy",
        f"{worker}.containers[1].env[1]",
        f"{worker}.containers[1].env[3]",
        f"{worker}.containers[1].resources.requests.cpu",
        f"{worker}.containers[1].resources.limits.memory",
        f"{worker}.containers[1].resources.limits.rdma/hca",
        f"{worker}.containers[1].volumeMounts[2]",
        f"{worker}.volumes[1].persistentVolumeClaim",
        f"{worker}.volumes[2].configMap",
        f"{worker}.volumes[3].nfs",
    }


def test_a_common_pytorchjob_is_carried_whole() -> None:
    job = imported(PYTORCH)
    assert job.notes == ()
    assert to_data(job.task) == {
        "kind": "PyTorchJob",
        "name_prefix": "bert",
        "labels": {"team": "nlp"},
        "image": "registry.example/bert:1",
        "env": {"NCCL_DEBUG": "INFO"},
        "volumes": [
            {"name": "pvc:data", "mount_path": "/mnt/data", "read_only": True},
            {"name": "pvc:data", "mount_path": "/mnt/out", "sub_path": "out"},
        ],
        "command": "torchrun train.py --epochs 3",
        "shm_size": "8Gi",
        "compute": {
            "type": "on_demand",
            "instances": [{"cpu": "8", "memory": "64Gi", "gpu": 4}],
            "nodes": {"only": ["node-1"], "exclude": ["node-2"]},
        },
        "workers": 3,
        "monitoring": {"port": 9090},
        "kubernetes": {
            "service_account": "trainer",
            "image_pull_secrets": ["registry"],
            "node_selector": {"disk": "ssd"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "annotations": {"sidecar.istio.io/inject": "false"},
        },
    }


def test_master_and_worker_that_differ_are_said() -> None:
    path = "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0]"
    notes = notes_of(
        pytorch(
            command=["a"],
            env=[{"name": "X", "value": "1"}, {"name": "M", "value": "1"}],
            worker={"command": ["b"], "env": [{"name": "X", "value": "2"}, {"name": "W", "value": "1"}]},
        )
    )
    assert set(notes) == {
        f"{path}.command",
        f"{path}.env[0]",
        f"{path}.env[1]",
        "spec.pytorchReplicaSpecs.Master.template.spec.containers[0].env[1]",
    }


def test_what_our_check_refuses_is_left_out_with_the_path_in_the_manifest() -> None:
    mounts = [{"name": "d", "mountPath": "/etc/d"}, {"name": "d", "mountPath": "/mnt/d"}]
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]
    manifest = pytorch(env=[{"name": "RANK", "value": "0"}], volumeMounts=mounts, image="a/<yours>", volumes=volumes)
    form, notes = form_of(manifest), notes_of(manifest)
    path = "spec.pytorchReplicaSpecs.Master.template.spec.containers[0]"
    assert set(notes) == {f"{path}.env[0]", f"{path}.volumeMounts[0]", f"{path}.image"}
    assert form["volumes"] == [{"name": "pvc:d", "mount_path": "/mnt/d"}]
    assert form["image"] == "{{ params.image }}"
    assert not form.get("env")


def test_a_rayjob_of_the_fields_samples_is_carried_with_its_runtime_env() -> None:
    form, notes = form_of(*RAY), notes_of(*RAY)
    cluster = "spec.rayClusterSpec"
    assert form["ray"] == {
        "head": {"instance": {"cpu": "1", "memory": "{{ params.head_memory }}"}},
        "runtime_env": {"pip": ["requests==2.32.3"], "env_vars": {"counter_name": "test"}},
    }
    assert (form["command"], form["workers"], form["image"]) == ("python /code/main.py", 1, "registry.example/ray:2.52")
    assert form["kubernetes"]["patch"] == {"spec": {"rayClusterSpec": {"rayVersion": "2.52.0"}}}
    assert set(notes) == {
        "spec.shutdownAfterJobFinishes",
        f"{cluster}.headGroupSpec.template.spec.containers[0].resources.requests.cpu",
        f"{cluster}.headGroupSpec.template.spec.containers[0].resources.limits.memory",
        f"{cluster}.headGroupSpec.template.spec.volumes[0].configMap",
        f"{cluster}.workerGroupSpecs[0].groupName",
        f"{cluster}.workerGroupSpecs[0].maxReplicas",
        f"{cluster}.workerGroupSpecs[0].template.spec.containers[0].lifecycle",
    }
    _, beside = import_manifest(RAY)
    assert [note.path for note in beside] == ["ConfigMap/code"]


def test_an_autoscaled_rayjob_keeps_bounds_debug_time_and_says_the_other_groups() -> None:
    form, notes = form_of(RAY_SCALED), notes_of(RAY_SCALED)
    assert form["name_prefix"] == "tune"
    assert form["ray"] == {
        "runtime_env": {"env_vars": {"A": "1"}},
        "debug": {"keep_seconds": "1m"},
        "autoscaling": {"min_workers": 1, "max_workers": 5, "idle_timeout": "30s", "upscaling_mode": "conservative"},
    }
    assert form["kubernetes"]["patch"]["spec"] == {
        "entrypointNumCpus": 1,
        "rayClusterSpec": {"headGroupSpec": {"rayStartParams": {"num-cpus": "0"}}},
    }
    assert set(notes) == {
        "spec.submissionMode",
        "spec.submitterPodTemplate",
        "spec.activeDeadlineSeconds",
        "spec.rayClusterSpec.headGroupSpec.serviceType",
        "spec.rayClusterSpec.workerGroupSpecs[0].groupName",
        "spec.rayClusterSpec.workerGroupSpecs[0].rayStartParams.num-cpus",
        "spec.rayClusterSpec.workerGroupSpecs[1]",
    }


def test_a_list_as_kubectl_prints_it_is_read_and_what_the_cluster_wrote_is_not_said() -> None:
    job = json.loads(json.dumps(PYTORCH))
    job["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": 1, "creationTimestamp": "2026-01-01"}
    job["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    job["status"] = {"conditions": []}
    assert to_data(imported({"kind": "List", "items": [job]}).task) == to_data(imported(PYTORCH).task)
    assert notes_of({"kind": "List", "items": [job]}) == {}


def test_a_file_without_a_job_says_what_it_holds() -> None:
    with pytest.raises(UsageError, match="Deployment, Service"):
        import_manifest([{"kind": "Service"}, None, {"kind": "Deployment"}])
    with pytest.raises(UsageError, match="no Kubernetes object"):
        import_manifest([None])


def test_our_ray_manifest_without_its_files_says_that_the_command_is_missing() -> None:
    form = next(form for form in FORMS if form.stem == "minimal-ray")
    assert "ConfigMap" in notes_of(rendered(form).documents[0])["spec.entrypoint"]


junk = st.sampled_from([None, 7, True, "text", "", [], {}, [None], [1], {"a": 1}, [{"name": 1}], "{{ x }}", -1, 1.5])


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_damaged_manifest_gives_a_form_or_an_error_and_never_a_traceback(data: st.DataObject) -> None:
    ours = [list(rendered(form).documents) for form in NO_CATALOG]
    documents = json.loads(
        json.dumps(data.draw(st.sampled_from([[PYTORCH], list(ELASTIC), [*RAY], [RAY_SCALED], *ours])))
    )
    for _ in range(data.draw(st.integers(1, 3))):
        node: Any = documents[0]
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            key = data.draw(st.sampled_from(keys))
            if not (isinstance(node[key], dict | list) and node[key]) or data.draw(st.integers(0, 5)) == 0:
                node[key] = deepcopy(data.draw(junk))
                break
            node = node[key]
        if not isinstance(documents[0], dict) or not documents[0]:
            break
    jobs: list[Imported] = []
    with contextlib.suppress(SiflowError):
        jobs, _ = import_manifest(documents)
    for job in jobs:
        assert check(yaml.safe_load(dump(job.task, reveal=True)), templates=True).errors == ()
