"""What the lists of a fake platform hold at first: invented names in the documented shapes."""

from __future__ import annotations

from typing import Any

from tests.platform.names import CLUSTER, REGION, TENANT, USER

WHEN = "2026-01-01T00:00:00Z"


def demo_lists() -> dict[str, list[dict[str, Any]]]:
    """Return rows by list."""
    return {
        "volumes": [_volume(1, "team-data"), _volume(2, "scratch")],
        "datasets": [
            {
                "name": "corpus",
                "version": "2",
                "isPreset": False,
                "readOnly": True,
                "pvc": "data",
                "subPath": "corpus/2",
            },
            {"name": "squad", "version": "1", "isPreset": True, "readOnly": True, "pvc": "public", "subPath": "squad"},
        ],
        "models": [_model("bert-base", preset=True), _model("bert-ft", preset=False)],
        "images": [_image(1, "pytorch", "2.9", "preset"), _image(2, "trainer", "7", "custom")],
    }


def _volume(number: int, name: str) -> dict[str, Any]:
    return {
        "id": number, "createdAt": WHEN, "updatedAt": WHEN, "name": name, "region": REGION, "cluster": CLUSTER,
        "orgName": TENANT, "userName": USER, "creator": USER, "namespace": TENANT, "pvcName": f"pvc-{name}",
        "fsType": "fs", "fsId": f"fs-{number}", "capacity": "100Gi", "used": "1Gi", "status": "Available",
        "authorizedUsers": {USER: {"readOnly": False, "path": "/"}},
    }  # fmt: skip


def _model(name: str, *, preset: bool) -> dict[str, Any]:
    return {
        "uuid": f"model-{name}", "name": name, "cluster": CLUSTER, "type": "llm", "isPreset": preset,
        "isDeployed": False, "version": "1", "pvc": {"name": "models", "path": name}, "description": "", "tags": [],
        "createTime": WHEN, "updateTime": WHEN,
    }  # fmt: skip


def _image(number: int, name: str, version: str, kind: str) -> dict[str, Any]:
    return {
        "id": number, "name": name, "version": version, "major_category": "siflow", "minor_category": "",
        "image_build_type": kind, "image_build_status": "done", "image_build_size": "1 GiB", "image_build_message": "",
        "description": "", "status": "available", "is_builtin": kind == "preset", "is_deleted": False,
        "is_show_all_users": True, "is_show_in_all_clusters": True,
        "cluster_images_url": [
            f"elsewhere: registry-elsewhere.example.test/{TENANT}/{name}:{version}",
            f"{CLUSTER}: registry-{REGION}.example.test/{TENANT}/{name}:{version}",
        ],
        "show_clusters": [], "no_show_clusters": [], "users": [], "owner": USER, "created_at": WHEN, "updated_at": WHEN,
    }  # fmt: skip
