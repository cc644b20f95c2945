"""A connection becomes settings, and a wrong one becomes a sentence that helps."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from siflow_provider.backends.settings import Settings, parse_connection
from siflow_provider.errors import UsageError
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.resolve import Defaults

CANARY = "c4n4ry-53cr3t"
KUBE_CONFIG = f"""\
apiVersion: v1
users:
  - name: admin
    user: {{token: {CANARY}, client-key-data: {CANARY}-key}}
"""


def test_a_siflow_connection_without_extra_uses_this_machine() -> None:
    assert parse_connection("siflow://") == Settings(backend="local")


def test_json_and_uri_of_the_same_connection_give_the_same_settings() -> None:
    extra = {"backend": "kubernetes", "namespace": "ml", "elastic_jobs": True, "region": "cn-east"}
    as_json = json.dumps({"conn_type": "siflow", "login": "ada", "password": CANARY, "extra": extra})
    as_uri = f"siflow://ada:{CANARY}@/?__extra__={quote(json.dumps(extra))}"
    assert parse_connection(as_json) == parse_connection(as_uri)
    assert parse_connection(as_json).kubernetes == {"namespace": "ml"}


def test_plain_query_of_a_uri_is_extra_and_its_flags_are_read_as_text() -> None:
    settings = parse_connection("siflow:///?backend=kubernetes&elastic_jobs=false&in_cluster=true")
    assert settings.elastic_jobs is False
    assert settings.kubernetes == {"in_cluster": True}


def test_host_keeps_its_protocol_port_and_path() -> None:
    uri = "siflow://http://ak:sk@api.example:8443/v2?backend=platform"
    assert parse_connection(uri).host == "http://api.example:8443/v2"
    assert parse_connection("siflow://ak:sk@api.example/?backend=platform").host == "https://api.example"


@pytest.mark.parametrize(("text", "seconds"), [("12h", 43200), ("600", 600), ("never", None)])
def test_how_long_an_ended_job_stays_is_a_duration_or_for_ever(text: str, seconds: float | None) -> None:
    assert parse_connection(f"siflow:///?ttl_seconds_after_finished={text}").defaults() == Defaults(
        ttl_seconds_after_finished=seconds
    )


@pytest.mark.parametrize("prefix", ["", "extra__kubernetes__"])
def test_a_connection_of_the_cncf_provider_is_read_as_kubernetes(prefix: str) -> None:
    extra = {f"{prefix}namespace": "ml", f"{prefix}cluster_context": "alpha", f"{prefix}kube_config": ""}
    settings = Settings.from_connection("kubernetes", extra=json.dumps(extra))
    assert settings.backend == "kubernetes"
    assert settings.kubernetes == {"namespace": "ml", "cluster_context": "alpha"}


def test_bare_name_wins_over_the_old_prefixed_one() -> None:
    extra = {"namespace": "new", "extra__kubernetes__namespace": "old"}
    assert Settings.from_connection("kubernetes", extra=extra).kubernetes == {"namespace": "new"}


def test_foreign_keys_of_a_cncf_connection_are_left_alone() -> None:
    assert Settings.from_connection("kubernetes", extra={"team": "x"}).kubernetes == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("siflow:///?backnd=local", ["`backnd`", "did you mean `backend`?"]),
        ("siflow:///?backend=slurm", ["`backend`", "'local', 'kubernetes' or 'platform'"]),
        ("siflow:///?elastic_jobs=maybe", ["`elastic_jobs`", "true or false"]),
        ("siflow:///?ttl_seconds_after_finished=60", ["`ttl_seconds_after_finished`", "10 minutes"]),
        ("siflow:///?ttl_seconds_after_finished=soon", ["`ttl_seconds_after_finished`", "90s, 15m"]),
        ('{"conn_type": "siflow", "extra": "[1]"}', ["must be a JSON object"]),
        ('{"conn_type": "siflow", "extra": "{"}', ["not JSON"]),
        ('{"conn_type": "siflow", "backend": "local"}', ["unknown fields: backend", "goes into `extra`"]),
        ('{"conn_type": ', ["not JSON"]),
        ('{"conn_type": "siflow", "port": "x"}', ["`port`", "whole number"]),
        ("siflow://h:99999/", ["port"]),
        ("postgres://h/db", ["'postgres'", "siflow or kubernetes"]),
        ("my_conn", ["neither a URI", "nor a JSON object"]),
        (
            '{"conn_type": "siflow", "extra": {"in_cluster": true, "kube_config_path": "/x"}}',
            ["`in_cluster` and `kube"],
        ),
        (
            '{"conn_type": "siflow", "extra": {"backend": "kubernets"}}',
            ["`backend`", "Did you mean backend 'kubernetes'?"],
        ),
        ('{"conn_type": "kubernetes", "extra": {"backend": "local"}}', ["can't have `backend: local`"]),
    ],
)
def test_a_wrong_connection_says_which_key_and_what_is_right(text: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse_connection(text)
    for word in words:
        assert word in str(caught.value)
    assert "?." not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        f"siflow://u:{CANARY}@h:x/",
        f'{{"conn_type": "siflow", "password": "{CANARY}", "extra": {{"backend": "{CANARY}"}}}}',
        f'{{"conn_type": "siflow", "extra": {{"elastic_jobs": "{CANARY}"}}}}',
        f'{{"conn_type": "siflow", "extra": {{"body_overrides": "{CANARY}"}}}}',
        f'{{"conn_type": "siflow", "password": "{CANARY}", ',
        CANARY,
    ],
)
def test_an_error_never_repeats_a_value(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_connection(text)
    assert CANARY not in str(caught.value)
    assert CANARY not in repr(caught.value.__context__)


def test_secrets_show_as_stars_and_are_all_named_for_masking() -> None:
    settings = Settings.from_connection(
        "siflow",
        password=CANARY,
        extra={
            "backend": "kubernetes",
            "kube_config": KUBE_CONFIG,
            "proxy": f"http://u:{CANARY}-proxy@p:1",
            "body_overrides": {"token": CANARY},
        },
    )
    assert CANARY not in repr(settings)
    assert CANARY not in str(settings)
    assert {CANARY, f"{CANARY}-key", f"{CANARY}-proxy", KUBE_CONFIG} == set(settings.secrets())
    assert isinstance(settings.kubernetes["kube_config"], Hidden)


def test_connection_gives_a_tasks_defaults() -> None:
    settings = parse_connection("siflow:///?region=r&cluster=c&project_group=g&default_queue=q")
    defaults = settings.defaults(timezone="Asia/Tokyo")
    assert (defaults.region, defaults.cluster, defaults.project_group) == ("r", "c", "g")
    assert (defaults.default_queue, defaults.timezone) == ("q", "Asia/Tokyo")
