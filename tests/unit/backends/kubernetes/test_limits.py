from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.rendering import unsupported, warnings
from siflow_provider.errors import UnsupportedError
from siflow_provider.spec.compute import NodeRule, OnDemand
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.policy import KubernetesOptions, Monitoring
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.ray import Autoscaling, Debug, RaySection
from siflow_provider.spec.resolve import Flavor, Mount
from tests.unit.backends.kubernetes.tasks import pytorch, ray, rendered, resolved


def paths(form: Any, **parts: Any) -> list[str]:
    return [reason.path for reason in unsupported(resolved(form, **parts))]


def test_plain_task_has_nothing_that_a_cluster_can_not_carry() -> None:
    assert unsupported(resolved(pytorch(workers=3))) == []
    assert unsupported(resolved(ray(workers=3))) == []


def test_everything_that_is_wrong_is_told_at_once_before_anything_is_rendered() -> None:
    form = pytorch(command="x" * 200_000, monitoring=Monitoring(port=23456))
    with pytest.raises(UnsupportedError, match="kubernetes") as caught:
        rendered(form, mounts=(Mount("volume", "v", "/mnt/v"),))
    assert [reason.path for reason in caught.value.reasons] == ["command", "volumes[0]", "monitoring.port"]


def test_command_longer_than_linux_can_hand_over_is_refused() -> None:
    assert paths(pytorch(command="é" * 65_536)) == ["command"]
    assert paths(pytorch(command="x" * (128 * 1024 - 1))) == []


def test_variable_longer_than_linux_can_hand_over_is_refused() -> None:
    fits, long = "x" * (128 * 1024 - len("A=") - 1), "é" * 65_536
    assert paths(pytorch(), env={"A": fits}, hidden={"B": Hidden(fits)}) == []
    found = unsupported(resolved(ray(), env={"A": fits + "x"}, hidden={"B": Hidden(long)}))
    assert [reason.path for reason in found] == ["env.A", "env.B"]
    assert "é" not in found[1].message


def test_metrics_port_of_the_ssh_server_is_refused() -> None:
    assert paths(pytorch(monitoring=Monitoring(port=22), ssh=True)) == ["monitoring.port"]
    assert paths(pytorch(monitoring=Monitoring(port=22))) == []


def test_each_thing_without_a_claim_is_named_by_its_place_in_the_form() -> None:
    mounts = (
        Mount("volume", "a", "/mnt/a", pvc="a"),
        Mount("volume", "b", "/mnt/b"),
        Mount("dataset", "c", "/mnt/c"),
        Mount("model", "d", "/mnt/d"),
        Mount("shared_storage", "e", "/tmp/ray"),
    )
    found = ["volumes[1]", "datasets[0]", "models[0]", "ray.shared_storage"]
    assert paths(ray(), mounts=mounts) == found


def test_mount_over_a_hostfile_is_refused_when_there_is_one() -> None:
    mounts = (Mount("volume", "a", "/root/hostfile", pvc="a"),)
    assert paths(pytorch(ssh=True), mounts=mounts) == ["volumes[0].mount_path"]
    assert paths(pytorch(), mounts=mounts) == []


def test_mount_over_our_own_folder_is_refused() -> None:
    assert paths(pytorch(), mounts=(Mount("volume", "a", "/run/siflow", pvc="a"),)) == ["volumes[0].mount_path"]


@pytest.mark.parametrize(("workers", "refused"), [(0, []), (1, ["volumes[0]"])])
def test_claim_that_one_pod_alone_may_mount_is_refused_for_several(workers: int, refused: list[str]) -> None:
    mount = Mount("volume", "a", "/mnt/a", pvc="a", access="ReadWriteOncePod")
    assert paths(pytorch(workers=workers), mounts=(mount,)) == refused


def test_mark_of_who_manages_the_object_is_not_the_authors() -> None:
    key = "app.kubernetes.io/managed-by"
    options = KubernetesOptions.model_construct(None, annotations={key: "me"})
    assert paths(pytorch(labels={key: "me"})) == [f"labels.{key}"]
    assert paths(pytorch(kubernetes=options)) == [f"kubernetes.annotations.{key}"]


@pytest.mark.parametrize(
    ("form", "port", "refused"),
    [
        (pytorch(), 23456, True),
        (pytorch(), 8265, False),
        (ray(), 6379, True),
        (ray(), 8265, True),
        (ray(), 8080, False),
    ],
)
def test_metrics_port_that_is_taken_is_refused(form: Any, port: int, refused: bool) -> None:
    form = form.model_copy(update={"monitoring": Monitoring(port=port)})
    assert paths(form) == (["monitoring.port"] if refused else [])


