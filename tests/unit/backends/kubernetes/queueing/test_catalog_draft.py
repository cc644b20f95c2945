"""A drafted catalog: valid, true to the cluster, and open about what a cluster does not say."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.queueing.catalog_draft import Found, draft
from siflow_provider.backends.kubernetes.queueing.machines import machines
from siflow_provider.spec.catalog import Catalog, load_catalog
from tests.unit.backends.kubernetes.queueing.kueue import GPU, TAINT, cluster_queue, flavor, group, local_queue, node
from tests.unit.backends.kubernetes.queueing.kueue import quota as amount

H100 = {"gpu-model": "h100"}
HOST: dict[str, str | int] = {"cpu": "95500m", "memory": "967Gi", GPU: 8}


def within(item: dict[str, Any], namespace: str) -> dict[str, Any]:
    return {**item, "metadata": {**item["metadata"], "namespace": namespace}}


def claim(name: str, *modes: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"accessModes": list(modes)}}


def priority(name: str, value: int) -> dict[str, Any]:
    return {"metadata": {"name": name}, "value": value}


def found(**parts: Any) -> Found:
    base: dict[str, Any] = {
        "local_queues": (within(local_queue("gpu", "cq"), "nlp"), within(local_queue("gpu", "cq"), "vision")),
        "cluster_queues": (
            cluster_queue("cq", group(h100={"cpu": amount(1), "memory": amount(1), GPU: amount(1)})),
            cluster_queue("small", group(cpu={"cpu": amount(1), "memory": amount(1)})),
        ),
        "flavors": (flavor("h100", H100, TAINT), flavor("cpu", {"pool": "cpu"}), flavor("unused")),
        "priorities": (priority("wpc-high", 100), priority("wpc-low", 1), priority("wpc-night", 0)),
        "claims": (within(claim("data", "ReadWriteOnce"), "nlp"),),
        "machines": machines([node("n1", HOST, H100), node("n2", {**HOST, "cpu": "64"}, H100)], None),
    }
    return Found(**{**base, **parts})


def read(**parts: Any) -> tuple[str, Catalog]:
    text = draft(found(**parts))
    return text, load_catalog(text)


def test_instances_are_nodes_and_their_shares_and_say_how_to_get_there() -> None:
    text, catalog = read()
    assert {name: dict(entry.resources) for name, entry in catalog.instances.items()} == {
        "h100": {"cpu": "64", "memory": "967Gi", GPU: "8"},
        "h100-1": {"cpu": "8", "memory": "120Gi", GPU: "1"},
    }
    assert catalog.instances["h100"].node_selector == H100
    assert catalog.instances["h100"].tolerations == ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},)
    assert "differ in size; the smallest" in text


def test_a_flavor_without_nodes_is_left_out_with_a_comment() -> None:
    text, catalog = read()
    assert "cpu" not in catalog.instances
    assert "# instances: the size of the flavor 'cpu' is not known: there is no node with its labels now." in text


def test_what_daemon_sets_hold_is_nothing_that_a_task_can_have() -> None:
    _, catalog = read(daemons={"n1": {"cpu": 500}, "n2": {"cpu": 4000}})
    assert catalog.instances["h100"].resources["cpu"] == "60"


def test_queues_lead_each_namespace_to_the_instances_of_its_flavors() -> None:
    _, catalog = read()
    assert [(entry.type, entry.instance, entry.queue, entry.project_groups) for entry in catalog.queues] == [
        ("on_demand", name, "gpu", (team,)) for team in ("nlp", "vision") for name in ("h100", "h100-1")
    ]
    assert catalog.default_queue == "gpu"
    assert {name: entry.namespace for name, entry in catalog.project_groups.items()} == {
        "nlp": "nlp",
        "vision": "vision",
    }


@pytest.mark.parametrize(("spec", "led_to"), [({}, False), ({"cohortName": "team"}, True)])
def test_an_instance_without_quota_in_any_queue_is_named_unless_its_queue_may_borrow(
    spec: dict[str, str], led_to: bool
) -> None:
    none = cluster_queue("cq", group(h100={"cpu": amount(1), "memory": amount(1), GPU: amount(0)}), **spec)
    text, catalog = read(cluster_queues=(none,))
    assert bool(catalog.queues) is led_to
    assert ("leads to h100, h100-1: remove them" in text) is not led_to


def test_an_instance_that_no_local_queue_leads_to_is_named() -> None:
    nodes = machines([node("n1", HOST, H100), node("n2", {"cpu": 4, "memory": "8Gi"}, {"pool": "cpu"})], None)
    text, catalog = read(machines=nodes)
    assert "leads to cpu: remove them" in text
    assert "cpu" in catalog.instances


def test_spot_nodes_speak_for_themselves() -> None:
    labels = {"karpenter.sh/capacity-type": "spot"}
    _, catalog = read(flavors=(flavor("h100", labels),), machines=machines([node("n1", HOST, labels)], None))
    assert {entry.type for entry in catalog.queues} == {"spot"}


def test_priorities_go_by_name_or_by_three_values_and_others_are_named() -> None:
    text, catalog = read()
    assert dict(catalog.priorities) == {"high": "wpc-high", "low": "wpc-low"}
    assert "wpc-night (0)" in text
    _, catalog = read(priorities=(priority("a", 1), priority("b", 9), priority("c", 5)))
    assert dict(catalog.priorities) == {"high": "b", "medium": "c", "low": "a"}


def test_claims_become_volumes_of_their_group() -> None:
    twice = (
        within(claim("data", "ReadWriteOnce", "ReadWriteMany"), "nlp"),
        within(claim("data", "ReadWriteOnce"), "vision"),
        within(claim("x"), "elsewhere"),
    )
    _, catalog = read(claims=twice)
    assert {name: (entry.pvc, entry.access, entry.project_groups) for name, entry in catalog.volumes.items()} == {
        "nlp.data": ("data", "ReadWriteMany", ("nlp",)),
        "vision.data": ("data", "ReadWriteOnce", ("vision",)),
    }


def test_the_cluster_is_to_be_filled_in() -> None:
    text, catalog = read(context="admin@alpha")
    assert "# clusters: [{region: REGION, cluster: CLUSTER, context: admin@alpha}]" in text
    assert catalog.clusters == ()


@pytest.mark.parametrize("missing", ["local_queues", "cluster_queues", "flavors", "priorities", "claims", "machines"])
def test_what_may_not_be_read_is_left_out_with_a_comment(missing: str) -> None:
    text, _ = read(**{missing: None})
    assert "can't be read" in text


def test_an_empty_cluster_gives_a_valid_draft() -> None:
    empty = Found(local_queues=(), cluster_queues=(), flavors=(), priorities=(), claims=())
    assert load_catalog(draft(empty)) == load_catalog(draft(Found())) == Catalog()
