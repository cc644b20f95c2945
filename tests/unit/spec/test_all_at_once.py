"""All errors of a form at once, whatever kind they are of."""

from __future__ import annotations

from siflow_provider.spec import Catalog, check
from tests.unit.spec.forms import BASES, P, changed

VOLUME = {"name": "team-data", "mount_path": "/volume/data"}


def test_wrong_kind_and_keys_given_twice_hide_no_other_error(catalog: Catalog) -> None:
    text = "kind: RayJop\nimage: A\nimage: B\ncommand: ' '\nray: {}\ncompute: {type: spot, instances: []}\n"
    found = [(problem.path, problem.line) for problem in check(text, catalog=catalog).errors]
    assert found == [
        ("kind", 1),
        ("labels.team", 1),
        ("image", 3),
        ("image", 3),
        ("command", 4),
        ("compute.instances", 6),
    ]


def test_all_errors_of_a_form_are_told_at_once(catalog: Catalog) -> None:
    form = changed(
        BASES[P],
        {
            "wrokers": 1,
            "workers": 1.5,
            "priority": "hihg",
            "env": {"RANK": "1", "X": None},
            "volumes": [VOLUME, VOLUME | {"name": "team-dat"}],
            "compute": {
                "type": "idle",
                "instances": ["gpu.a100-8", "gpu.a100-8"],
                "guarantee": True,
                "stability": "low",
            },
            "labels": {"team": "nlpp"},
            "region": "cn-eats",
        },
    )
    found = {problem.path for problem in check(form, catalog=catalog).errors}
    assert found == {
        "wrokers",
        "workers",
        "priority",
        "env.RANK",
        "env.X",
        "volumes[1].mount_path",
        "volumes[1].name",
        "compute.guarantee",
        "compute.instances[1]",
        "labels.team",
        "region",
    }
