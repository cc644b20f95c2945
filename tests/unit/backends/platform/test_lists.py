"""Catalog drafts and what doctor looks at."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from siflow_provider.backends.platform.checks import check_platform
from siflow_provider.backends.platform.discover import discover
from siflow_provider.backends.settings import Settings
from siflow_provider.spec.catalog import load_catalog
from siflow_provider.spec.hidden import Hidden
from tests.platform.names import POOL, RESERVED
from tests.platform.server import RunningPlatform
from tests.unit.backends.platform.conftest import QUICK

LISTS: dict[str, list[dict[str, Any]]] = {
    "volumes": [{"id": 1, "name": "team-data", "pvcName": "team-data", "fsType": "fs"}],
    "datasets": [{"name": "corpus", "version": "2", "isPreset": False, "pvc": "data", "subPath": "v2"}],
    "models": [{"name": "bert", "version": "1", "isPreset": True, "pvc": {"name": "models", "path": "bert"}}],
    "images": [
        {
            "name": "trainer",
            "version": "7",
            "image_build_type": "custom",
            "cluster_images_url": [
                "beta: registry-beta.example.test/nlp/trainer:7",
                "alpha: registry.example.test/nlp/trainer:7",
            ],
        }
    ],
}  # fmt: skip


async def test_the_draft_is_a_catalog_with_what_the_platform_lists(
    running: RunningPlatform, settings: Settings
) -> None:
    running.call(lambda: running.platform.lists.update(LISTS))
    draft, notes = await discover(settings, QUICK)
    catalog = load_catalog(draft)
    assert {entry.resource_pool for entry in catalog.queues} == {POOL, RESERVED}
    assert {entry.type for entry in catalog.queues} == {"on_demand", "reserved"}
    assert set(catalog.instances) == {"cpu.demo-1", "gpu.demo-1"}
    assert catalog.images.custom["trainer"].versions == {"7": "registry.example.test/nlp/trainer:7"}
    assert catalog.volumes["team-data"].pvc == "team-data"
    assert catalog.datasets["corpus"].versions["2"].sub_path == "v2"
    assert catalog.models["bert"].versions["1"].pvc == "models"
    assert draft["instances"]["gpu.demo-1"] == {"resources": {"cpu": "8", "memory": "64Gi", "gpu": "1"}}
    assert notes == []


async def test_every_list_is_read_to_its_end_and_amounts_that_are_not_told_are_asked_for(
    running: RunningPlatform, settings: Settings
) -> None:
    many = [{**LISTS["datasets"][0], "name": f"corpus-{number}"} for number in range(1200)]
    running.call(lambda: running.platform.lists.update(LISTS, datasets=many))
    running.call(lambda: running.platform.lists["volumes"].append({"id": 2, "name": "nowhere"}))
    odd = {"name": "odd", "version": "1", "image_build_type": "custom", "cluster_images_url": 1.5}
    answer = {"status": True, "msg": "", "total": 1, "rows": [odd]}
    running.change(
        faults=[
            {"path": "images-management", "body": json.dumps(answer)},
            {"path": "instance/quota", "status": 403},
        ]
    )
    draft, notes = await discover(settings, QUICK)
    assert len(load_catalog(draft).datasets) == 1200
    sizes, unplaced = notes
    assert "cpu.demo-1, gpu.demo-1" in sizes
    assert unplaced.startswith("volumes: nowhere is left out")


async def test_a_clock_that_is_an_hour_off_is_told_as_the_cause(running: RunningPlatform, settings: Settings) -> None:
    running.change(clock_seconds=3600)
    checks = {check.name: check for check in await check_platform(settings, QUICK)}
    assert "clock is -3" in checks["signature and access to tasks"].found
    assert not checks["clock"].ok
    assert "-3600" in checks["clock"].found or "-3599" in checks["clock"].found
    assert "NTP" in checks["clock"].mend


async def test_a_list_that_can_not_be_read_is_told_and_the_rest_is_drafted(
    running: RunningPlatform, settings: Settings
) -> None:
    running.change(faults=[{"path": "datasets", "status": 403}])
    draft, notes = await discover(settings, QUICK)
    assert draft["datasets"] == {}
    assert [note for note in notes if "/data-service/v1/datasets can't be read" in note]
    load_catalog(draft)


async def test_a_good_connection_passes_every_check(settings: Settings) -> None:
    checks = {check.name: check for check in await check_platform(settings, QUICK)}
    assert all(check.ok for check in checks.values()), checks
    assert set(checks) == {"signature and access to tasks", "clock", "pools", "the catalog's pools", "logs"}


async def test_a_pool_that_was_renamed_is_told_with_the_name_it_may_have_now(settings: Settings) -> None:
    catalog = {
        "instances": {"cpu.demo-1": {"resources": {"cpu": 1, "memory": "1Gi"}}},
        "queues": [{"type": "on_demand", "instance": "cpu.demo-1", "queue": "q", "resource_pool": POOL + "-old"}],
    }
    given = settings.model_copy(update={"catalog": catalog})
    checks = {check.name: check for check in await check_platform(given, QUICK)}
    told = checks["the catalog's pools"]
    assert not told.ok
    assert f"{POOL}-old" in told.found
    assert f"Did you mean {POOL!r}?" in told.mend


async def test_each_fault_is_told_with_its_mend(running: RunningPlatform, settings: Settings) -> None:
    wrong = settings.model_copy(update={"password": Hidden("sk-wrong"), "api_overrides": {}})
    checks = {check.name: check for check in await check_platform(wrong, replace(QUICK, tries=1))}
    assert not checks["signature and access to tasks"].ok
    assert "clock" in checks["signature and access to tasks"].mend
    assert not checks["logs"].ok
    assert not checks["logs"].needed
    running.call(running.platform.engine.pools.clear)
    checks = {check.name: check for check in await check_platform(settings, QUICK)}
    assert not checks["pools"].ok
    assert checks["pools"].mend
    (only,) = await check_platform(settings.model_copy(update={"host": ""}), QUICK)
    assert (only.name, only.ok) == ("connection", False)
    (only,) = await check_platform(settings.model_copy(update={"body_overrides": {"shh": {}}}), QUICK)
    assert "'shh'" in only.found


async def test_no_check_tells_the_secret(settings: Settings) -> None:
    wrong = settings.model_copy(update={"password": Hidden("sk-wrong-secret")})
    assert "sk-wrong-secret" not in repr(await check_platform(wrong, QUICK))
