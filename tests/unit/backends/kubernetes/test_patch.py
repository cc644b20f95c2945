from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.patch import apply_patch
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.policy import KubernetesOptions
from tests.unit.backends.kubernetes.tasks import job, pytorch, rendered

# source: RFC 7396, appendix A
RFC_CASES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "result"), RFC_CASES)
def test_patch_is_merged_as_the_rfc_says(target: Any, patch: Any, result: Any) -> None:
    assert apply_patch(target, patch) == result


def test_patch_comes_last_and_wins() -> None:
    patch = {"spec": {"runPolicy": {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 60}}}
    policy = job(rendered(pytorch(kubernetes=KubernetesOptions(patch=patch))))["spec"]["runPolicy"]
    assert policy == {"suspend": True, "cleanPodPolicy": "All", "ttlSecondsAfterFinished": 60}


def test_patch_touches_the_job_alone_so_that_hidden_values_stay_in_their_secret() -> None:
    patch = {"data": {"x": "y"}, "stringData": {"TOKEN": "shown"}, "spec": {"nprocPerNode": "auto"}}
    form = pytorch(kubernetes=KubernetesOptions(patch=patch))
    plain = rendered(pytorch(), hidden={"TOKEN": Hidden("s3cr3t-value")})
    patched = rendered(form, hidden={"TOKEN": Hidden("s3cr3t-value")})
    assert patched.documents[1:] == plain.documents[1:]


def test_empty_patch_changes_nothing() -> None:
    assert rendered(pytorch(kubernetes=KubernetesOptions(patch={}))).documents == rendered(pytorch()).documents
