from __future__ import annotations

from typing import Any

from siflow_provider.spec.resolve import Mount
from tests.unit.backends.kubernetes.tasks import container, pods, pytorch, rendered

TWICE = (
    Mount("volume", "team", "/volume/data", pvc="team-data"),
    Mount("dataset", "imagenet", "/mnt/imagenet", pvc="datasets", sub_path="imagenet/2012", read_only=True),
    Mount("volume", "team", "/volume/out", pvc="team-data", sub_path="out"),
    Mount("model", "llama", "/mnt/llama", pvc="models", sub_path="llama/8b", read_only=True),
)


def claims(manifest: Any, role: str = "master") -> list[Any]:
    return [volume for volume in pods(manifest)[role]["spec"]["volumes"] if "persistentVolumeClaim" in volume]


def test_claim_mounted_twice_is_one_volume_with_two_mounts() -> None:
    manifest = rendered(pytorch(), mounts=TWICE)
    assert [volume["persistentVolumeClaim"] for volume in claims(manifest)] == [
        {"claimName": "team-data"},
        {"claimName": "datasets"},
        {"claimName": "models"},
    ]
    mounts = [mount for mount in container(manifest, "master")["volumeMounts"] if mount["name"] == "claim-0"]
    assert mounts == [
        {"name": "claim-0", "mountPath": "/volume/data"},
        {"name": "claim-0", "mountPath": "/volume/out", "subPath": "out"},
    ]


def test_datasets_and_models_are_mounted_read_only_at_their_version() -> None:
    mounts = container(rendered(pytorch(), mounts=TWICE), "master")["volumeMounts"]
    assert {"name": "claim-1", "mountPath": "/mnt/imagenet", "subPath": "imagenet/2012", "readOnly": True} in mounts
    assert {"name": "claim-2", "mountPath": "/mnt/llama", "subPath": "llama/8b", "readOnly": True} in mounts


def test_volume_names_and_mount_paths_are_unique_in_every_pod() -> None:
    manifest = rendered(pytorch(workers=1, ssh=True), mounts=TWICE)
    for role in ("master", "worker"):
        names = [volume["name"] for volume in pods(manifest)[role]["spec"]["volumes"]]
        mounts = container(manifest, role)["volumeMounts"]
        assert len(names) == len(set(names))
        assert len(mounts) == len({mount["mountPath"] for mount in mounts})
        assert {mount["name"] for mount in mounts} == set(names)


def test_every_replica_mounts_the_same() -> None:
    manifest = rendered(pytorch(workers=1), mounts=TWICE)
    assert claims(manifest) == claims(manifest, "worker")


def test_claim_with_a_long_dotted_name_still_has_a_valid_volume_name() -> None:
    manifest = rendered(pytorch(), mounts=(Mount("volume", "v", "/mnt/v", pvc="a.b." + "x" * 200),))
    assert [volume["name"] for volume in claims(manifest)] == ["claim-0"]
