from __future__ import annotations

import pytest

from siflow_provider.spec.compute import NodeRule, OnDemand
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.policy import KubernetesOptions, Monitoring
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor
from tests.unit.backends.kubernetes.tasks import container, document, env, pods, pytorch, ray, rendered

HOST = "kubernetes.io/hostname"


def flavor(**amounts: str | int) -> Flavor:
    return Flavor(instance="in-place", resources=Resources.of(amounts), queue="q")


def test_replica_asks_for_what_it_may_use() -> None:
    size = container(rendered(pytorch()), "master")["resources"]
    assert size["limits"] == size["requests"] == {"cpu": "96", "memory": "960Gi", "nvidia.com/gpu": "8"}


def test_amount_that_nobody_gave_stays_unset() -> None:
    manifest = rendered(pytorch(), flavors=(flavor(cpu="500m"),))
    assert container(manifest, "master")["resources"] == {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}
    shm = next(volume for volume in pods(manifest)["master"]["spec"]["volumes"] if volume["name"] == "shm")
    assert shm["emptyDir"] == {"medium": "Memory"}


def test_replica_without_any_amount_has_no_resources() -> None:
    assert "resources" not in container(rendered(pytorch(), flavors=(flavor(),)), "master")


@pytest.mark.parametrize(
    ("memory", "asked", "written"), [("1.5Gi", None, "768Mi"), ("3", None, "1"), ("64Gi", "16Gi", "16Gi")]
)
def test_shared_memory_is_as_asked_or_half_the_memory(memory: str, asked: str | None, written: str) -> None:
    manifest = rendered(pytorch(shm_size=asked), flavors=(flavor(memory=memory),))
    shm = next(volume for volume in pods(manifest)["master"]["spec"]["volumes"] if volume["name"] == "shm")
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": written}
    assert {"name": "shm", "mountPath": "/dev/shm"} in container(manifest, "master")["volumeMounts"]


def test_each_variable_stands_once_and_ours_is_not_overridden() -> None:
    form = pytorch(timezone="Asia/Tokyo")
    manifest = rendered(form, env={"PATH": "/a:/b", "TZ": "UTC", "SIFLOW_RESULTS": "/elsewhere"})
    names = [entry["name"] for entry in container(manifest, "master")["env"]]
    assert len(names) == len(set(names))
    values = env(manifest, "master")
    assert (values["PATH"], values["TZ"]) == ("/a:/b", "UTC")
    assert values["SIFLOW_RESULTS"] == "/run/siflow/results.json"


@pytest.mark.parametrize("value", ["", "0", "1"])
def test_output_is_unbuffered_and_the_name_stands_once_beside_what_the_operator_adds(value: str) -> None:
    hidden = {"PYTHONUNBUFFERED": Hidden(value)}
    assert "PYTHONUNBUFFERED" not in env(rendered(pytorch(), env={"PYTHONUNBUFFERED": value}), "master")
    assert "PYTHONUNBUFFERED" not in env(rendered(pytorch(), hidden=hidden), "master")
    assert env(rendered(ray(), env={"PYTHONUNBUFFERED": value}), "head")["PYTHONUNBUFFERED"] == "1"


def test_task_runs_in_its_time_zone() -> None:
    assert env(rendered(pytorch(timezone="Asia/Tokyo")), "master")["TZ"] == "Asia/Tokyo"


def test_value_that_the_kubelet_would_expand_arrives_as_written() -> None:
    manifest = rendered(pytorch(), env={"A": "$(TASK_UUID) $$ $HOME"})
    assert env(manifest, "master")["A"] == "$$(TASK_UUID) $$$$ $HOME"


def test_hidden_value_is_a_reference_to_the_runs_secret() -> None:
    manifest = rendered(pytorch(workers=1), hidden={"TOKEN": Hidden("s3cr3t-value")})
    reference = {"secretKeyRef": {"name": f"{manifest.name}-env", "key": "TOKEN"}}
    assert [env(manifest, role)["TOKEN"] for role in ("master", "worker")] == [reference, reference]


def test_submitter_sees_nothing_of_the_tasks_environment() -> None:
    manifest = rendered(ray(), env={"A": "1"}, hidden={"TOKEN": Hidden("s3cr3t-value")})
    assert env(manifest, "submitter") == {"SIFLOW_DOLLAR": "$", "SIFLOW_BACKTICK": "`"}


