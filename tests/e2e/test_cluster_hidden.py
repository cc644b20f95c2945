"""A hidden value is in the cluster's Secret and in the training, and nowhere else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.e2e.on_cluster import OnCluster

CANARY = "canary-51e0ab"
BODY = """
from pathlib import Path

# read from a file: Airflow stores the text of every DAG file
HIDDEN = {"TOKEN": {"value": Path("TOKEN_FILE").read_text(), "hidden": True}}
SHOW = "echo token is $TOKEN; echo length $(printf %s $TOKEN | wc -c); sleep 40; echo again $TOKEN >&2; exit 1"

PyTorchJobOperator(task_id="train", command=SHOW, env=HIDDEN, workers=1, logs="all", **REAL)
"""
KINDS = ("PyTorchJob", "Workload", "Pod", "ConfigMap", "Event", "Service")


def test_hidden_value_is_found_in_the_secret_only(cluster: OnCluster) -> None:
    stack = cluster.stack
    token = stack.settings.home / "cluster-token"
    token.write_text(CANARY)
    cluster.on_real_node()
    run = cluster.start("cl_hidden", BODY.replace("TOKEN_FILE", str(token)))
    run.ti("train").wait_log("[master-0] length 13", timeout=120)
    assert CANARY not in stack.db_dump()  # triggers, next_kwargs, rendered fields, the serialized DAG
    seen = {kind: json.dumps(cluster.objects(kind)) for kind in KINDS}
    assert [kind for kind, text in seen.items() if CANARY in text] == []
    assert all(seen[kind] != "[]" for kind in ("PyTorchJob", "Workload", "Pod"))
    (secret,) = cluster.objects("Secret")
    assert secret["metadata"]["ownerReferences"][0]["kind"] == "PyTorchJob"
    assert run.wait(120) == "failed"
    assert CANARY not in stack.db_dump()
    log = run.ti("train").log()
    assert all(f"[{replica}] token is ***" in log for replica in ("master-0", "worker-0")), log
    assert CANARY not in log
    files = [path for path in stack.settings.home.rglob("*.log") if path.is_file()]
    assert [path for path in files if CANARY in path.read_text(errors="replace")] == []
