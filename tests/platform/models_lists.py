"""What the lists to choose from hold, and what a workflow is made of, as OpenAPI describes it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tests.platform.models import Wire


class VolumeRow(Wire):
    id: int
    name: str
    pvc_name: str = ""
    fs_type: str = ""
    capacity: str = ""
    used: str = ""
    status: str = ""
    authorized_users: dict[str, dict[str, Any]] = {}


class UserVolume(Wire):
    id: int
    name: str
    pvc: str
    read_only: bool
    namespace: str
    fs_id: str


class Volumes(BaseModel):
    """Volumes stand in `data`, the ids in snake case."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    status: bool
    msg: str
    total: int
    page: int
    page_size: Annotated[int, Field(alias="pageSize")]
    data: list[VolumeRow]
    request_id: str
    trace_id: str


class Dataset(Wire):
    name: str
    version: str | None = None
    is_preset: bool = False
    read_only: bool = True
    pvc: str = ""
    sub_path: str | None = None


class ModelPlace(Wire):
    name: str
    path: str


class Model(Wire):
    name: str
    version: str = ""
    is_preset: bool | None = None
    pvc: ModelPlace


class Image(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str
    version: str
    image_build_type: str | None
    cluster_images_url: list[str]


class EnvVar(Wire):
    name: Annotated[str, Field(min_length=1)]
    value: str


class DagTask(Wire):
    name: str
    template: str
    depends: str | None = None
    when: str | None = None


class Dag(Wire):
    tasks: list[DagTask]


class WorkflowStep(Wire):
    type: Literal["sfjob"]
    name: str
    spec: str
    """JSON text: a creation with `replicas` in place of `workers`."""
    env: list[EnvVar] = []


class CreateWorkflow(Wire):
    workflow_name: Annotated[str, Field(min_length=1)]
    dag: Dag
    steps: list[WorkflowStep]
    cron: dict[str, Any] | None = None