def test_node_that_no_label_can_name_is_refused_before_the_pods_are() -> None:
    rule = NodeRule(only=("n1", "n" * 64), exclude=("a node",))
    compute = OnDemand(type="on_demand", instances=("gpu.8",), nodes=rule)
    options = KubernetesOptions(node_selector={"disk": "s s d", "zone": "a"})
    found = ["kubernetes.node_selector.disk", "compute.nodes.only[1]", "compute.nodes.exclude[0]"]
    assert paths(pytorch(compute=compute, kubernetes=options)) == found


def test_character_that_would_be_lost_on_the_way_to_ray_is_refused() -> None:
    runtime_env = {"env_vars": {"A": "fine 🚀 \x01", "B": "odd \x7f"}, "pip": ["\U000e0001"]}
    assert paths(ray(RaySection(runtime_env=runtime_env))) == ["ray.runtime_env.env_vars.B", "ray.runtime_env.pip[0]"]


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ({"metadata": None}, "metadata"),
        ({"metadata": {"labels": None}}, "metadata.labels"),
        ({"metadata": {"labels": {"siflow-provider/run": "x"}}}, "metadata.labels[siflow-provider/run]"),
        (
            {"metadata": {"annotations": {"siflow-provider/dag-id": None}}},
            "metadata.annotations[siflow-provider/dag-id]",
        ),
    ],
)
def test_patch_that_would_lose_the_run_is_refused(patch: dict[str, Any], path: str) -> None:
    assert paths(pytorch(kubernetes=KubernetesOptions(patch=patch))) == [f"kubernetes.patch.{path}"]


def test_patch_may_add_labels_and_choose_another_queue() -> None:
    patch = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other", "a": "b"}}, "spec": {"x": 1}}
    assert paths(pytorch(kubernetes=KubernetesOptions(patch=patch))) == []


def test_gang_without_a_queue_is_told_that_it_is_none() -> None:
    flavor = Flavor(instance="in-place", resources=Resources.of({"cpu": 1}))
    assert any("queue" in text for text in warnings(resolved(pytorch(workers=1), flavors=(flavor,))))


def test_autoscaling_and_ssh_in_ray_come_with_a_word_of_warning() -> None:
    section = RaySection(autoscaling=Autoscaling(min_workers=1, max_workers=2))
    told = warnings(resolved(ray(section, ssh=True, workers=1)))
    assert [text.split(":")[0] for text in told] == ["ray.autoscaling", "ssh"]


def test_autoscaling_and_a_cluster_that_is_kept_are_no_matter_of_quota_without_a_queue() -> None:
    section = RaySection(autoscaling=Autoscaling(min_workers=1, max_workers=2), debug=Debug(keep_seconds=60))
    flavor = Flavor(instance="in-place", resources=Resources.of({"cpu": 1}))
    assert [text for text in warnings(resolved(ray(section, workers=1), flavors=(flavor,))) if "Kueue" in text] == []


def test_a_cluster_that_is_kept_comes_with_a_word_on_its_quota() -> None:
    (told,) = warnings(resolved(ray(RaySection(debug=Debug(keep_seconds=60)))))
    assert "gives its quota to others at once" in told
    assert warnings(resolved(ray(RaySection(debug=Debug(keep_seconds=0))))) == []


@pytest.mark.parametrize(
    ("head", "workers", "cpu", "told"),
    [
        (None, 1, "499m", ["Ray node"]),
        (None, 1, "500m", []),
        ("100m", 1, "200m", ["Ray head", "Ray worker"]),
        ("1", 0, "200m", []),
    ],
)
def test_a_size_on_which_ray_hardly_starts_is_told(head: str | None, workers: int, cpu: str, told: list[str]) -> None:
    def flavor(amount: str) -> Flavor:
        return Flavor(instance="in-place", resources=Resources.of({"cpu": amount}), queue="od")

    own = None if head is None else flavor(head)
    found = warnings(resolved(ray(workers=workers), flavors=(flavor(cpu),), head=own))
    assert [text.partition(" is little for a ")[2].partition(":")[0] for text in found] == told


def test_no_pytorch_job_is_too_small_for_ray() -> None:
    flavor = Flavor(instance="in-place", resources=Resources.of({"cpu": "100m"}), queue="od")
    assert warnings(resolved(pytorch(), flavors=(flavor,))) == []


def test_autoscaling_on_an_instance_without_cpu_is_refused_since_rays_autoscaler_would_not_start() -> None:
    section = RaySection(autoscaling=Autoscaling(min_workers=1, max_workers=2))
    flavor = Flavor(instance="big-memory", resources=Resources.of({"memory": "1Gi"}), queue="od")
    assert paths(ray(section, workers=1), flavors=(flavor,)) == ["ray.autoscaling"]
    assert paths(ray(workers=1), flavors=(flavor,)) == []
