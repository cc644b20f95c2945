from __future__ import annotations

from siflow_provider.backends.kubernetes.queueing.podsets import task_pod_sets
from siflow_provider.core.room import Demand
from siflow_provider.spec.reading import load
from siflow_provider.spec.resolve import resolve

FORM = """
kind: PyTorchJob
image: registry.example/a:1
command: train
compute: {type: on_demand, instances: [{cpu: 4, memory: 1Gi}]}
workers: 1
kubernetes:
  patch:
    metadata: {annotations: {note: canary}}
    spec:
      pytorchReplicaSpecs:
        Worker:
          replicas: 3
          template:
            spec:
              containers:
              - {name: pytorch, image: "a:1", env: [{name: TOKEN, value: canary}], resources: {requests: {cpu: 2}}}
"""


def test_a_demand_counts_what_a_patch_changes_and_stores_nothing_else_of_it() -> None:
    task = resolve(load(FORM))
    stored = Demand.of(task).model_dump_json()
    assert "canary" not in stored
    asked = Demand.model_validate_json(stored).resolved()
    assert [(one.name, one.whole) for one in task_pod_sets(asked)] == [
        (one.name, one.whole) for one in task_pod_sets(task)
    ]
    assert [one.count for one in task_pod_sets(asked)] == [1, 3]
