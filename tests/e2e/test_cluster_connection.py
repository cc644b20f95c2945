"""Connections to a cluster in a running Airflow: the cncf provider's own type as it is, and the test button."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from tests.e2e.on_cluster import OnCluster

BODY = """
for name, conn_id in CONNECTIONS.items():
    PyTorchJobOperator(
        task_id=name, conn_id=conn_id, image="base:test", command="echo from a pod; sleep 3; echo its end",
        compute=compute(cpu="100m", memory="64Mi"), kubernetes={"node_selector": {"type": "real"}},
    )
"""


def connect(cluster: OnCluster, name: str, extra: dict[str, Any]) -> str:
    """Store a connection of the cncf provider's type, and return its id."""
    conn_id = f"{cluster.conn_id}_{name}"
    content = json.dumps({"namespace": cluster.queues.namespace, **extra})
    body = {"connection_id": conn_id, "conn_type": "kubernetes", "extra": content}
    cluster.stack.rest.request("POST", "connections", json=body)
    return conn_id


def test_connection_of_the_cncf_provider_serves_worker_and_triggerer_as_it_is(cluster: OnCluster) -> None:
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    named = {
        "file": {"kube_config_path": str(cluster.kubeconfig)},
        "inline": {"kube_config": json.dumps(content), "cluster_context": content["current-context"]},
        "prefixed": {"extra__kubernetes__kube_config_path": str(cluster.kubeconfig)},
    }
    connections = {name: connect(cluster, name, extra) for name, extra in named.items()}
    run = cluster.start("cl_cncf", BODY.replace("CONNECTIONS", repr(connections)))
    assert run.wait(150) == "success", run.states()
    for name in named:
        log = run.ti(name).log()
        # a worker submits and looks once; these lines are read by the triggerer
        assert log.count("[master-0] from a pod") == log.count("[master-0] its end") == 1, log
        assert run.ti(name).xcom()["name"] in cluster.names()


def test_button_tells_a_kubeconfig_that_leads_to_the_cluster_from_one_that_does_not(
    cluster: OnCluster, tmp_path: Path
) -> None:
    def answer(kubeconfig: Path) -> tuple[bool, str]:
        extra = {"backend": "kubernetes", "kube_config_path": str(kubeconfig), "namespace": cluster.queues.namespace}
        body = {"connection_id": "tried", "conn_type": "siflow", "extra": json.dumps(extra)}
        told = cluster.stack.rest.request("POST", "connections/test", json=body).json()
        return told["status"], told["message"]

    assert answer(cluster.kubeconfig) == (True, "backend kubernetes answers: 0 runs of ours")
    good, text = answer(tmp_path / "missing")
    assert not good
    assert str(tmp_path / "missing") in text
    stranger = yaml.safe_load(cluster.kubeconfig.read_text())
    stranger["users"][0]["user"] = {"token": "of-nobody-here"}
    wrong = tmp_path / "stranger"
    wrong.write_text(json.dumps(stranger))
    good, text = answer(wrong)
    assert not good
    assert "401" in text
    assert "of-nobody-here" not in text
