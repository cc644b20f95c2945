"""What the job itself tells of the run to a process that did not submit it."""

from __future__ import annotations

from typing import Any

import pytest

from siflow_provider.backends.kubernetes.state.objects import Seen
from siflow_provider.backends.kubernetes.state.status import status_of
from siflow_provider.core.identity import LABEL_PREFIX
from siflow_provider.core.status import Status
from siflow_provider.core.veil import Veil
from tests.unit.backends.kubernetes.state.objects import RUN, clock, condition, pytorchjob, ref
from tests.unit.backends.kubernetes.tasks import pytorch, rendered


def told(*, labels: dict[str, str] | None = None, **annotations: str) -> Status:
    marks = {f"{LABEL_PREFIX}{name.replace('_', '-')}": text for name, text in annotations.items()}
    job = pytorchjob(condition("Running"), meta={"labels": labels or {}, "annotations": marks})
    return status_of(ref(), Seen(job=job), clock(20))


def test_owner_time_zone_and_privacy_are_read_back() -> None:
    status = told(user="ada", timezone="Asia/Tokyo", labels={f"{LABEL_PREFIX}visible-in-group": "false"})
    assert (status.owner, status.timezone, status.private) == ("ada", "Asia/Tokyo", True)
    assert not status.visible_to("bob")


def test_dashboards_are_links_to_this_very_run() -> None:
    status = told(dashboards='{"job": "https://g.example/d?job={name}&ns={ns}&again={namespace}&other={x}"}')
    assert status.links == {"job": "https://g.example/d?job=bert-3f9c1a7&ns=team&again=team&other={x}"}


def test_veil_masks_for_a_process_that_never_knew_the_values() -> None:
    veil = Veil.of(["s3cr3t-token"])
    assert told(veil=veil.model_dump_json()).veil.over("token s3cr3t-token") == "token ***"


@pytest.mark.parametrize("broken", ["{", "[1]", '"x"'])
def test_notes_that_somebody_broke_cost_no_status(broken: str) -> None:
    status = told(dashboards=broken, veil=broken)
    assert (status.links, status.veil) == ({}, Veil())


def test_rendered_job_tells_what_is_read_back() -> None:
    manifest = rendered(
        pytorch(workers=1, timezone="Europe/Berlin"), dashboards={"job": "https://g.example/{name}"}, queued=False
    )
    job: Any = dict(manifest.documents[0])
    job["metadata"] = {**job["metadata"], "uid": "job-uid", "namespace": "team"}
    status = status_of(ref(), Seen(job=job), clock(20))
    assert (status.owner, status.timezone) == ("ada", "Europe/Berlin")
    assert status.links == {"job": f"https://g.example/{manifest.name}"}
    assert job["metadata"]["labels"].keys() >= RUN.keys()
