"""Random right forms, and random damage to them."""

from __future__ import annotations

import datetime
import math
from copy import deepcopy
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

from hypothesis import strategies as st

from siflow_provider.spec import Hidden
from siflow_provider.spec.policy import ALERT_EVENTS

text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
plain = text.filter(lambda value: "{" not in value)
filled = plain.filter(lambda value: value.strip() != "" and not value.strip().startswith("["))
word = st.from_regex(r"[a-z][a-z0-9-]{0,10}[a-z0-9]", fullmatch=True)
env_name = st.from_regex(r"MY_[A-Z0-9_]{0,10}", fullmatch=True)
seconds = st.one_of(
    st.integers(1, 10**8),
    st.floats(0.001, 1e8).filter(lambda value: value > 0),
    st.from_regex(r"[1-9][0-9]{0,2}[smhd]", fullmatch=True),
)
template = st.sampled_from(["{{ params.x }}", "a{{ ds }}", "{% if x %}1{% endif %}"])
quantity = st.sampled_from(["1", "500m", "16Gi", "1.5Gi", "2T"])
in_place = st.fixed_dictionaries({"cpu": quantity, "memory": quantity}, optional={"gpu": st.just(2)})
instance = st.one_of(filled, in_place)
env_value = st.one_of(
    plain,
    st.integers(),
    st.floats(),
    st.booleans(),
    st.fixed_dictionaries({"value": plain, "hidden": st.just(True)}),
    plain.map(Hidden),
)
mount_name = st.one_of(filled, word.map("pvc:{}".format))
folder = st.from_regex(r"/(mnt|data)/[a-z]{8}", fullmatch=True)


def _listed(kind: str, **more: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"type": st.just(kind), "instances": st.lists(filled, min_size=1, max_size=3, unique=True), **more},
        optional={"units_per_replica": st.integers(1, 9), "fallback_after": seconds},
    )


nodes = st.fixed_dictionaries({"exclude": st.lists(filled, max_size=2)})
compute = st.one_of(
    _listed("on_demand", guarantee=st.booleans(), nodes=nodes),
    _listed("spot"),
    _listed("idle", stability=st.sampled_from(["high", "medium", "low"])),
    st.fixed_dictionaries({"type": st.just("reserved"), "pool": filled, "instance": instance}),
)
events = st.lists(
    st.one_of(st.sampled_from(ALERT_EVENTS), seconds.map(lambda value: {"queued_too_long": value})),
    min_size=1,
    max_size=4,
    unique_by=lambda event: event if isinstance(event, str) else "queued_too_long",
)
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain, inner, max_size=3),
    max_leaves=8,
)
_OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "region": filled,
    "project_group": filled,
    "name_prefix": word,
    "visible_in_group": st.booleans(),
    "timezone": st.sampled_from(["Asia/Shanghai", "UTC", "Europe/Berlin"]),
    "labels": st.dictionaries(word, st.one_of(word, st.just("数据 组"), st.integers(0, 99)), max_size=3),
    "env": st.dictionaries(env_name, env_value, max_size=4),
    "volumes": st.lists(
        st.fixed_dictionaries({"name": mount_name, "mount_path": folder}, optional={"read_only": st.booleans()}),
        max_size=2,
        unique_by=lambda mount: mount["mount_path"],
    ),
    "shm_size": quantity,
    "workers": st.integers(0, 99),
    "queue_timeout": seconds,
    "start_timeout": seconds,
    "fault_tolerance": st.fixed_dictionaries(
        {},
        optional={
            "max_retries": st.integers(0, 9),
            "hang_timeout": seconds,
            "retry_on": st.builds(lambda: ["code", "hang"]),
        },
    ),
    "monitoring": st.fixed_dictionaries(
        {"port": st.integers(1, 65535)}, optional={"path": filled.map(lambda p: "/" + p)}
    ),
    "image_pull_retries": st.integers(-1, 9),
    "ssh": st.booleans(),
    "alerts": st.lists(
        st.fixed_dictionaries(
            {"events": events, "to": st.lists(filled, min_size=1, max_size=2)}, optional={"message": filled}
        ),
        max_size=2,
    ),
    "kubernetes": st.fixed_dictionaries(
        {},
        optional={
            "patch": st.dictionaries(st.just("spec"), json_value, max_size=1),
            "service_account": word,
            "node_selector": st.dictionaries(word, word, max_size=2),
            "tolerations": st.builds(lambda: [{"key": "a", "operator": "Exists"}]),
        },
    ),
}
_RAY = st.fixed_dictionaries(
    {},
    optional={
        "head": st.fixed_dictionaries({"instance": instance}, optional={"units": st.integers(1, 4)}),
        "runtime_env": st.fixed_dictionaries({}, optional={"env_vars": st.dictionaries(env_name, plain, max_size=2)}),
        "shared_storage": st.fixed_dictionaries({"volume": mount_name}, optional={"clean_up": st.booleans()}),
        "debug": st.fixed_dictionaries({}, optional={"keep_seconds": seconds}),
    },
)
_REQUIRED: dict[str, st.SearchStrategy[Any]] = {
    "image": st.one_of(
        st.just("registry.example:5000/a/b:1"),
        st.fixed_dictionaries({"preset": filled, "version": filled}),
        st.fixed_dictionaries({"custom": filled, "version": st.integers(0, 99)}),
    ),
    "command": filled,
    "compute": compute,
}
forms = st.one_of(
    st.fixed_dictionaries({"kind": st.just("PyTorchJob"), **_REQUIRED}, optional=_OPTIONAL),
    st.fixed_dictionaries({"kind": st.just("RayJob"), **_REQUIRED}, optional={**_OPTIONAL, "ray": _RAY}),
)
"""Right forms of both kinds."""


class Odd:
    """An object that no form knows."""


junk = st.one_of(
    json_value,
    st.text(),
    template,
    st.binary(max_size=4),
    st.just(Odd()),
    st.just(Hidden("top-secret-value")),
    st.just(PurePosixPath("/x")),
    st.just(Decimal("1.5")),
    st.just(datetime.date(2024, 1, 2)),
    st.just(math.nan),
    st.just(10**5000),
    st.just({"value": "top-secret-value", "hidden": True}),
    st.dictionaries(st.one_of(st.integers(), st.none(), st.text()), json_value, max_size=2),
)
"""Values that may or may not fit where they are put."""


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """Draw a form with one to three places replaced by junk, removed, or added."""
    form: Any = deepcopy(draw(forms))
    for _ in range(draw(st.integers(1, 3))):
        place = form
        while isinstance(place, dict | list) and place:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = draw(st.sampled_from(keys))
            if not isinstance(place[key], dict | list) or draw(st.booleans()):
                _damage(draw, place, key)
                break
            place = place[key]
    return form


def _damage(draw: st.DrawFn, place: Any, key: Any) -> None:
    what = draw(st.sampled_from(["replace", "remove", "add"]))
    if what == "remove":
        del place[key]
    elif what == "add" and isinstance(place, dict):
        name = draw(st.one_of(st.text(max_size=8), st.integers(), st.sampled_from(list(_OPTIONAL))))
        place[name] = deepcopy(draw(junk))
    else:
        place[key] = deepcopy(draw(junk))
