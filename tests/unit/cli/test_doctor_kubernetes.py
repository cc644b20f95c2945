"""What `doctor` says of a cluster: the rights as one table, what is served, what the catalog names."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml

from siflow_provider.backends.kubernetes.checkup.named import compare, wanted_of
from siflow_provider.backends.kubernetes.checkup.rights import rights_checks
from siflow_provider.backends.kubernetes.checkup.rules import RULES, Reach, rules_for
from siflow_provider.backends.kubernetes.checkup.served import served_checks
from siflow_provider.backends.kubernetes.cluster.errors import error_of
from siflow_provider.backends.kubernetes.cluster.features import Features
from siflow_provider.backends.kubernetes.cluster.rights import rule_text
from siflow_provider.spec.catalog import load_catalog
from tests.integration.logins import RBAC, reach_of, rule_data
from tests.unit.cli.conftest import Command

BARE = Features(kueue=False, pytorchjob=False, rayjob=False, trainjob=False, podmonitor=False)
FULL = Features(kueue=True, pytorchjob=True, rayjob=True, trainjob=False, podmonitor=True)
CATALOG = """
clusters:
  - {region: north, cluster: big, namespace: ml}
  - {region: south, cluster: small, context: south}
project_groups: {vision: {namespace: vision}, speech: {}}
instances: {gpu: {resources: {cpu: 8, memory: 64Gi, nvidia.com/gpu: 1}}}
queues:
  - {type: on_demand, instance: gpu, queue: vision-gpu, project_groups: [vision], clusters: [big]}
  - {type: spot, instance: gpu, queue: spot-gpu}
