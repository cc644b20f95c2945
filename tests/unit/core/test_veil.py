"""Hidden values that a training prints stay hidden, though the trigger does not know them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from siflow_provider.core.status import Failure, FailureClass
from siflow_provider.core.veil import Veil

NO_TEXT = "\ud800"
"""In no text that hypothesis draws: what was masked can't become a part of a value."""


def test_value_is_masked_wherever_it_stands_in_a_line() -> None:
    veil = Veil.of(["canary-7391", "other-secret-value"])
    assert veil.over("token=canary-7391; again canary-7391canary-7391!") == "token=***; again ******!"
    assert veil.over("both other-secret-value canary-7391") == "both *** ***"
    assert veil.over("nothing here") == "nothing here"


def test_each_line_of_a_value_of_several_lines_is_masked() -> None:
    veil = Veil.of(["-----BEGIN KEY-----\nabcdefgh\n-----END KEY-----"])
    assert veil.over("abcdefgh") == "***"


def test_stored_form_does_not_hold_the_value() -> None:
    veil = Veil.of(["canary-7391"])
    stored = veil.model_dump_json()
    assert "canary" not in stored
    assert Veil.model_validate_json(stored).over("x canary-7391") == "x ***"


def test_same_value_is_stored_differently_for_each_task() -> None:
    assert Veil.of(["canary-7391"]).marks != Veil.of(["canary-7391"]).marks


def test_values_too_short_to_be_told_from_text_are_left() -> None:
    assert Veil.of(["1234", ""]).over("1234") == "1234"


@given(st.text(min_size=5, max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_no_value_gets_through(value: str, before: str, after: str) -> None:
    assert value not in Veil.of([value]).over(f"{before}{value}{after}").replace("***", NO_TEXT)


@given(
    st.text(st.characters(exclude_characters="*"), min_size=5, max_size=12), st.lists(st.integers(0, 12), max_size=6)
)
def test_value_is_found_among_its_own_pieces(value: str, cuts: list[int]) -> None:
    text = "".join(value[:cut] for cut in cuts) + value + "".join(value[cut:] for cut in cuts)
    assert value not in Veil.of([value]).over(text).replace("***", NO_TEXT)


def test_stored_form_tells_forty_bits_and_the_length() -> None:
    ((length, head, digest),) = Veil.of(["canary-7391"]).marks
    assert (length, len(head), set(head) <= set("01234567"), len(digest)) == (11, 4, True, 7)


def test_failure_that_goes_through_the_database_is_masked() -> None:
    failure = Failure(
        category=FailureClass.CODE,
        summary="exit code 1 after canary-7391",
        replica="master-0",
        last_lines=("the token is canary-7391",),
        events=("env canary-7391",),
    )
    veiled = Veil.of(["canary-7391"]).over_failure(failure)
    assert "canary" not in veiled.model_dump_json()
    assert veiled.last_lines == ("the token is ***",)
    assert Veil().over_failure(failure) is failure


def test_results_that_hold_a_hidden_value_are_masked() -> None:
    results = {"token": "canary-7391", "list": [1, None, "x canary-7391"], "canary-7391": 2.5}
    assert Veil.of(["canary-7391"]).over_json(results) == {"token": "***", "list": [1, None, "x ***"], "***": 2.5}
    assert Veil().over_json(results) is results
