"""What is kept of jobs that this process deleted."""

from __future__ import annotations

from siflow_provider.backends.kubernetes.life.memory import Memory


def test_of_a_deleted_job_all_is_kept_but_who_wrote_which_field() -> None:
    memory = Memory(limit=2)
    spec = {"submitterPodTemplate": {"spec": {"tolerations": [{"operator": "Exists"}]}}}
    for name in ("a", "b", "c"):
        metadata = {"uid": name, "managedFields": [{"manager": "kuberay"}] * 100}
        memory.bury({"kind": "RayJob", "metadata": metadata, "spec": spec})
    assert memory.deleted("a") is None
    assert memory.deleted("c") == {"kind": "RayJob", "metadata": {"uid": "c"}, "spec": spec}
