"""`doctor` on a real cluster: what the catalog names is there or is not."""

from __future__ import annotations

from siflow_provider.backends.kubernetes.checkup.examine import check_kubernetes
from siflow_provider.core.checkup import Check
from tests.control_plane.admin import Admin
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import Queues
from tests.integration.clusters import settings_for

CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared-data}
spec: {accessModes: [ReadWriteMany], storageClassName: "", resources: {requests: {storage: 1Gi}}}
"""


async def _checks(control_plane: ControlPlane, namespace: str, queue: str, priority: str, claim: str) -> list[Check]:
    catalog = {
        "instances": {"gpu": {"resources": {"cpu": "8", "memory": "64Gi"}}},
        "queues": [{"type": "on_demand", "instance": "gpu", "queue": queue}],
        "priorities": {"high": priority},
        "volumes": {"data": {"pvc": claim}},
    }
    settings = settings_for(control_plane.kubeconfig, namespace=namespace).model_copy(update={"catalog": catalog})
    return await check_kubernetes(settings)


async def test_what_the_catalog_names_is_looked_for_where_tasks_go(
    control_plane: ControlPlane, admin: Admin, namespace: str, queues: Queues
) -> None:
    queue, priority = queues.queue(cpu=8), queues.priority(10)
    admin.apply(CLAIM, namespace)
    checks = await _checks(control_plane, namespace, queue, priority, "shared-data")
    assert [check for check in checks if not check.ok and check.needed] == []
    assert len([check for check in checks if check.name.startswith("catalog: ") and check.ok]) == 3

    checks = await _checks(control_plane, namespace, f"{queue}x", f"{priority}x", "shared-dat")
    wrong = {check.name: check.found for check in checks if not check.ok and check.needed}
    assert f"did you mean {queue!r}?" in wrong[f"catalog: LocalQueue in {namespace}"]
    assert f"did you mean {priority!r}?" in wrong["catalog: WorkloadPriorityClass"]
    assert "did you mean 'shared-data'?" in wrong[f"catalog: PersistentVolumeClaim in {namespace}"]


async def test_a_namespace_that_does_not_exist_is_a_fault(control_plane: ControlPlane) -> None:
    checks = await check_kubernetes(settings_for(control_plane.kubeconfig, namespace="nowhere-at-all"))
    (check,) = [check for check in checks if check.name == "namespace nowhere-at-all"]
    assert (check.ok, check.needed, check.found) == (False, True, "does not exist")
