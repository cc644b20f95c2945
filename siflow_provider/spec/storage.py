"""Volumes, datasets and models: what a task mounts, by catalog name."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from siflow_provider.spec.base import Form
from siflow_provider.spec.mount_paths import mount_path, sub_path
from siflow_provider.spec.scalars import Filled, Flag, Text, Version

__all__ = ["DatasetMount", "ModelMount", "VolumeMount"]

MountPath = Annotated[Text, AfterValidator(mount_path)]
SubPath = Annotated[Text, AfterValidator(sub_path)]


class VolumeMount(Form):
    """A volume of the catalog (or `pvc:NAME`) at a path of every replica."""

    name: Filled
    """The volume's name in the catalog, or `pvc:NAME` for a PersistentVolumeClaim."""
    mount_path: MountPath
    """Absolute path in every replica."""
    sub_path: SubPath | None = None
    """Path inside the volume; `{user}` stands for the user's name."""
    read_only: Flag = False
    """Mount it read-only."""


class DatasetMount(Form):
    """A dataset of the catalog; always read-only."""

    name: Filled
    """The dataset's name in the catalog."""
    version: Version | None = None
    """Its version; may be left out when there is one."""
    mount_path: MountPath
    """Absolute path in every replica."""


class ModelMount(Form):
    """A model of the catalog; read-only unless said otherwise."""

    name: Filled
    """The model's name in the catalog."""
    version: Version | None = None
    """Its version; may be left out when there is one."""
    mount_path: MountPath
    """Absolute path in every replica."""
    read_only: Flag = True
    """False to write to it, where the catalog allows."""
