"""A watch outlives what happens to real connections and real API servers, and misses nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from siflow_provider.backends.kubernetes.cluster.api import Api
from siflow_provider.backends.kubernetes.cluster.pace import Pace
from siflow_provider.backends.kubernetes.cluster.resources import CONFIGMAPS
from siflow_provider.backends.kubernetes.cluster.shared import name_key
from siflow_provider.backends.kubernetes.cluster.store import Store
from tests.control_plane.admin import Admin
from tests.control_plane.faults import bad_way
from tests.control_plane.plane import ControlPlane
from tests.integration.clusters import config_map, settings_for


@asynccontextmanager
async def watching(kubeconfig: Path, namespace: str, pace: Pace) -> AsyncIterator[Store]:
    """A store of the ConfigMaps of a namespace, listed once."""
    async with Api(settings_for(kubeconfig, namespace=namespace), pace=pace) as api:
        store = Store(api, CONFIGMAPS, namespace, key=name_key)
        store.start()
        try:
            await store.ready()
            yield store
        finally:
            await store.close()


async def until(store: Store, name: str, true: Callable[[], object], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds), store.subscribe(name) as subscription:
        while not true():
            await subscription.changed()


async def make(admin: Admin, namespace: str, name: str) -> None:
    obj = config_map(name)
    obj["metadata"]["namespace"] = namespace
    await asyncio.to_thread(admin.create, obj)


async def test_a_black_hole_costs_two_heartbeats_at_most(
    control_plane: ControlPlane, admin: Admin, namespace: str, tmp_path: Path
) -> None:
    heartbeat = 1.0
    pace = Pace(heartbeat=heartbeat, connect=heartbeat, answer=heartbeat, tries=0, first_wait=0.1, longest_wait=0.5)
    async with (
        bad_way(control_plane.kubeconfig, tmp_path) as way,
        watching(way.kubeconfig, namespace, pace) as store,
    ):
        loop = asyncio.get_running_loop()
        way.swallow()
        began = loop.time()
        await until(store, "a", lambda: store.stale_since)
        assert loop.time() - began < 3 * heartbeat + 1
        await make(admin, namespace, "a")
        way.heal()
        await until(store, "a", lambda: store.objects("a"))
        await until(store, "a", lambda: store.stale_since is None)


async def test_connections_that_are_cut_all_the_time_cost_nothing(
    control_plane: ControlPlane, admin: Admin, namespace: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        bad_way(control_plane.kubeconfig, tmp_path) as way,
        watching(way.kubeconfig, namespace, Pace(first_wait=0.05)) as store,
    ):
        for number in range(5):
            way.cut()
            await make(admin, namespace, f"a-{number}")
            await until(store, f"a-{number}", lambda: store.objects(f"a-{number}"))  # noqa: B023  # called at once
            await asyncio.to_thread(admin.delete, CONFIGMAPS.path(namespace, f"a-{number}"))
            await until(store, f"a-{number}", lambda: store.last_seen_deleted(f"a-{number}"))  # noqa: B023
        assert store.stale_since is None
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_server_that_can_not_be_reached_is_waited_for(
    control_plane: ControlPlane, admin: Admin, namespace: str, tmp_path: Path
) -> None:
    pace = Pace(tries=1, first_wait=0.1, longest_wait=0.5)
    await make(admin, namespace, "a")
    async with (
        bad_way(control_plane.kubeconfig, tmp_path) as way,
        watching(way.kubeconfig, namespace, pace) as store,
    ):
        way.refuse()
        await until(store, "a", lambda: store.stale_since)
        assert store.objects("a")
        await asyncio.to_thread(admin.delete, CONFIGMAPS.path(namespace, "a"))
        way.heal()
        await until(store, "a", lambda: store.last_seen_deleted("a"))
        await until(store, "a", lambda: store.stale_since is None)


async def test_a_history_that_was_forgotten_costs_no_end(
    own_control_plane: ControlPlane, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    admin = Admin(own_control_plane.kubeconfig)
    await make(admin, "default", "a")
    # tries long enough: the watch is opened again where it was, from a version that is gone by then
    async with (
        bad_way(own_control_plane.kubeconfig, tmp_path) as way,
        watching(way.kubeconfig, "default", Pace(first_wait=0.2, longest_wait=1, tries=60)) as store,
    ):
        way.refuse()
        await asyncio.to_thread(admin.delete, CONFIGMAPS.path("default", "a"))
        await make(admin, "default", "b")
        await asyncio.to_thread(own_control_plane.forget)
        way.heal()
        await until(store, "a", lambda: store.last_seen_deleted("a"), 120)
        await until(store, "b", lambda: store.objects("b"))
    admin.close()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_server_that_starts_anew_is_waited_for_and_goes_on_being_watched(
    own_control_plane: ControlPlane,
) -> None:
    admin = Admin(own_control_plane.kubeconfig)
    async with watching(own_control_plane.kubeconfig, "default", Pace(tries=1, first_wait=0.2)) as store:
        await asyncio.to_thread(own_control_plane.kill, "kube-apiserver")
        await until(store, "c", lambda: store.stale_since)
        await asyncio.to_thread(own_control_plane.start, "kube-apiserver")
        await until(store, "c", lambda: store.stale_since is None, 120)
        await make(admin, "default", "c")
        await until(store, "c", lambda: store.objects("c"))
    admin.close()
