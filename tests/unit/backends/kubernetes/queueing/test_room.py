"""Quota asked right after a stop, when the queues do not tell of it yet."""

from __future__ import annotations

import asyncio

import pytest

from siflow_provider.backends.kubernetes.cluster.shared import Cluster
from siflow_provider.backends.kubernetes.life.room import ask_quota, note_change
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor
from tests.unit.backends.kubernetes.queueing.answering import Answering
from tests.unit.backends.kubernetes.queueing.kueue import node
from tests.unit.backends.kubernetes.tasks import pytorch, resolved


async def test_many_that_find_no_room_after_a_stop_share_what_they_read_anew(
    server: Answering, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siflow_provider.backends.kubernetes.life.room._LAG_SECONDS", 1.2)
    server.objects |= {"/apis": {"groups": []}, "/version": {"gitVersion": "v1.36.3"}}
    server.lists |= {"/api/v1/nodes": [node("n1", {"cpu": 8, "memory": "64Gi"})], "/api/v1/pods": []}
    instance = Flavor(instance="in-place", resources=Resources.of({"cpu": 6, "memory": "1Gi"}))
    two = resolved(pytorch(workers=1), flavors=(instance,), namespace="ml")
    note_change(cluster)
    reports = await asyncio.gather(*(ask_quota(cluster, two) for _ in range(20)))
    assert not any(report.fits_now for report in reports)
    # the first look, and one for each half second in which the answer may be out of date
    assert 2 <= server.asked["/api/v1/nodes"] <= 4