def test_pods_go_where_the_instance_and_the_author_say() -> None:
    toleration = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
    options = KubernetesOptions(node_selector={"disk": "ssd"}, tolerations=(toleration, toleration))
    spec = pods(rendered(pytorch(kubernetes=options)))["master"]["spec"]
    assert spec["nodeSelector"] == {"disk": "ssd", "gpu-model": "h100"}
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, toleration]


def test_submitter_goes_where_the_author_says_too() -> None:
    manifest = rendered(ray(kubernetes=KubernetesOptions(node_selector={"disk": "ssd", "a": "b"})))
    assert pods(manifest)["submitter"]["spec"]["nodeSelector"] == {"a": "b", "disk": "ssd"}


def test_author_wins_over_the_instance_on_the_same_node_label() -> None:
    options = KubernetesOptions(node_selector={"gpu-model": "h200"})
    assert pods(rendered(pytorch(kubernetes=options)))["master"]["spec"]["nodeSelector"] == {"gpu-model": "h200"}


def test_node_rule_becomes_an_affinity_to_host_names() -> None:
    rule = NodeRule(only=("n1", "n2", "n1"), exclude=("n9",))
    compute = OnDemand(type="on_demand", instances=("gpu.8",), nodes=rule)
    affinity = pods(rendered(pytorch(compute=compute)))["master"]["spec"]["affinity"]
    required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": HOST, "operator": "In", "values": ["n1", "n2"]},
                {"key": HOST, "operator": "NotIn", "values": ["n9"]},
            ]
        }
    ]


def test_submitter_shuns_bad_nodes_but_need_not_fit_beside_the_replicas() -> None:
    rule = NodeRule(only=("n1",), exclude=("n9",))
    compute = OnDemand(type="on_demand", instances=("gpu.8",), nodes=rule)
    affinity = pods(rendered(ray(compute=compute)))["submitter"]["spec"]["affinity"]
    required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": HOST, "operator": "NotIn", "values": ["n9"]}]}
    ]


@pytest.mark.parametrize("rule", [None, NodeRule()])
def test_no_node_rule_is_no_affinity(rule: NodeRule | None) -> None:
    compute = OnDemand(type="on_demand", instances=("gpu.8",), nodes=rule)
    assert "affinity" not in pods(rendered(pytorch(compute=compute)))["master"]["spec"]


def test_every_pod_runs_under_the_authors_account_and_pulls_with_its_secrets() -> None:
    options = KubernetesOptions(service_account="trainer", image_pull_secrets=("a", "b", "a"))
    for pod in pods(rendered(ray(kubernetes=options, workers=1))).values():
        assert pod["spec"]["serviceAccountName"] == "trainer"
        assert pod["spec"]["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]


def test_metrics_are_found_by_annotation_and_by_monitor() -> None:
    manifest = rendered(pytorch(monitoring=Monitoring(port=9090, path="/m"), workers=1))
    for role in ("master", "worker"):
        annotations = pods(manifest)[role]["metadata"]["annotations"]
        assert {key: annotations[f"prometheus.io/{key}"] for key in ("scrape", "port", "path")} == {
            "scrape": "true",
            "port": "9090",
            "path": "/m",
        }
        port = {"name": "siflow-metrics", "containerPort": 9090, "protocol": "TCP"}
        assert container(manifest, role)["ports"] == [port]
    monitor = document(manifest, "PodMonitor")["spec"]
    assert monitor["podMetricsEndpoints"] == [{"port": "siflow-metrics", "path": "/m"}]
    labels = pods(manifest)["master"]["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()


def test_rays_own_metrics_keep_the_port_name_that_its_operator_looks_for() -> None:
    manifest = rendered(ray(monitoring=Monitoring(port=8080)))
    assert container(manifest, "head")["ports"][0]["name"] == "metrics"
    assert document(manifest, "PodMonitor")["spec"]["podMetricsEndpoints"][0]["port"] == "metrics"


def test_submitter_is_not_scraped() -> None:
    submitter = pods(rendered(ray(monitoring=Monitoring(port=9090))))["submitter"]
    assert "prometheus.io/scrape" not in submitter["metadata"]["annotations"]


def test_task_without_monitoring_opens_no_port() -> None:
    manifest = rendered(pytorch())
    assert "ports" not in container(manifest, "master")
    assert [item["kind"] for item in manifest.documents] == ["PyTorchJob"]
