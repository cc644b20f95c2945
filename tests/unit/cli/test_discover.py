"""`catalog discover`: what an admin starts a catalog from."""

from __future__ import annotations

import asyncio
import json

from tests.unit.backends.kubernetes.cluster.conftest import kubeconfig
from tests.unit.backends.kubernetes.queueing.answering import answering
from tests.unit.backends.kubernetes.queueing.kueue import cluster_queue, flavor, group, local_queue, node, quota
from tests.unit.cli.conftest import Command, Done

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"


async def test_a_draft_from_a_cluster_passes_the_check(command: Command) -> None:
    async with answering() as server:
        queue = local_queue("gpu", "cq")
        queue["metadata"]["namespace"] = "ml"
        server.lists = {
            f"{KUEUE}/localqueues": [queue],
            f"{KUEUE}/clusterqueues": [cluster_queue("cq", group(f={"cpu": quota(16), "memory": quota("64Gi")}))],
            f"{KUEUE}/resourceflavors": [flavor("f")],
            "/api/v1/nodes": [node("n1", {"cpu": 8, "memory": "64Gi"})],
            "/api/v1/pods": [],
        }
        options = {"backend": "kubernetes", "kube_config": json.dumps(kubeconfig(server.url))}
        conn = json.dumps({"conn_type": "siflow", "extra": options})
        done: Done = await asyncio.to_thread(command, "catalog", "discover", "--conn", conn)
    assert done.code == 0, done.err
    assert "instance: f" in done.out
    (command.folder / "catalog.yaml").write_text(done.out, encoding="utf-8")
    checked = command.anew("catalog", "check", "catalog.yaml")
    assert checked.code == 0, checked.out


def test_a_backend_without_names_says_so(command: Command) -> None:
    done = command.anew("catalog", "discover", "--conn", "siflow://?backend=local")
    assert done.code == 2
    assert "nothing that a catalog could be drafted from" in done.err
