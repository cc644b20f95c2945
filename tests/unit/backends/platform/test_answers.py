from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siflow_provider.backends.platform.answers import read_answer
from siflow_provider.backends.platform.errors import NotFound, Refused, Unreadable
from siflow_provider.backends.platform.wire import Brief, Pod, read_tasks
from siflow_provider.errors import AccessDenied, BackendError, BackendUnavailable

WHAT = "GET /task-service/v1/tasks"
SHAPES: list[tuple[dict[str, Any], Any, int | None]] = [
    ({"status": True, "msg": "", "data": {"uuid": "u"}}, {"uuid": "u"}, None),
    ({"status": True, "msg": "", "total": 7, "rows": [{"a": 1}]}, [{"a": 1}], 7),
    ({"status": True, "msg": "", "total": 2, "page": 1, "pageSize": 9, "data": []}, [], 2),
    ({"totalGpu": 4}, {"totalGpu": 4}, None),
]


@pytest.mark.parametrize(("body", "data", "total"), SHAPES, ids=["data", "rows", "counts", "bare"])
def test_every_documented_envelope_is_read(body: dict[str, Any], data: Any, total: int | None) -> None:
    answer = read_answer(WHAT, 200, json.dumps(body))
    assert (answer.data, answer.total) == (data, total)


@pytest.mark.parametrize("ids", [{"requestID": "r-1", "traceID": "t-1"}, {"request_id": "r-1", "trace_id": "t-1"}])
def test_ids_for_support_are_in_every_error(ids: dict[str, str]) -> None:
    body = json.dumps({"status": False, "msg": "no such pool here", **ids})
    for code in (200, 400, 401, 403, 404, 500):
        with pytest.raises(BackendError, match="request id r-1, trace id t-1"):
            read_answer(WHAT, code, body)


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (200, "quota is not enough", Refused),
        (200, "task not found", NotFound),
        (400, "bad", Refused),
        (401, "bad signature", AccessDenied),
        (403, "not yours", AccessDenied),
        (404, "gone", NotFound),
        (409, "conflict", Refused),
        (422, "wrong", Refused),
        (429, "slow down", BackendUnavailable),
        (502, "bad gateway", BackendUnavailable),
    ],
)
def test_what_is_wrong_has_its_own_error_with_the_platforms_words(
    code: int, message: str, kind: type[BackendError]
) -> None:
    with pytest.raises(kind, match=message):
        read_answer(WHAT, code, json.dumps({"status": False, "msg": message}))


def test_a_proxys_page_is_told_as_such() -> None:
    with pytest.raises(Unreadable, match="base URL"):
        read_answer(WHAT, 200, "<html>Sign in</html>")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KNOWN = st.sampled_from(["status", "msg", "data", "rows", "total", "requestID", "traceID", "uuid", "taskEnv"])


@given(code=st.sampled_from([200, 201, 400, 404, 500]), body=st.dictionaries(KNOWN, JSON, max_size=6) | JSON)
def test_whatever_comes_is_an_answer_or_one_of_our_errors(code: int, body: Any) -> None:
    try:
        answer = read_answer(WHAT, code, json.dumps(body))
    except BackendError:
        return
    assert isinstance(answer.rows, list)


TEXT = st.text(max_size=12)
TASK = st.fixed_dictionaries(
    {"uuid": st.uuids().map(str)},
    optional={
        "name": st.text() | st.none(),
        "status": st.text() | st.none(),
        "createTime": st.text() | st.integers() | st.none() | st.datetimes().map(str),
        "taskEnv": st.none()
        | st.lists(st.fixed_dictionaries({"envKey": st.text(), "envValue": st.text() | st.none()})),
        "queueInfo": st.none() | st.just({"rankInPool": 3, "somethingNew": [1]}),
        "somethingNew": JSON,
    },
)


@given(st.lists(TASK, max_size=3))
def test_tasks_of_a_newer_server_are_read(rows: list[dict[str, Any]]) -> None:
    assert len(read_tasks(rows)) == len({row["uuid"] for row in rows})


def test_what_is_only_shown_may_have_another_shape() -> None:
    odd = {"queueInfo": {"aheadInPool": "first"}, "selectedInstances": 3, "enhancements": "on"}
    task = read_tasks([{"uuid": "u", "status": "Queueing", **odd}])[0]
    assert task.queue_info is None
    assert Pod.model_validate({"name": "p", "exitCode": ""}).exit_code is None


def test_a_row_that_can_not_be_read_is_told_with_ids_and_without_values() -> None:
    with pytest.raises(BackendUnavailable, match=r"\(request id r-1\) can't be read as a Brief: taskEnv") as caught:
        read_tasks([{"uuid": "u", "taskEnv": {"TOKEN": "s3cr3t-s3cr3t"}}], "request id r-1")
    assert "s3cr3t" not in str(caught.value)


def test_a_hidden_value_is_never_kept() -> None:
    row = {"uuid": "u", "taskEnv": [{"envKey": "TOKEN", "envValue": "s3cr3t-s3cr3t", "hide": True}]}
    assert "s3cr3t" not in repr(Brief.model_validate(row))


def test_both_spellings_of_a_pods_reason_are_read() -> None:
    assert Pod.model_validate({"name": "p", "reason": "OOMKilled"}).why == "OOMKilled"
    assert Pod.model_validate({"name": "p", "statusMsg": "Evicted"}).why == "Evicted"
