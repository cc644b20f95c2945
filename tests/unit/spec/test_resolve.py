"""From names to what they mean: queues, images, claims, defaults, and what the whole task needs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from siflow_provider.errors import SpecError
from siflow_provider.spec import Catalog, load, load_catalog
from siflow_provider.spec.need import need
from siflow_provider.spec.resolve import Defaults, ResolvedTask, resolve
from tests.unit.spec.forms import CATALOG, DROP, PYTORCH, RAY, changed

CONNECTION = Defaults(
    region="cn-west", cluster="gamma", project_group="vision", default_queue="conn-queue", timezone="Europe/Berlin"
)
IN_PLACE = {"cpu": 4, "memory": "16Gi", "gpu": 1}


def resolved(catalog: Catalog | None, base: dict[str, Any], changes: dict[Any, Any], **more: Any) -> ResolvedTask:
    return resolve(load(changed(base, changes)), catalog, **more)


def refused(catalog: Catalog | None, base: dict[str, Any], changes: dict[Any, Any], **more: Any) -> dict[str, str]:
    with pytest.raises(SpecError) as caught:
        resolved(catalog, base, changes, **more)
    return {problem.path: problem.message for problem in caught.value.problems}


def test_names_become_what_a_backend_needs(catalog: Catalog) -> None:
    task = resolved(
        catalog,
        PYTORCH,
        {
            "image": {"preset": "pytorch", "version": "2.9-cuda12"},
            "volumes": [{"name": "team-data", "mount_path": "/volume/data", "sub_path": "runs"}],
            "datasets": [{"name": "imagenet", "mount_path": "/mnt/imagenet"}],
            "models": [{"name": "llama-8b", "version": "3.1", "mount_path": "/mnt/llama"}],
            "workers": 3,
            "priority": "high",
        },
    )
    assert task.image == "registry.example/ai/pytorch:2.9-cuda12"
    assert (task.namespace, task.context, task.owner) == ("team-nlp", "alpha-admin", "nlp-leads")
    assert (task.org, task.tenant, task.priority_class) == ("example-org", "t-0001", "wpc-high")
    assert task.channels == {"nlp-oncall": "apprise_nlp"}
    assert task.dashboards["job"].startswith("https://grafana.example/")
    [flavor] = task.flavors
    assert (flavor.queue, flavor.resource_pool, flavor.accelerator) == ("od-h100", "platform-pool", "gpu")
    assert flavor.resources.rendered() == {"cpu": "96", "memory": "960Gi", "nvidia.com/gpu": "8"}
    assert [(one.source, one.name, one.pvc, one.sub_path, one.read_only, one.version) for one in task.mounts] == [
        ("volume", "team-data", "team-data", "runs", False, None),
        ("dataset", "imagenet", "datasets", "imagenet/2012", True, "2012"),
        ("model", "llama-8b", "models", "llama/8b-3.1", True, "3.1"),
    ]
    assert task.replicas == 4


def test_defaults_of_the_catalog_beat_those_of_the_connection(catalog: Catalog) -> None:
    task = resolved(catalog, PYTORCH, {}, defaults=CONNECTION).task
    assert (task.region, task.cluster, task.project_group) == ("cn-east", "alpha", "nlp")
    assert (task.timezone, task.image_pull_retries) == ("Asia/Shanghai", 3)


def test_the_tasks_own_values_beat_every_default(catalog: Catalog) -> None:
    own = {
        "region": "cn-east",
        "cluster": "beta",
        "project_group": "vision",
        "timezone": "UTC",
        "image_pull_retries": 0,
    }
    task = resolved(catalog, PYTORCH, own, defaults=CONNECTION)
    assert {name: getattr(task.task, name) for name in own} == own
    assert (task.context, task.namespace) == ("beta-admin", "team-vision")


def test_connection_and_dag_fill_what_a_catalog_leaves_open() -> None:
    task = resolved(None, PYTORCH, {"compute.instances": [IN_PLACE]}, defaults=CONNECTION)
    assert (task.task.region, task.task.cluster, task.task.timezone) == ("cn-west", "gamma", "Europe/Berlin")
    assert task.flavors[0].queue == "conn-queue"


def test_cluster_follows_from_a_region_that_has_one(catalog: Catalog) -> None:
    task = resolved(catalog, PYTORCH, {"region": "cn-west", "compute.instances": [IN_PLACE]}).task
    assert task.cluster == "gamma"
    assert resolved(catalog, PYTORCH, {"region": "cn-east"}).task.cluster == "alpha"
    assert resolved(catalog, PYTORCH, {"cluster": "gamma", "compute.instances": [IN_PLACE]}).task.region == "cn-west"


def test_region_with_several_clusters_and_no_default_asks_which() -> None:
    open_catalog = load_catalog(changed(CATALOG, {"defaults.cluster": DROP, "defaults.region": DROP}))
    assert "alpha, beta" in refused(open_catalog, PYTORCH, {"region": "cn-east"})["cluster"]


def test_default_of_the_connection_that_the_catalog_lacks_is_refused() -> None:
    open_catalog = load_catalog(changed(CATALOG, {"defaults": DROP}))
    assert "'north' is no region" in refused(open_catalog, PYTORCH, {}, defaults=Defaults(region="north"))["region"]


def test_namespace_of_the_cluster_serves_a_group_without_one(catalog: Catalog) -> None:
    changes = {"project_group": "guests", "cluster": "beta", "compute.instances": ["gpu.h100-8"]}
    assert resolved(catalog, PYTORCH, changes).namespace == "beta-default"


RESERVED = {"type": "reserved", "pool": "shared", "instance": "gpu.h100-8"}
QUEUES: list[tuple[dict[Any, Any], str]] = [
    ({"compute": RESERVED}, "reserved-shared-h100"),
    ({"compute": RESERVED | {"accept_idle": True, "idle_stability": "high"}}, "reserved-shared-h100-idle"),
    ({"compute": RESERVED | {"accept_idle": True}}, "reserved-shared-h100-idle"),
    (
        {"compute": RESERVED | {"pool": "vision-only", "instance": "gpu.a100-8"}, "project_group": "vision"},
        "reserved-vision-a100",
    ),
    ({"compute.guarantee": True}, "od-h100-guaranteed"),
    ({"compute": {"type": "idle", "instances": ["gpu.a100-8"], "stability": "low"}}, "idle-a100"),
    ({"compute": {"type": "spot", "instances": ["cpu.16"]}, "cluster": "beta"}, "spot-cpu-beta"),
    ({"compute.instances": [IN_PLACE]}, "anything"),
]


@pytest.mark.parametrize(("changes", "queue"), QUEUES, ids=[queue for _, queue in QUEUES])
def test_first_queue_that_matches_takes_the_task(catalog: Catalog, changes: dict[Any, Any], queue: str) -> None:
    assert resolved(catalog, PYTORCH, changes, defaults=CONNECTION).flavors[0].queue == queue


def test_every_listed_instance_has_its_own_queue_best_first(catalog: Catalog) -> None:
    task = resolved(catalog, PYTORCH, {"compute.instances": ["gpu.h100-8", "gpu.a100-8"]})
    assert [(one.instance, one.queue) for one in task.flavors] == [("gpu.h100-8", "od-h100"), ("gpu.a100-8", "od-a100")]
    assert task.flavors[1].tolerations[0]["key"] == "nvidia.com/gpu"
    assert task.flavors[0].node_selector == {"gpu-model": "h100"}


def test_idle_task_has_no_priority_class(catalog: Catalog) -> None:
    compute = {"type": "idle", "instances": ["gpu.a100-8"], "stability": "low"}
    assert resolved(catalog, PYTORCH, {"compute": compute}).priority_class is None


def test_persistent_env_lies_below_the_tasks_own(catalog: Catalog) -> None:
    task = resolved(catalog, PYTORCH, {"env": {"WANDB_MODE": "online", "TOKEN": "open"}}, user="ann")
    assert task.env == {"HF_HOME": "/volume/data/hf", "WANDB_MODE": "online", "EDITOR": "vi", "TOKEN": "open"}
    assert task.hidden == {}
    assert resolved(catalog, PYTORCH, {}, user="ann").hidden["TOKEN"].reveal() == "anns-own-token"
    assert resolved(catalog, PYTORCH, {}, user="bob").env == {"HF_HOME": "/volume/data/hf", "WANDB_MODE": "offline"}
    other = resolved(catalog, PYTORCH, {"project_group": "vision", "labels.team": "vision"}, user="ann")
    assert other.env == {"EDITOR": "vi"}


def test_users_name_stands_in_sub_paths(catalog: Catalog) -> None:
    changes = {"volumes": [{"name": "scratch", "mount_path": "/mnt/s", "sub_path": "runs/{user}"}]}
    assert resolved(catalog, PYTORCH, changes, user="ann").mounts[0].sub_path == "users/ann/runs/ann"
    assert "needs the user's name" in refused(catalog, PYTORCH, changes)["volumes[0]"]
    for user in ("../bob", "a/b", ".."):
        assert "can't stand in a path" in refused(catalog, PYTORCH, changes, user=user)["volumes[0]"]


def test_read_only_follows_form_kind_and_access(catalog: Catalog) -> None:
    changes = {
        "volumes": [
            {"name": "team-data", "mount_path": "/mnt/a", "read_only": True},
            {"name": "archive", "mount_path": "/mnt/b"},
            {"name": "pvc:any", "mount_path": "/mnt/c"},
        ],
        "datasets": [{"name": "digits", "mount_path": "/mnt/d"}],
        "models": [{"name": "llama-8b", "mount_path": "/mnt/e", "read_only": False}],
    }
    mounts = resolved(catalog, PYTORCH, changes).mounts
    assert [one.read_only for one in mounts] == [True, True, False, True, False]
    assert (mounts[3].local, mounts[3].pvc, mounts[3].version) == ("~/digits", None, None)


def test_everything_given_in_place_works_without_a_catalog() -> None:
    task = resolved(
        None,
        RAY,
        {
            "compute.instances": [IN_PLACE],
            "compute.units_per_replica": 2,
            "volumes": [{"name": "pvc:data", "mount_path": "/mnt/data"}],
            "datasets": [{"name": "pvc:sets", "mount_path": "/mnt/sets"}],
            "ray.shared_storage": {"volume": "pvc:shared"},
            "ray.head": {"instance": {"cpu": 1, "memory": "2Gi"}},
        },
    )
    assert task.flavors[0].resources.rendered() == {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2"}
    assert (task.flavors[0].instance, task.flavors[0].queue, task.namespace) == ("in-place", None, None)
    assert [(one.source, one.name, one.pvc) for one in task.mounts] == [
        ("volume", "data", "data"),
        ("dataset", "sets", "sets"),
        ("shared_storage", "shared", "shared"),
    ]
    assert task.mounts[2].mount_path == "/tmp/ray"


def test_catalog_name_without_a_catalog_says_so() -> None:
    found = refused(
        None,
        RAY,
        {
            "image": {"preset": "ray", "version": "2.60"},
            "volumes": [{"name": "team-data", "mount_path": "/mnt/a"}],
            "datasets": [{"name": "imagenet", "mount_path": "/mnt/b"}],
            "ray.head": {"instance": "cpu.16"},
            "ray.shared_storage": {"volume": "team-data"},
        },
    )
    assert set(found) == {
        "image.preset",
        "compute.instances[0]",
        "volumes[0].name",
        "datasets[0].name",
        "ray.head.instance",
        "ray.shared_storage.volume",
    }
    assert all("there is no catalog" in message for message in found.values())


def test_catalog_without_queues_uses_the_default_queue() -> None:
    plain = load_catalog(changed(CATALOG, {"queues": DROP}))
    assert resolved(plain, PYTORCH, {}).flavors[0].queue == "anything"


def test_need_of_a_gang_is_the_sum_over_its_replicas(catalog: Catalog) -> None:
    task = resolved(catalog, PYTORCH, {"workers": 3, "compute.units_per_replica": 2})
    wanted = need(task)
    assert wanted.per_replica.rendered() == {"cpu": "192", "memory": "1920Gi", "nvidia.com/gpu": "16"}
    assert wanted.task.rendered() == {"cpu": "768", "memory": "7680Gi", "nvidia.com/gpu": "64"}
    assert wanted.maximum == wanted.task
    assert wanted.head is None


def test_need_counts_another_head_by_itself(catalog: Catalog) -> None:
    wanted = need(resolved(catalog, RAY, {"ray.head": {"instance": "cpu.16", "units": 2}}))
    assert wanted.head is not None
    assert wanted.head.rendered() == {"cpu": "32", "memory": "128Gi"}
    assert wanted.task.gpus == 32
    assert wanted.task.amounts["cpu"] == Decimal(4 * 64 + 32)


def test_head_like_the_workers_is_one_more_replica(catalog: Catalog) -> None:
    task = resolved(catalog, RAY, {"ray.head": {"instance": "gpu.a100-8"}})
    assert task.head is None
    assert need(task).task.gpus == 40


def test_autoscaling_needs_its_minimum_and_is_bound_by_its_maximum(catalog: Catalog) -> None:
    changes = {"ray.autoscaling": {"min_workers": 2, "max_workers": 8}, "ray.head": {"instance": "cpu.16"}}
    wanted = need(resolved(catalog, RAY, changes))
    assert (wanted.task.gpus, wanted.maximum.gpus) == (16, 64)


def test_need_is_told_for_each_listed_instance(catalog: Catalog) -> None:
    task = resolved(catalog, PYTORCH, {"compute.instances": ["gpu.h100-8", "gpu.a100-8"]})
    assert [need(task, flavor_index=index).task.cpu for index in (0, 1)] == [96, 64]
    with pytest.raises(IndexError):
        need(task, flavor_index=2)


def test_resolving_leaves_the_task_as_it_was(catalog: Catalog) -> None:
    task = load(PYTORCH)
    resolve(task, catalog)
    assert task == load(PYTORCH)


@pytest.mark.parametrize(
    ("entry", "accelerator", "gpus"),
    [
        ({"resources": {"nvidia.com/gpu": 8, "rdma/hca": 8}}, "gpu", 8),
        ({"resources": {"nvidia.com/gpu": 8, "nvidia.com/mlnxnics": 4, "example.com/port": 2}}, "gpu", 8),
        ({"resources": {"huawei.com/Ascend910": 16}}, "gpu", 16),
        ({"resources": {"aws.amazon.com/neuron": 16, "vpc.amazonaws.com/efa": 8}}, "gpu", 16),
        ({"resources": {"nvidia.com/mig-1g.5gb": 2}}, "gpu", 2),
        ({"accelerator": "gpu", "resources": {"example.com/card": 4, "rdma/hca_shared": 1}}, "gpu", 4),
        ({"resources": {"rdma/hca": 1, "smarter-devices/fuse": 1, "hugepages-2Mi": "1Gi"}}, "cpu", 0),
        ({"accelerator": "cpu", "resources": {"example.com/port": 2}}, "cpu", 0),
    ],
)
def test_accelerators_of_every_make_are_counted_and_network_cards_are_not(
    entry: dict[str, Any], accelerator: str, gpus: int
) -> None:
    resources = {"cpu": 8, "memory": "64Gi", **entry["resources"]}
    catalog = load_catalog({"instances": {"one": entry | {"resources": resources}}})
    [flavor] = resolved(catalog, PYTORCH, {"compute.instances": ["one"]}).flavors
    assert (flavor.accelerator, flavor.gpus) == (accelerator, gpus)
