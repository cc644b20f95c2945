from __future__ import annotations

import re
import unicodedata

from hypothesis import assume, given
from hypothesis import strategies as st

from siflow_provider.core.identity import MAX_NAME, MAX_PREFIX, Identity, default_prefix

ids = (
    st.text(min_size=1, max_size=300) | st.text("-_. ", max_size=5) | st.sampled_from(["señal", "senal", "数据", "🎉"])
)
NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?")
PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
given_prefixes = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,33}[a-z0-9])?", fullmatch=True)

identities = st.builds(
    Identity,
    dag_id=ids,
    task_id=ids,
    run_id=ids,
    map_index=st.integers(-1, 5000),
    try_number=st.integers(1, 50),
    attempt=st.integers(1, 9999),
    generation=st.integers(0, 3),
    installation=st.just("") | st.sampled_from(["1", "2", "blue"]) | ids,
)


@given(identities)
def test_every_name_is_valid_whatever_the_ids_are(identity: Identity) -> None:
    prefix = default_prefix(identity.dag_id, identity.task_id)
    name = identity.name(prefix)
    assert PREFIX.fullmatch(prefix)
    assert len(prefix) <= MAX_PREFIX
    assert NAME.fullmatch(name), name
    assert len(name) <= MAX_NAME
    assert "--" not in prefix


@given(identities, given_prefixes)
def test_a_given_prefix_stays_readable_and_the_name_valid(identity: Identity, prefix: str) -> None:
    name = identity.name(prefix)
    assert NAME.fullmatch(name), name
    assert len(name) <= MAX_NAME
    lead = f"j-{prefix}" if prefix[0].isdigit() else prefix
    assert name.startswith(lead[:30].rstrip("-"))


@given(identities)
def test_labels_are_valid_label_values(identity: Identity) -> None:
    for value in identity.labels().values():
        assert LABEL.fullmatch(value)
        assert len(value) <= 63


@given(identities, identities)
def test_what_differs_has_another_name_and_another_uuid(one: Identity, other: Identity) -> None:
    assume(one.for_attempt(1) != other.for_attempt(1))
    assert one.name("train") != other.name("train")
    assert one.task_uuid != other.task_uuid
    assert one.labels() != other.labels()


@given(identities, st.sampled_from(["dag_id", "task_id", "run_id"]))
def test_ids_that_differ_in_case_accents_or_normal_form_stay_apart(identity: Identity, field: str) -> None:
    text: str = getattr(identity, field)
    for variant in {text.upper(), text.lower(), unicodedata.normalize("NFD", text), f"{text} ", f"{text}."} - {text}:
        other = identity.model_copy(update={field: variant})
        assert other.name("train") != identity.name("train")


@given(identities)
def test_the_same_try_has_the_same_name_in_every_process(identity: Identity) -> None:
    again = Identity.model_validate_json(identity.model_dump_json())
    assert again.name("train") == identity.name("train")
    assert again.labels() == identity.labels()


@given(identities, st.integers(1, 9999))
def test_attempts_share_the_run_and_have_names_of_their_own(identity: Identity, attempt: int) -> None:
    assume(attempt != identity.attempt)
    other = identity.for_attempt(attempt)
    assert other.task_uuid == identity.task_uuid
    assert other.name("train") != identity.name("train")
    assert other.labels() != identity.labels()


def test_names_do_not_change_between_versions() -> None:
    identity = Identity(dag_id="d", task_id="t", run_id="r")
    assert identity.name("train") == "train-w7rwdss"
    assert identity.for_attempt(2).name("train") == "train-w7rwdss-2"
    assert identity.task_uuid == "2fe1182e-7dd4-5e91-b653-38f898e73f53"


@given(identities, st.integers(0, 3), st.sampled_from(["", "1", "2"]))
def test_generations_and_installations_of_the_same_ids_stay_apart(
    identity: Identity, generation: int, installation: str
) -> None:
    other = identity.model_copy(update={"generation": generation, "installation": installation})
    assert (other.task_uuid == identity.task_uuid) == (other == identity)


def test_ids_are_kept_whole_in_annotations() -> None:
    identity = Identity(dag_id="señal.日", task_id="t" * 300, run_id="manual__2026-01-01T00:00:00+00:00")
    assert identity.annotations()["siflow-provider/dag-id"] == "señal.日"
    assert identity.annotations()["siflow-provider/task-id"] == "t" * 300


def test_nothing_usable_gives_a_plain_prefix() -> None:
    assert {default_prefix(*ids) for ids in [("", ""), ("__", "---"), ("🎉", "日本")]} == {"task"}


def test_runs_by_hand_never_collide() -> None:
    names = {Identity.random().name("run") for _ in range(500)}
    assert len(names) == 500
