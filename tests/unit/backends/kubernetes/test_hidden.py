from __future__ import annotations

import json

import yaml

from siflow_provider.backends.kubernetes.rendering import revealed
from siflow_provider.spec.hidden import Hidden
from tests.unit.backends.kubernetes.tasks import document, pytorch, ray, rendered

CANARY = "s3cr3t-canary-value"


def test_hidden_value_is_in_no_document_and_in_no_text_of_the_manifest() -> None:
    for form in (pytorch(workers=1), ray(workers=1)):
        manifest = rendered(form, hidden={"TOKEN": Hidden(CANARY)})
        assert CANARY not in json.dumps(manifest.documents)
        assert CANARY not in repr(manifest)
        assert document(manifest, "Secret")["stringData"] == {"TOKEN": "***"}
        assert manifest.hidden["TOKEN"].reveal() == CANARY


def test_who_submits_gets_the_values_in_their_secret_and_nothing_else_changed() -> None:
    manifest = rendered(pytorch(), hidden={"B": Hidden("bbbbb"), "A": Hidden(CANARY)})
    documents = revealed(manifest)
    secret = next(item for item in documents if item["kind"] == "Secret")
    assert secret["stringData"] == {"A": CANARY, "B": "bbbbb"}
    assert [item for item in documents if item is not secret] == [
        item for item in manifest.documents if item["kind"] != "Secret"
    ]
    assert document(manifest, "Secret")["stringData"] == {"A": "***", "B": "***"}


def test_task_without_hidden_values_has_no_secret() -> None:
    assert [item["kind"] for item in rendered(pytorch()).documents] == ["PyTorchJob"]
    assert [item["kind"] for item in rendered(ray()).documents] == ["RayJob", "ConfigMap"]


def test_manifest_is_made_of_json_and_yaml_types_only() -> None:
    manifest = rendered(ray(workers=1), hidden={"TOKEN": Hidden(CANARY)})
    text = yaml.safe_dump_all([dict(item) for item in manifest.documents])
    assert list(yaml.safe_load_all(text)) == json.loads(json.dumps(manifest.documents))
