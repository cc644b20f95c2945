from __future__ import annotations

import re
from dataclasses import replace

import pytest

from siflow_provider.backends.kubernetes.rendering import render
from siflow_provider.core.identity import MAX_NAME, Identity
from siflow_provider.core.protocol import RenderContext
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.policy import KubernetesOptions
from tests.unit.backends.kubernetes.tasks import (
    CPU,
    IDENTITY,
    context,
    document,
    job,
    pods,
    pytorch,
    ray,
    rendered,
    resolved,
)

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"


def test_queued_job_is_created_suspended_in_its_queue_with_its_priority() -> None:
    for form, place in ((pytorch(), ("runPolicy", "suspend")), (ray(), ("suspend",))):
        item = job(rendered(form, priority_class="wpc-high"))
        value = item["spec"]
        for key in place:
            value = value[key]
        assert value is True
        assert item["metadata"]["labels"][QUEUE] == "od"
        assert item["metadata"]["labels"][PRIORITY] == "wpc-high"


def test_limit_that_the_cluster_itself_holds_stands_on_a_queued_job_only() -> None:
    limit = "kueue.x-k8s.io/max-exec-time-seconds"
    for form in (pytorch(), ray()):
        for queued in (True, False):
            made = render(resolved(form), replace(context(queued=queued), last_net_seconds=4200))
            assert job(made)["metadata"]["labels"].get(limit) == ("4200" if queued else None)


@pytest.mark.parametrize("queued", [True, False])
def test_job_without_a_queue_starts_at_once(queued: bool) -> None:
    flavor = CPU if not queued else type(CPU)(instance="in-place", resources=CPU.resources)
    for form in (pytorch(), ray()):
        item = job(rendered(form, queued=queued, flavors=(flavor,), priority_class="wpc-high"))
        assert "suspend" not in item["spec"]
        assert "suspend" not in item["spec"].get("runPolicy", {})
        assert not {QUEUE, PRIORITY} & set(item["metadata"]["labels"])


@pytest.mark.parametrize("form", [pytorch(workers=1), ray(workers=1)], ids=["PyTorchJob", "RayJob"])
def test_queue_sees_one_job_because_no_pod_has_its_label(form: object) -> None:
    manifest = rendered(form, priority_class="wpc-high")  # type: ignore[arg-type]  # either kind
    for pod in pods(manifest).values():
        assert not any("kueue" in key for key in pod["metadata"]["labels"])


@pytest.mark.parametrize("form", [pytorch(workers=1), ray(workers=1)], ids=["PyTorchJob", "RayJob"])
def test_job_and_every_pod_say_whose_run_they_are(form: object) -> None:
    manifest = rendered(form, attempt=2)  # type: ignore[arg-type]  # either kind
    owner = IDENTITY.for_attempt(2)
    for metadata in [job(manifest)["metadata"], *(pod["metadata"] for pod in pods(manifest).values())]:
        assert owner.labels().items() <= metadata["labels"].items()
        assert owner.annotations().items() <= metadata["annotations"].items()
        assert metadata["annotations"]["siflow-provider/user"] == "ada"


def test_every_pod_says_its_role() -> None:
    roles = {
        role: pod["metadata"]["labels"]["siflow-provider/role"] for role, pod in pods(rendered(ray(workers=1))).items()
    }
    assert roles == {"head": "head", "worker": "worker", "submitter": "submitter"}


def test_labels_of_the_author_are_on_the_job_and_all_pods() -> None:
    manifest = rendered(ray(labels={"team": "nlp"}, workers=1))
    for metadata in [job(manifest)["metadata"], *(pod["metadata"] for pod in pods(manifest).values())]:
        assert metadata["labels"]["team"] == "nlp"


@pytest.mark.parametrize("value", ["x" * 64, "équipe", "two words", "-lead", "日本"])
def test_label_value_that_kubernetes_refuses_becomes_an_annotation(value: str) -> None:
    metadata = job(rendered(pytorch(labels={"team": value})))["metadata"]
    assert "team" not in metadata["labels"]
    assert metadata["annotations"]["team"] == value


def test_private_and_shared_tasks_are_told_apart_and_filed_under_their_group() -> None:
    private = job(rendered(pytorch(project_group="nlp")))["metadata"]["labels"]
    shared = job(rendered(pytorch(project_group="nlp", visible_in_group=True)))["metadata"]["labels"]
    assert private["siflow-provider/visible-in-group"] == "false"
    assert shared["siflow-provider/visible-in-group"] == "true"
    assert private["siflow-provider/project-group"] == "nlp"


def test_every_object_lies_in_the_groups_namespace() -> None:
    manifest = rendered(pytorch(), namespace="team-nlp")
    assert {item["metadata"]["namespace"] for item in manifest.documents} == {"team-nlp"}
    assert all("namespace" not in item["metadata"] for item in rendered(pytorch()).documents)


def test_what_belongs_to_the_job_says_whose_it_is_and_nothing_else() -> None:
    options = KubernetesOptions(annotations={"example.com/net": "rdma"})
    form = pytorch(labels={"team": "nlp"}, kubernetes=options, ssh=True)
    metadata = document(rendered(form), "ConfigMap")["metadata"]
    assert set(metadata["labels"]) == {"app.kubernetes.io/managed-by", *IDENTITY.labels()}
    assert metadata["annotations"] == IDENTITY.annotations()


def test_annotations_of_the_author_are_on_the_job_and_all_pods() -> None:
    options = KubernetesOptions(annotations={"example.com/net": "rdma"})
    manifest = rendered(pytorch(kubernetes=options, workers=1))
    for metadata in [job(manifest)["metadata"], *(pod["metadata"] for pod in pods(manifest).values())]:
        assert metadata["annotations"]["example.com/net"] == "rdma"


@pytest.mark.parametrize("prefix", [None, "bert", "9lives", "a" * 35])
@pytest.mark.parametrize("attempt", [1, 2, 1000])
def test_job_name_fits_every_controller(prefix: str | None, attempt: int) -> None:
    identity = Identity(dag_id="Señal." * 40, task_id="trains it", run_id="r").for_attempt(attempt)
    name = render(resolved(pytorch(name_prefix=prefix)), RenderContext(identity=identity)).name
    assert len(name) <= MAX_NAME
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)


def test_all_objects_of_a_run_are_found_by_its_name() -> None:
    manifest = rendered(ray(), hidden={"TOKEN": Hidden("a-token")})
    assert job(manifest)["metadata"]["name"] == manifest.name
    assert document(manifest, "ConfigMap")["metadata"]["name"] == f"{manifest.name}-files"
    assert document(manifest, "Secret")["metadata"]["name"] == f"{manifest.name}-env"


def test_same_task_and_identity_give_the_same_manifest_and_another_try_gives_another() -> None:
    first, second = (rendered(pytorch(labels={"b": "1", "a": "2"})).documents for _ in range(2))
    assert repr(first) == repr(second)
    other = RenderContext(identity=IDENTITY.model_copy(update={"try_number": 2}))
    assert render(resolved(pytorch()), other).name != render(resolved(pytorch()), context()).name
