"""The real CRDs' own words about what is rendered."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.golden.crds import faults
from tests.golden.manifests import FORMS, rendered
from tests.unit.backends.kubernetes.tasks import job, pytorch
from tests.unit.backends.kubernetes.tasks import rendered as rendered_by_hand

WITHOUT_TEMPLATES = [form for form in FORMS if form.stem != "templates"]


@pytest.mark.parametrize("form", WITHOUT_TEMPLATES, ids=lambda path: path.stem)
def test_every_field_of_every_example_is_known_to_the_crd(form: Path) -> None:
    assert faults(rendered(form).documents[0]) == []


def _worker(item: Any) -> Any:
    return item["spec"]["pytorchReplicaSpecs"]["Worker"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda item: item["spec"].update(runPolcy={}),
        lambda item: _worker(item).update(replicas="2"),
        lambda item: _worker(item)["template"]["spec"]["containers"][0].update(volumeMount=[]),
        lambda item: _worker(item)["template"]["spec"]["containers"][0]["env"].append({"name": "A", "value": 1}),
    ],
)
def test_the_check_would_see_a_wrong_field(spoil: Any) -> None:
    item = copy.deepcopy(job(rendered_by_hand(pytorch(workers=1))))
    assert faults(item) == []
    spoil(item)
    assert faults(item) != []
