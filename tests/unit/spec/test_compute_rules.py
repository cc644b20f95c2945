"""Rules of the form's section "Compute": what is wrong, where it is said, and what is said."""

from __future__ import annotations

import pytest

from siflow_provider.spec import Catalog
from tests.unit.spec.forms import DROP, P, Row, assert_wrong

IDLE = {"type": "idle", "instances": ["gpu.a100-8"], "stability": "low"}
RESERVED = {"type": "reserved", "pool": "shared", "instance": "gpu.h100-8"}
IN_PLACE = {"cpu": 4, "memory": "16Gi"}
WRONG: list[Row] = [
    ("compute is required", P, {"compute": DROP}, "compute", ["is required"]),
    ("compute is a mapping", P, {"compute": "gpu"}, "compute", ["must be a mapping"]),
    ("compute type is required", P, {"compute.type": DROP}, "compute.type", ["reserved, on_demand, spot, idle"]),
    ("compute type", P, {"compute.type": "ondemand"}, "compute.type", ["'ondemand'", "did you mean 'on_demand'?"]),
    (
        "a field of another type",
        P,
        {"compute": RESERVED | {"guarantee": True}},
        "compute.guarantee",
        ["on_demand, spot"],
    ),
    ("a field of reserved", P, {"compute.accept_idle": True}, "compute.accept_idle", ["is a field of reserved"]),
    ("a list on reserved", P, {"compute": RESERVED | {"instances": ["x"]}}, "compute.instances", ["one `instance`"]),
    ("one instance on on_demand", P, {"compute.instance": "x"}, "compute.instance", ["a list, `instances`"]),
    (
        "pool is required",
        P,
        {"compute": {"type": "reserved", "instance": "gpu.h100-8"}},
        "compute.pool",
        ["is required"],
    ),
    (
        "pool of the catalog",
        P,
        {"compute": RESERVED | {"pool": "shard"}},
        "compute.pool",
        ["'shard'", "did you mean 'shared'?"],
    ),
    (
        "pool of another group",
        P,
        {"compute": {"type": "reserved", "pool": "vision-only", "instance": "gpu.a100-8"}},
        "compute.pool",
        ["'vision-only' is no pool of the catalog for you", "shared"],
    ),
    (
        "prefer_idle alone",
        P,
        {"compute": RESERVED | {"prefer_idle": True}},
        "compute.prefer_idle",
        ["needs accept_idle: true"],
    ),
    (
        "idle_stability alone",
        P,
        {"compute": RESERVED | {"idle_stability": "low"}},
        "compute.idle_stability",
        ["accept_idle"],
    ),
    (
        "idle_stability that no queue gives",
        P,
        {"compute": RESERVED | {"accept_idle": True, "idle_stability": "low"}},
        "compute",
        ["stability low", "stability high/medium"],
    ),
    ("instances is required", P, {"compute.instances": DROP}, "compute.instances", ["is required"]),
    ("instances is empty", P, {"compute.instances": []}, "compute.instances", ["one instance or more"]),
    (
        "instances is a list",
        P,
        {"compute.instances": "gpu.h100-8"},
        "compute.instances",
        ["a list", "write [gpu.h100-8]"],
    ),
    (
        "instance in the catalog",
        P,
        {"compute.instances": ["gpu.h100-9"]},
        "compute.instances[0]",
        ["did you mean 'gpu.h100-8'?"],
    ),
    ("instance of another region", P, {"compute.instances": ["west.1"]}, "compute.instances[0]", ["region 'cn-east'"]),
    ("instance of a wrong type", P, {"compute.instances": [5]}, "compute.instances[0]", ["catalog name or amounts"]),
    ("instances repeated", P, {"compute.instances": ["gpu.h100-8"] * 2}, "compute.instances[1]", ["listed twice"]),
    ("instances of two kinds", P, {"compute.instances": ["gpu.h100-8", "cpu.16"]}, "compute.instances[1]", ["mixed"]),
    (
        "in-place instances of two kinds",
        P,
        {"compute.instances": [IN_PLACE, IN_PLACE | {"gpu": 1}]},
        "compute.instances[1]",
        ["GPU and CPU"],
    ),
    ("in-place without memory", P, {"compute.instances": [{"cpu": 4}]}, "compute.instances[0].memory", ["is required"]),
    (
        "in-place quantity",
        P,
        {"compute.instances": [{"cpu": "4 cores", "memory": "1Gi"}]},
        "compute.instances[0].cpu",
        ["500m"],
    ),
    ("in-place GPUs", P, {"compute.instances": [IN_PLACE | {"gpu": -1}]}, "compute.instances[0].gpu", ["at least 0"]),
    (
        "in-place unknown key",
        P,
        {"compute.instances": [IN_PLACE | {"gpus": 1}]},
        "compute.instances[0].gpus",
        ["'gpu'"],
    ),
    (
        "no queue for the instance",
        P,
        {"compute": {"type": "spot", "instances": ["gpu.h100-8"]}},
        "compute",
        ["no queue", "on_demand"],
    ),
    (
        "no queue with the guarantee",
        P,
        {"compute": {"type": "spot", "instances": ["gpu.a100-8"], "guarantee": True}},
        "compute",
        ["guarantee: true"],
    ),
    (
        "no queue with the stability",
        P,
        {"compute": IDLE | {"stability": "high"}},
        "compute",
        ["stability high", "low/medium"],
    ),
    ("no queue in this cluster", P, {"compute": {"type": "spot", "instances": ["cpu.16"]}}, "compute", ["no queue"]),
    ("units at least 1", P, {"compute.units_per_replica": 0}, "compute.units_per_replica", ["at least 1"]),
    ("units whole", P, {"compute.units_per_replica": 1.5}, "compute.units_per_replica", ["not a whole number"]),
    (
        "fallback_after",
        P,
        {"compute.fallback_after": "soon"},
        "compute.fallback_after",
        ["'soon'", "90s, 15m or 1h30m"],
    ),
    ("priority on idle", P, {"compute": IDLE, "priority": "low"}, "priority", ["idle compute has no priority"]),
    ("guarantee on idle", P, {"compute": IDLE | {"guarantee": True}}, "compute.guarantee", ["can't be guaranteed"]),
    (
        "idle stability is required",
        P,
        {"compute": {"type": "idle", "instances": ["gpu.a100-8"]}},
        "compute.stability",
        ["is required"],
    ),
    ("idle stability", P, {"compute": IDLE | {"stability": "hgh"}}, "compute.stability", ["did you mean 'high'?"]),
    (
        "node in both lists",
        P,
        {"compute.nodes": {"only": ["a"], "exclude": ["a"]}},
        "compute.nodes.only[0]",
        ["also excluded"],
    ),
    ("node rule key", P, {"compute.nodes": {"include": ["a"]}}, "compute.nodes.include", ["unknown key"]),
    ("workers 1.5", P, {"workers": 1.5}, "workers", ["1.5 is not a whole number"]),
    ("workers 2.0", P, {"workers": 2.0}, "workers", ["2.0 is not a whole number"]),
    ("workers true", P, {"workers": True}, "workers", ["true is not a whole number"]),
    ("workers negative", P, {"workers": -1}, "workers", ["-1 is too small", "at least 0"]),
    ("workers without measure", P, {"workers": 10**5000}, "workers", ["a huge number is too large"]),
    ("workers text", P, {"workers": "two"}, "workers", ["'two' is not a whole number"]),
    ("priority", P, {"priority": "hihg"}, "priority", ["'hihg'", "did you mean 'high'?"]),
]


@pytest.mark.parametrize("row", WRONG, ids=[row[0] for row in WRONG])
def test_wrong_form_names_path_value_rule_and_choice(row: Row, catalog: Catalog) -> None:
    assert_wrong(row, catalog)
