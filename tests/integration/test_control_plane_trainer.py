"""With Kubeflow Trainer in place of training-operator, a TrainJob is queued, started and finished."""

from __future__ import annotations

from tests.control_plane.admin import Admin, condition
from tests.control_plane.queues import Queues, unique

CONTROL_PLANE_OPTIONS = ("--trainer",)
TRAINER = "trainer.kubeflow.org/v1alpha1"


def test_train_job_waits_in_its_queue_and_runs_to_its_end(own_admin: Admin) -> None:
    queues = Queues(own_admin, "default")
    job = {
        "apiVersion": TRAINER,
        "kind": "TrainJob",
        "metadata": {
            "name": unique("train"),
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/queue-name": queues.queue(cpu=8)},
        },
        "spec": {
            "suspend": True,
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {
                "numNodes": 2,
                "image": "none:test",
                "command": ["true"],
                "resourcesPerNode": {"requests": {"cpu": "2"}},
            },
        },
    }
    path = own_admin.path_of(own_admin.create(job))
    own_admin.wait(path, lambda found: (found or {})["spec"]["suspend"] is False, "started by kueue", seconds=90)
    own_admin.wait(path, lambda found: condition(found, "Complete") == "True", "complete", seconds=120)
    queues.close()


def test_there_is_no_pytorchjob(own_admin: Admin) -> None:
    assert own_admin.find("/apis/kubeflow.org/v1") is None
    assert own_admin.find(f"/apis/{TRAINER}")
