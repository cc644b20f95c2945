"""Volumes, datasets and models: what a task mounts, by catalog name."""

from __future__ import annotations

from siflow_provider.spec.base import Form

__all__ = ["DatasetMount", "ModelMount", "VolumeMount"]


class VolumeMount(Form):
    """A volume of the catalog (or `pvc:NAME`) at a path of every replica."""

    name: str
    mount_path: str
    sub_path: str | None = None
    read_only: bool = False


class DatasetMount(Form):
    """A dataset of the catalog; always read-only."""

    name: str
    version: str | None = None
    mount_path: str


class ModelMount(Form):
    """A model of the catalog; read-only."""

    name: str
    version: str | None = None
    mount_path: str
