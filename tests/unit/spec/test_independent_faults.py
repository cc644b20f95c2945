"""Faults that have nothing to do with each other: none of them hides another, whatever they are of."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from siflow_provider.spec import Catalog, check, load_catalog
from tests.drawing import examples
from tests.unit.spec import (
    test_advanced_rules,
    test_basics_rules,
    test_compute_rules,
    test_environment_rules,
    test_mount_rules,
    test_ray_rules,
)
from tests.unit.spec.forms import BASES, CATALOG, PYTORCH, P, R, Row, changed
from tests.unit.spec.strategies import damaged

LOADED = load_catalog(CATALOG)
FAULTS: list[Row] = [
    row
    for rules in (
        test_basics_rules,
        test_compute_rules,
        test_environment_rules,
        test_mount_rules,
        test_advanced_rules,
        test_ray_rules,
    )
    for row in rules.WRONG
]
"""Of single fields, of fields that contradict each other, and of names that the catalog lacks."""


def is_one_of(row: Row, kind: str) -> bool:
    """Say whether a fault is one, and the only one, of a task of this kind; a RayJob is told by its `kind`."""
    errors = check(changed(BASES[kind], row[2]), catalog=LOADED).errors
    return [problem.path for problem in errors] == [row[3]] and not (kind == R and row[3] == "kind")


BY_KIND = {kind: [row for row in FAULTS if is_one_of(row, kind)] for kind in (P, R)}
READS = {
    "a RayJob field on a PyTorchJob": ("kind",),
    "instance of another region": ("region", "cluster"),
    "no queue in this cluster": ("region", "cluster"),
    "pool of another group": ("project_group",),
    "volume of another group": ("project_group",),
    "a field of reserved": ("compute.type",),
    "instances is required": ("compute.type",),
}
"""Fault -> the other fields that its rule reads; where one of them is wrong, nothing can be said about it."""


def places(row: Row) -> list[tuple[Any, ...]]:
    """Return the places that a fault is about."""
    paths = (*row[2], *READS.get(row[0], ()))
    return [path if isinstance(path, tuple) else tuple(path.split(".")) for path in paths]


def are_apart(one: Row, other: Row) -> bool:
    """Say whether two faults are about different places of the form."""
    return not any(mine[: len(theirs)] == theirs[: len(mine)] for mine in places(one) for theirs in places(other))


@st.composite
def independent(draw: st.DrawFn) -> tuple[str, list[Row]]:
    """Draw a kind of task, and two or three faults of it that are apart."""
    kind = draw(st.sampled_from((P, R)))
    chosen = [draw(st.sampled_from(BY_KIND[kind]))]
    for _ in range(draw(st.integers(1, 2))):
        rest = [row for row in BY_KIND[kind] if all(are_apart(row, one) for one in chosen)]
        chosen.append(draw(st.sampled_from(rest)))
    return kind, chosen


@settings(max_examples=examples(1000), deadline=None)
@given(independent())
def test_every_one_of_several_independent_faults_is_told_once(drawn: tuple[str, list[Row]]) -> None:
    kind, faults = drawn
    form = BASES[kind]
    for fault in faults:
        form = changed(form, fault[2])
    told = [(problem.path, problem.message) for problem in check(form, catalog=LOADED).errors]
    assert {fault[3] for fault in faults} <= {path for path, _ in told}
    assert len(told) == len(set(told))


def test_the_table_holds_faults_of_fields_of_rules_and_of_the_catalog() -> None:
    paths = {kind: {row[3] for row in rows} for kind, rows in BY_KIND.items()}
    for kind in (P, R):
        own = "env.MASTER_ADDR" if kind == P else "env.RAY_ADDRESS"
        assert {"workers", own, "compute", "labels.team"} <= paths[kind]
    assert len(BY_KIND[P]) > 150
    assert len(BY_KIND[R]) > 150


@given(
    damaged(),
    st.sampled_from(
        [
            ("workers", -5, "workers"),
            ("priority", "hihg", "priority"),
            ("project_group", "visoin", "project_group"),
            ("labels", {"team": "nlpp"}, "labels.team"),
            ("models", [{"name": "lama-8b", "mount_path": "/mnt/m"}], "models[0].name"),
        ]
    ),
)
def test_no_damage_elsewhere_hides_a_fault(form: Any, planted: tuple[str, Any, str]) -> None:
    assume(isinstance(form, dict))
    field, value, path = planted
    assert path in {problem.path for problem in check({**form, field: value}, catalog=LOADED).errors}


def test_a_form_that_is_wrong_all_over_tells_everything_at_once(catalog: Catalog) -> None:
    form = {
        "kind": "RayJob",
        "labels": {"team": "nlp2"},
        "project_group": "nlpp",
        "image": {"preset": "raay", "version": "2.60"},
        "command": "python x",
        "compute": {
            "type": "idle",
            "instances": ["gpu.a100-8", "gpu.a100-8"],
            "units_per_replica": 0,
            "stability": "lowest",
            "guarantee": True,
            "pool": "x",
        },
        "workers": True,
        "priority": "high",
        "ray": {
            "autoscaling": {"min_workers": 3, "max_workers": 2},
            "runtime_env": {"pipp": ["a"]},
            "shared_storage": {"volume": "nope"},
        },
    }
    assert sorted(problem.path for problem in check(form, catalog=catalog).errors) == [
        "compute.guarantee",
        "compute.instances[1]",
        "compute.pool",
        "compute.stability",
        "compute.units_per_replica",
        "image.preset",
        "labels.team",
        "priority",
        "project_group",
        "ray.autoscaling.max_workers",
        "ray.runtime_env.pipp",
        "ray.shared_storage.volume",
        "workers",
    ]


def test_fields_of_a_compute_whose_type_is_wrong_are_checked_too(catalog: Catalog) -> None:
    compute = {"instances": ["gpu.h100-8", "gpu.h100-8"], "units_per_replica": 0, "stability": "lowest"}
    for kind in ({}, {"type": "cheap"}):
        errors = check(changed(BASES[P], {"compute": compute | kind}), catalog=catalog).errors
        assert {problem.path for problem in errors} == {
            "compute.type",
            "compute.units_per_replica",
            "compute.stability",
            "compute.instances[1]",
        }


def test_a_wrong_key_or_value_of_a_mapping_hides_none_of_its_others(catalog: Catalog) -> None:
    changes = {
        "env": {"RANK": "0", 1: "x", "A B": "x", "X": None, "MASTER_PORT": "1"},
        ("labels",): {"bad key": ["x"], 7: "x", "team": "nlpp"},
        "region": "cn-eats",
        "cluster": "alhpa",
    }
    paths = {problem.path for problem in check(changed(BASES[P], changes), catalog=catalog).errors}
    assert paths == {
        *("env", "env.RANK", "env.A B", "env.X", "env.MASTER_PORT"),
        *("labels.bad key", "labels.7", "labels.team", "region", "cluster"),
    }


def test_a_wrong_region_narrows_nothing(catalog: Catalog) -> None:
    changes = {"region": "cn-eats", "compute.instances": ["gpu.h100-8"], "volumes": []}
    assert [one.path for one in check(changed(BASES[P], changes), catalog=catalog).errors] == ["region"]


def test_a_list_written_as_text_is_looked_up_where_it_is_right(catalog: Catalog) -> None:
    volumes = "[{'name': 'nope', 'mount_path': '/etc'}, {'name': 'team-dat', 'mount_path': '/mnt/b'}]"
    errors = check(changed(BASES[P], {"volumes": volumes}), catalog=catalog).errors
    assert {one.path for one in errors} == {"volumes[0].mount_path", "volumes[0].name", "volumes[1].name"}


def test_pool_is_told_beside_a_wrong_instance_and_a_wrong_group(catalog: Catalog) -> None:
    compute = {"type": "reserved", "pool": "shard", "instance": "gpu.h10-8"}
    errors = check(changed(PYTORCH, {"compute": compute, "project_group": "nlpp"}), catalog=catalog).errors
    told = {problem.path: problem.message for problem in errors}
    assert sorted(told) == ["compute.instance", "compute.pool", "project_group"]
    assert "'shard' is no pool of the catalog" in told["compute.pool"]
    assert "did you mean 'shared'?" in told["compute.pool"]


def test_length_of_an_event_without_one_is_one_error() -> None:
    alerts = [{"events": [{"queued_too_long": "30m"}, {"started": "1m"}], "to": ["x"]}]
    (problem,) = check(changed(PYTORCH, {"alerts": alerts})).errors
    assert problem.path == "alerts[0].events[1]"
    assert problem.message.startswith("started takes no length, only queued_too_long does")
