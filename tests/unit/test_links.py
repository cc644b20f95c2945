"""The buttons on a task instance."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.execution_time.xcom import XCom

from siflow_provider.links import LINKS, LINKS_KEY, DashboardLink, JobLink, LogsLink, link_xcoms
from siflow_provider.operators import PyTorchJobOperator

URLS = {"job": "https://grafana.example/d/job", "logs": "https://logs.example/1"}


def test_urls_are_kept_early_under_each_links_own_key() -> None:
    kept = link_xcoms(URLS)
    assert kept[LINKS_KEY] == URLS
    assert kept[JobLink().xcom_key] == URLS["job"]
    assert kept[LogsLink().xcom_key] == URLS["logs"]
    assert DashboardLink().xcom_key not in kept


def test_link_that_is_gone_shows_no_more() -> None:
    kept = link_xcoms({"job": URLS["job"]}, before=URLS)
    assert kept == {LINKS_KEY: {"job": URLS["job"]}, JobLink().xcom_key: URLS["job"], LogsLink().xcom_key: ""}


def test_link_gives_what_the_backend_gave_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, Any] = link_xcoms(URLS)
    monkeypatch.setattr(XCom, "get_value", lambda *, ti_key, key: kept.get(key))
    given = [link.get_link(None, ti_key=None) for link in LINKS]  # type: ignore[arg-type]
    assert given == [URLS["job"], URLS["logs"], "", ""]
    kept.clear()
    assert JobLink().get_link(None, ti_key=None) == ""  # type: ignore[arg-type]


def test_keys_and_names_are_all_different_and_the_operators_have_them() -> None:
    assert len({link.xcom_key for link in LINKS} | {LINKS_KEY}) == len(LINKS) + 1
    assert len({link.name for link in LINKS}) == len(LINKS)
    assert tuple(PyTorchJobOperator.operator_extra_links) == LINKS
