"""The catalog: every key is known, every wrong one is named, every reference leads somewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from siflow_provider.errors import SpecError
from siflow_provider.spec import Catalog, load_catalog
from tests.unit.spec.forms import CATALOG, changed


def problems(changes: dict[Any, Any]) -> dict[str, str]:
    with pytest.raises(SpecError) as caught:
        load_catalog(changed(CATALOG, changes))
    assert caught.value.source == "catalog"
    return {problem.path: problem.message for problem in caught.value.problems}


def test_catalog_is_read_from_file_text_and_mapping(tmp_path: Path) -> None:
    file = tmp_path / "catalog.yaml"
    file.write_text(yaml.safe_dump(CATALOG))
    assert load_catalog(file) == load_catalog(str(file)) == load_catalog(file.read_text()) == load_catalog(CATALOG)


def test_empty_catalog_checks_nothing() -> None:
    assert load_catalog({}) == Catalog()
    assert load_catalog({"clusters": None, "volumes": None}) == Catalog()


def test_file_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    file = tmp_path / "catalog.yaml"
    file.write_text(yaml.safe_dump(CATALOG))
    first = load_catalog(file)
    assert load_catalog(file) is first
    file.write_text(yaml.safe_dump(changed(CATALOG, {"identity.org": "other-org"})))
    os.utime(file, ns=(1, 1))
    assert load_catalog(file).identity.org == "other-org"


WRONG: list[tuple[dict[Any, Any], str, str]] = [
    ({"volums": {}}, "volums", "did you mean 'volumes'?"),
    ({"clusters.0.contxt": "x"}, "clusters[0].contxt", "did you mean 'context'?"),
    ({"clusters.0": {"region": "cn-east"}}, "clusters[0].cluster", "is required"),
    ({"clusters.1.cluster": "alpha"}, "clusters[1]", "listed twice"),
    ({"defaults.region": "cn-eats"}, "defaults.region", "did you mean 'cn-east'?"),
    ({"defaults.cluster": "alhpa"}, "defaults.cluster", "did you mean 'alpha'?"),
    ({"defaults.region": "cn-west"}, "defaults.cluster", "not in the region 'cn-west'"),
    ({"defaults.project_group": "npl"}, "defaults.project_group", "did you mean 'nlp'?"),
    ({"defaults.timezone": "Shanghai"}, "defaults.timezone", "did you mean"),
    ({"defaults.image_pull_retries": -2}, "defaults.image_pull_retries", "at least -1"),
    ({"default_queue": "other"}, "default_queue", "defaults.default_queue"),
    ({"project_groups.nlp.namespace": "Team NLP"}, "project_groups.nlp.namespace", "no name of a Kubernetes object"),
    ({("instances", "cpu.16", "resources"): {"cpu": "x"}}, "instances.cpu.16.resources.cpu", "not a quantity"),
    ({("instances", "gpu.h100-8", "accelerator"): "cpu"}, "instances.gpu.h100-8.accelerator", "write gpu"),
    ({("instances", "cpu.16", "accelerator"): "tpu"}, "instances.cpu.16.accelerator", "is none of gpu, cpu"),
    ({("instances", "cpu.16", "node_selector"): {"-": "x"}}, "instances.cpu.16.node_selector.-", "label key"),
    (
        {("instances", "cpu.16", "tolerations"): [{"effect": "No"}]},
        "instances.cpu.16.tolerations[0].effect",
        "NoSchedule",
    ),
    ({("instances", "cpu.16", "regions"): ["north"]}, "instances.cpu.16.regions[0]", "is no region"),
    ({"queues.0.instance": "gpu.h100-9"}, "queues[0].instance", "did you mean 'gpu.h100-8'?"),
    ({"queues.1.project_groups": ["visio"]}, "queues[1].project_groups[0]", "did you mean 'vision'?"),
    ({"queues.9.clusters": ["bta"]}, "queues[9].clusters[0]", "did you mean 'beta'?"),
    ({"queues.0.type": "reservd"}, "queues[0].type", "did you mean 'reserved'?"),
    ({"queues.0.pool": None}, "queues[0].pool", "is required for type reserved"),
    ({"queues.3.pool": "shared"}, "queues[3].pool", "can't match a task of type on_demand"),
    ({"queues.3.accept_idle": True}, "queues[3].accept_idle", "can't match a task of type on_demand"),
    ({"queues.0.guarantee": True}, "queues[0].guarantee", "can't match a task of type reserved"),
    ({"queues.0.prefer_idle": True}, "queues[0].prefer_idle", "needs accept_idle"),
    ({"queues.8.stability": ["lowest"]}, "queues[8].stability[0]", "did you mean 'low'?"),
    ({"queues.0.queue": "Not A Name"}, "queues[0].queue", "no name of a Kubernetes object"),
    ({"priorities": {"urgent": "x"}}, "priorities.urgent", "is none of high, medium, low"),
    ({"images.preset.ray.versions": {"1": "http://x/y"}}, "images.preset.ray.versions.1", "scheme"),
    ({"images.preset.ray.versions": {}}, "images.preset.ray.versions", "must not be empty"),
    (
        {"images.custom.nlp-train.project_groups": ["x"]},
        "images.custom.nlp-train.project_groups[0]",
        "no project group",
    ),
    ({"volumes.scratch.sub_path": "a/{usr}"}, "volumes.scratch.sub_path", "{user}"),
    ({"volumes.scratch.sub_path": "../a"}, "volumes.scratch.sub_path", "without '..'"),
    ({"volumes.scratch.access": "ReadWrite"}, "volumes.scratch.access", "ReadWriteOnce"),
    ({"volumes.scratch": {}}, "volumes.scratch", "names no place"),
    ({"datasets.imagenet.versions": {"2012": {}}}, "datasets.imagenet.versions.2012", "names no place"),
    ({"datasets.imagenet.pvc": "x"}, "datasets.imagenet", "stand in each version"),
    ({"datasets.corpus.default_version": "3"}, "datasets.corpus.default_version", "is no version"),
    ({"labels.required": ["-"]}, "labels.required[0]", "label key"),
    ({"labels.allowed": {"team": []}}, "labels.allowed.team", "must not be empty"),
    ({"persistent_env.0.env": {"RANK": "1"}}, "persistent_env[0].env.RANK", "set by the platform"),
    ({"persistent_env.0.env": {"A": None}}, "persistent_env[0].env.A", "null is no value"),
    ({"alerts.channels.x": {"conn": "y"}}, "alerts.channels.x.conn", "unknown key"),
]


@pytest.mark.parametrize(("changes", "path", "part"), WRONG, ids=[row[1] for row in WRONG])
def test_wrong_catalog_names_the_entry_and_the_rule(changes: dict[Any, Any], path: str, part: str) -> None:
    found = problems(changes)
    assert path in found
    assert part in found[path]


def test_all_problems_of_a_catalog_are_told_at_once() -> None:
    found = problems(
        {"volums": {}, "queues.1.project_groups": ["visio"], ("instances", "cpu.16", "resources"): {"cpu": "x"}}
    )
    assert set(found) == {"volums", "queues[1].project_groups[0]", "instances.cpu.16.resources.cpu"}


def test_problem_of_a_file_names_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "catalog.yaml"
    file.write_text("identity: {org: a}\nvolumes:\n  data:\n    pcv: x\n    pvc: y\n")
    with pytest.raises(SpecError) as caught:
        load_catalog(file)
    [problem] = caught.value.problems
    assert (problem.path, problem.line, problem.column) == ("volumes.data.pcv", 4, 5)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("source", ["- a", "", 5, "none.yaml"], ids=str)
def test_what_is_no_catalog_is_a_spec_error(source: Any) -> None:
    with pytest.raises(SpecError):
        load_catalog(source)


def test_hidden_persistent_env_is_shown_nowhere() -> None:
    catalog = load_catalog(CATALOG)
    assert "anns-own-token" not in repr(catalog)
    assert "anns-own-token" not in catalog.model_dump_json()


def test_instance_of_nodes_with_a_label_without_a_value_is_taken() -> None:
    label = {"node-role.kubernetes.io/gpu": ""}
    catalog = load_catalog(changed(CATALOG, {("instances", "cpu.16", "node_selector"): label}))
    assert catalog.instances["cpu.16"].node_selector == label
