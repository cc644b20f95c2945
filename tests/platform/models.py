"""What the documented calls take and give, as OpenAPI describes it. camelCase as on the wire."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

T = TypeVar("T")
Count = Annotated[int, Field(ge=0, le=100_000)]


class Wire(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")


class Instance(Wire):
    name: str
    count_per_pod: Annotated[int, Field(ge=1, le=100_000)]


class Volume(Wire):
    volume_id: int | None = None
    volume_name: str | None = None
    mount_dir: str


class Data(Wire):
    name: str
    version: str | None = None
    type: Literal["preset", "custom"] | None = None
    pvc: str | None = None
    sub_path: str | None = None
    mount_path: str


class Env(Wire):
    env_key: Annotated[str, Field(min_length=1)]
    env_value: str = ""
    hide: bool = False


class FaultTolerance(Wire):
    enabled: bool | None = None
    max_retry_count: int | None = None


class DebugMode(Wire):
    enabled: bool | None = None
    holding: bool | None = None
    ttl: int | None = None


class Enhancements(Wire):
    fault_tolerance: FaultTolerance | None = None
    debug_mode: DebugMode | None = None


class CreateTask(Wire):
    name_prefix: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=35)]
    type: Literal["pytorchjob", "pod", "rayjob"]
    image: Annotated[str, Field(min_length=1)]
    image_version: Annotated[str, Field(min_length=1)]
    image_url: Annotated[str, Field(min_length=1)]
    image_type: str | None = None
    cmd: Annotated[str, Field(min_length=1)]
    workers: Count
    resource_pool: Annotated[str, Field(min_length=1)]
    instances: Annotated[list[Instance], Field(min_length=1)]
    volumes: list[Volume] | None = None
    datasets: list[Data] | None = None
    models: list[Data] | None = None
    task_env: list[Env] | None = None
    priority: Literal["high", "medium", "low"] | None = None
    guarantee: bool | None = None
    enhancements: Enhancements | None = None
    labels: dict[str, str] | None = None
    product: str | None = None
    module: str | None = None
    oss: dict[str, Any] | None = None
    timezone: str | None = None


class Uuids(Wire):
    uuids: list[str]


class SelectedInstance(Wire):
    name: str
    count_total: int


class Ahead(Wire):
    high: int = 0
    medium: int = 0
    low: int = 0


class QueueInfo(Wire):
    rank_in_pool: int
    ahead_in_pool: Ahead
    rank_in_user: int
    ahead_in_user: Ahead


class TaskBrief(Wire):
    uuid: str
    cluster: str
    name: str
    resource_pool: str
    instances: list[Instance]
    selected_instances: list[SelectedInstance]
    volumes: list[Volume]
    image: str
    image_version: str
    image_url: str
    image_type: str
    status: str
    status_msg: str
    create_time: str
    update_time: str
    start_time: str | None
    end_time: str | None
    duration: str | None
    priority: str | None
    guarantee: bool | None
    queue_info: QueueInfo | None
    task_env: list[Env]
    shared_users: list[str]
    owner: str
    enhancements: Enhancements | None


class Task(TaskBrief):
    name_prefix: str
    type: str
    workers: int
    cmd: str
    datasets: list[Data]
    models: list[Data]
    product: str | None
    module: str | None
    oss: dict[str, Any] | None
    timezone: str | None
    dashboard_url: str | None


class Pod(Wire):
    name: str
    status: str
    status_msg: str | None = None
    node: str | None = None
    ip: str | None = None
    create_time: str | None = None
    update_time: str | None = None
    containers: list[str] = []
    exit_code: int | None = None
    deleted: bool | None = None


class Ids(Wire):
    status: bool
    msg: str
    request_id: Annotated[str, Field(alias="requestID")] = ""
    trace_id: Annotated[str, Field(alias="traceID")] = ""


class One(Ids, Generic[T]):
    data: T


class Rows(Ids, Generic[T]):
    total: int | None = None
    rows: list[T]


class InstanceQuota(Wire):
    id: int
    region: str
    cluster: str
    resource_pool_qos_type: str
    resource_pool_type: str
    resource_pool_name: str
    resource_pool_isolation: str
    instance_name: str
    quota: int
    avail: int
    used: int
    preempted: int
    authorized_users: list[str]
    creator: str
    created_at: str
    expire_at: str


class UserQuota(Wire):
    id: int
    user_name: str
    instance_quota_id: int
    total: int
    used: int
    creator: str


class NodeRules(Wire):
    scope: Literal["user", "tenant"]
    node_names: Annotated[list[str], Field(min_length=1)]
    type: Literal["NodeIn", "NodeNotIn"] = "NodeNotIn"
    workload_types: Annotated[
        list[Literal["task", "llm-service", "deployment", "vscs", "jupyter", "general-service"]], Field(min_length=1)
    ]
    expire_at: int
    reason: str | None = None
    source: str | None = None


class NodeRule(Wire):
    id: int
    scope: Literal["user", "tenant"]
    node_name: str | None = None
    type: Literal["NodeIn", "NodeNotIn"] = "NodeNotIn"
    workload_types: list[str] | None = None
    expire_at: int
    reason: str | None = None
    source: str | None = None