priorities: {high: urgent}
volumes: {data: {pvc: shared-data}}
datasets: {words: {versions: {"1": {pvc: words-1}}, project_groups: [speech]}}
"""


def item(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **more}


def test_the_file_gives_just_the_rights_that_are_asked_for() -> None:
    found: dict[Reach, list[Any]] = {}
    for document in yaml.safe_load_all(RBAC.read_text(encoding="utf-8")):
        if "rules" in document:
            found[reach_of(document)] = document["rules"]
    assert found == {reach: [rule_data(rule) for rule in RULES if rule.reach is reach] for reach in Reach}


def test_the_file_says_what_is_lost_without_each_optional_rule() -> None:
    lines = [line.strip() for line in RBAC.read_text(encoding="utf-8").splitlines()]
    for rule in RULES:
        text = rule_text(rule.group, rule.resource, rule.verbs, rule.names)
        before = lines[lines.index(text) - 1]
        assert before == (f"# optional; without it {rule.lost}" if rule.lost else f"# {rule.use}")


def test_only_rights_of_kinds_that_are_there_are_asked_for() -> None:
    assert {rule.group for rule in rules_for(BARE)} == {""}
    assert rules_for(FULL) == tuple(rule for rule in RULES if rule.feature != "trainjob")


def test_only_rights_of_the_training_api_that_is_used_are_asked_for() -> None:
    both = replace(FULL, trainjob=True)
    trains = tuple(rule for rule in RULES if rule.feature != "pytorchjob")
    assert rules_for(both) == rules_for(FULL)
    assert rules_for(both, "trainjob") == trains
    assert rules_for(replace(FULL, trainjob=True, pytorchjob=False)) == trains


def test_a_missing_right_comes_with_the_yaml_to_add() -> None:
    rule = next(rule for rule in RULES if rule.resource == "pytorchjobs")
    (check,) = rights_checks({rule: {"ml": ("create", "patch"), "vision": ("create", "patch")}})
    assert not check.ok
    assert check.needed
    assert check.found.startswith("may not create, patch in ml; may not create, patch in vision")
    assert check.mend == (
        "add to the rules of the Role siflow-provider in ml, vision: "
        '- {apiGroups: ["kubeflow.org"], resources: ["pytorchjobs"], verbs: ["create", "patch"]}'
    )


def test_a_right_of_the_whole_cluster_goes_to_the_cluster_role() -> None:
    rule = next(rule for rule in RULES if rule.resource == "nodes")
    (check,) = rights_checks({rule: {"": ("list",)}})
    assert "the ClusterRole siflow-provider" in check.mend
    assert not check.needed


@pytest.mark.parametrize(
    ("place", "role"),
    [(' in the namespace "ml"', "a Role in namespace ml"), (" at the cluster scope", "a ClusterRole")],
)
def test_a_refusal_names_the_rule_to_add(place: str, role: str) -> None:
    said = f'pods "a" is forbidden: User "u" cannot get resource "pods/log" in API group ""{place}'
    error = error_of("GET", "/x", 403, json.dumps({"kind": "Status", "reason": "Forbidden", "message": said}))
    rule = '`- {apiGroups: [""], resources: ["pods/log"], verbs: ["get"]}`'
    assert error.hint.startswith(f"Add {rule} to the rules of {role} ")


def test_a_cluster_without_any_kind_of_job_is_a_fault_and_says_what_to_install() -> None:
    checks = {check.name: check for check in served_checks(BARE)}
    for kind, program in (("PyTorchJob", "training operator"), ("RayJob", "KubeRay")):
        check = checks[f"kind {kind}"]
        assert (check.ok, check.needed) == (False, True)
        assert kind in check.found
        assert f"install {'the Kubeflow ' if kind == 'PyTorchJob' else ''}{program}" in check.mend


def test_kubeflow_trainer_stands_in_for_the_training_operator() -> None:
    checks = {check.name: check for check in served_checks(replace(BARE, trainjob=True))}
    assert checks["kind TrainJob"].ok
    assert "kind PyTorchJob" not in checks
    (missing,) = [each for each in served_checks(FULL, "trainjob") if each.name == "kind TrainJob"]
    assert "install Kubeflow Trainer" in missing.mend


def test_a_cluster_without_queues_starts_jobs_at_once() -> None:
    (check,) = [check for check in served_checks(BARE) if check.name == "kind Workload"]
    assert "jobs start at once" in check.found
    assert not check.needed


def test_an_older_version_of_a_kind_is_named() -> None:
    old = Features(**{**vars(BARE), "versions": {"kueue.x-k8s.io": ("v1beta1",)}})
    (check,) = [check for check in served_checks(old) if check.name == "kind Workload"]
    assert "served as v1beta1, and this package speaks v1beta2" in check.found


def test_each_namespace_needs_what_its_groups_may_use() -> None:
    wanted = wanted_of(load_catalog(CATALOG))
    assert {place: set(names) for place, names in wanted[""].queues.items()} == {
        "vision": {"vision-gpu", "spot-gpu"},
        "ml": {"spot-gpu"},
    }
    assert {place: set(names) for place, names in wanted["south"].queues.items()} == {
        "vision": {"spot-gpu"},
        "": {"spot-gpu"},
    }
    assert set(wanted[""].claims["ml"]) == {"shared-data", "words-1"}
    assert set(wanted[""].claims["vision"]) == {"shared-data"}
    assert wanted["south"].priorities == {"urgent": ["priorities.high"]}


def test_a_queue_that_does_not_exist_is_named_with_the_nearest() -> None:
    check = compare("LocalQueue", "ml", {"gpu-big": ["queues[0]"]}, [item("gpu-bg"), item("other")])
    assert not check.ok
    assert check.needed
    assert check.found == "no LocalQueue 'gpu-big', which is named at queues[0]; did you mean 'gpu-bg'?"
    assert check.mend.endswith("there are: gpu-bg, other")


def test_what_may_not_be_read_is_not_said_to_be_missing() -> None:
    check = compare("PersistentVolumeClaim", "ml", {"data": ["volumes.data"]}, None)
    assert (check.ok, check.needed) == (False, False)
    assert "may not be read" in check.found


def test_a_queue_that_takes_nothing_now_is_a_warning() -> None:
    stopped = {"conditions": [{"type": "Active", "status": "False", "message": "ClusterQueue is stopped"}]}
    check = compare("LocalQueue", "ml", {"gpu": ["queues[0]"]}, [item("gpu", status=stopped)])
    assert (check.ok, check.needed) == (False, False)
    assert "takes no jobs now: ClusterQueue is stopped" in check.found


def test_what_is_there_is_fine() -> None:
    assert compare("LocalQueue", "ml", {"gpu": ["queues[0]"]}, [item("gpu")]).ok


def test_a_cluster_out_of_reach_is_a_fault(command: Command) -> None:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {"token": "canary"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    conn = json.dumps({"conn_type": "siflow", "extra": {"backend": "kubernetes", "kube_config": json.dumps(config)}})
    done = command("doctor", "--json", "--conn", conn)
    assert done.code == 1, done.err
    (check,) = [check for check in done.data if check["name"] == "API server"]
    assert "127.0.0.1:9" in check["found"]
    assert "canary" not in done.out + done.err
