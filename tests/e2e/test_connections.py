"""The connection's form and its test button, as a running Airflow serves them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from siflow_provider.provider_info import CONNECTION_FIELDS, CONNECTION_FORM

if TYPE_CHECKING:
    from scripts.airflow_stack import AirflowStack


def test_form_has_every_field_with_its_words_and_shows_airflows_own_as_they_are_meant(stack: AirflowStack) -> None:
    forms = stack.rest.request("GET", "connections/hook_meta", root="ui").json()
    (form,) = [each for each in forms if each["connection_type"] == "siflow"]
    assert form["hook_name"] == "SiFlow"
    shown: dict[str, Any] = form["extra_fields"]
    assert set(shown) == set(CONNECTION_FIELDS)
    for name, field in CONNECTION_FIELDS.items():
        schema = shown[name]["schema"]
        assert schema["title"] == field["label"]
        assert field["schema"]["type"][0] in schema["type"], name
        assert (schema.get("format") == "password") is (field["schema"].get("format") == "password"), name
    own = form["standard_fields"]
    assert {name for name, field in own.items() if field and field["hidden"]} >= {"port", "url_schema"}
    assert own["password"]["title"] == CONNECTION_FORM["relabeling"]["password"]


@pytest.mark.floor
@pytest.mark.parametrize(
    ("extra", "good", "words"),
    [
        ({"backend": "local"}, True, "backend local answers: "),
        ({"backend": "kubernets"}, False, "Did you mean backend 'kubernetes'?"),
    ],
)
def test_button_says_what_answers_or_what_to_mend(
    stack: AirflowStack, extra: dict[str, str], good: bool, words: str
) -> None:
    body = {"connection_id": "tried", "conn_type": "siflow", "extra": json.dumps(extra)}
    answer = stack.rest.request("POST", "connections/test", json=body).json()
    assert answer["status"] is good, answer
    assert words in answer["message"]
