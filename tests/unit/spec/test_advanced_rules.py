"""Rules of the form's section "Advanced": what is wrong, where it is said, and what is said."""

from __future__ import annotations

import pytest

from siflow_provider.spec import Catalog
from tests.unit.spec.forms import P, Row, assert_wrong

WRONG: list[Row] = [
    *[
        (f"{field} {value!r}", P, {field: value}, field, ["more than 0"])
        for field in ("queue_timeout", "start_timeout", "fault_tolerance.hang_timeout")
        for value in (0, -5, "0s")
    ],
    ("queue_timeout text", P, {"queue_timeout": "1w"}, "queue_timeout", ["'1w' is no duration", "1h30m"]),
    ("queue_timeout true", P, {"queue_timeout": True}, "queue_timeout", ["is no duration"]),
    ("start_timeout without end", P, {"start_timeout": float("inf")}, "start_timeout", ["finite"]),
    ("start_timeout too long", P, {"start_timeout": 1e12}, "start_timeout", ["ten years"]),
    ("max_retries", P, {"fault_tolerance": {"max_retries": -1}}, "fault_tolerance.max_retries", ["at least 0"]),
    (
        "retry_on",
        P,
        {"fault_tolerance": {"max_retries": 1, "retry_on": ["node-lst"]}},
        "fault_tolerance.retry_on[0]",
        ["did you mean 'node-lost'?"],
    ),
    ("monitoring port 0", P, {"monitoring": {"port": 0}}, "monitoring.port", ["1 to 65535"]),
    ("monitoring port 65536", P, {"monitoring": {"port": 65536}}, "monitoring.port", ["1 to 65535"]),
    ("monitoring port is required", P, {"monitoring": {}}, "monitoring.port", ["is required"]),
    (
        "monitoring path",
        P,
        {"monitoring": {"port": 1, "path": "metrics"}},
        "monitoring.path",
        ["did you mean '/metrics'?"],
    ),
    ("image_pull_retries", P, {"image_pull_retries": -2}, "image_pull_retries", ["at least -1", "never give up"]),
    ("ssh", P, {"ssh": 1}, "ssh", ["neither true nor false"]),
    ("alert to is required", P, {"alerts": [{"events": ["failed"]}]}, "alerts[0].to", ["is required"]),
    ("alert to is empty", P, {"alerts": [{"events": ["failed"], "to": []}]}, "alerts[0].to", ["must not be empty"]),
    ("alert events is empty", P, {"alerts": [{"events": [], "to": ["x"]}]}, "alerts[0].events", ["must not be empty"]),
    (
        "alert event",
        P,
        {"alerts": [{"events": ["faild"], "to": ["x"]}]},
        "alerts[0].events[0]",
        ["did you mean 'failed'?"],
    ),
    ("alert event twice", P, {"alerts": [{"events": ["hang", "hang"], "to": ["x"]}]}, "alerts[0].events[1]", ["twice"]),
    (
        "alert queued_too_long alone",
        P,
        {"alerts": [{"events": ["queued_too_long"], "to": ["x"]}]},
        "alerts[0].events[0]",
        ["30m"],
    ),
    (
        "alert queued_too_long of nothing",
        P,
        {"alerts": [{"events": [{"queued_too_long": 0}], "to": ["x"]}]},
        "alerts[0].events[0].queued_too_long",
        ["more than 0"],
    ),
    (
        "alert event with an unknown key",
        P,
        {"alerts": [{"events": [{"queued_too_long": "5m", "queued_to_long": "5m"}], "to": ["x"]}]},
        "alerts[0].events[0].queued_to_long",
        ["did you mean 'queued_too_long'?"],
    ),
    (
        "patch of the name",
        P,
        {"kubernetes.patch": {"metadata": {"name": "x"}}},
        "kubernetes.patch.metadata.name",
        ["name_prefix"],
    ),
    ("patch of the kind", P, {"kubernetes.patch": {"kind": "Pod"}}, "kubernetes.patch.kind", ["may not be patched"]),
    ("patch with no number", P, {"kubernetes.patch": {"a": float("nan")}}, "kubernetes.patch.a", ["finite number"]),
    ("patch with an object", P, {"kubernetes.patch": {"a": [object()]}}, "kubernetes.patch.a[0]", ["can't be sent"]),
    ("service account", P, {"kubernetes.service_account": "A_b"}, "kubernetes.service_account", ["Kubernetes"]),
    (
        "toleration key",
        P,
        {"kubernetes.tolerations": [{"efect": "NoSchedule"}]},
        "kubernetes.tolerations[0].efect",
        ["'effect'"],
    ),
    (
        "toleration effect",
        P,
        {"kubernetes.tolerations": [{"key": "a", "effect": "NoShedule"}]},
        "kubernetes.tolerations[0].effect",
        ["did you mean 'NoSchedule'?"],
    ),
    (
        "toleration without a key",
        P,
        {"kubernetes.tolerations": [{"effect": "NoSchedule"}]},
        "kubernetes.tolerations[0].operator",
        ["must be Exists"],
    ),
    (
        "toleration for a time of no eviction",
        P,
        {"kubernetes.tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 60}]},
        "kubernetes.tolerations[0].effect",
        ["NoExecute"],
    ),
    ("node selector", P, {"kubernetes.node_selector": {"-": "x"}}, "kubernetes.node_selector.-", ["label key"]),
]


@pytest.mark.parametrize("row", WRONG, ids=[row[0] for row in WRONG])
def test_wrong_form_names_path_value_rule_and_choice(row: Row, catalog: Catalog) -> None:
    assert_wrong(row, catalog)
