"""What the job's own labels and annotations say of the run: whose it is, who may see it, where else to look."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from siflow_provider.backends.kubernetes.names import (
    ANNOTATION_DASHBOARDS,
    ANNOTATION_STOPPED_BY,
    ANNOTATION_TIMEZONE,
    ANNOTATION_USER,
    ANNOTATION_VEIL,
    LABEL_VISIBLE,
)
from siflow_provider.backends.kubernetes.state.objects import Object, dig, labels, marks_of
from siflow_provider.core.moves import Moves
from siflow_provider.core.origin import Origin
from siflow_provider.core.veil import Veil

__all__ = ["notes", "stopped_by", "veil_of"]


def stopped_by(job: Object) -> str:
    """Return who asked for the stop; "" when nobody did."""
    return marks_of(job).get(ANNOTATION_STOPPED_BY, "")


def notes(job: Object) -> dict[str, Any]:
    """Return the fields of `Status` that the job's metadata hold."""
    marks = marks_of(job)
    return {
        "owner": marks.get(ANNOTATION_USER, ""),
        "private": labels(job).get(LABEL_VISIBLE) == "false",
        "timezone": marks.get(ANNOTATION_TIMEZONE) or "UTC",
        "links": _links(job),
        "moves": Moves.of(marks),
        "origin": Origin.of(marks),
        "veil": veil_of(job),
    }


def _links(job: Object) -> dict[str, str]:
    name, namespace = dig(job, "metadata", "name"), dig(job, "metadata", "namespace")
    links: dict[str, str] = {}
    address = dig(job, "status", "dashboardURL")
    if address:
        links["dashboard"] = str(address) if "://" in str(address) else f"http://{address}"
    for title, template in _templates(marks_of(job).get(ANNOTATION_DASHBOARDS, "")).items():
        text = str(template)
        for word, value in (("name", name), ("ns", namespace), ("namespace", namespace)):
            text = text.replace(f"{{{word}}}", str(value or ""))
        links[str(title)] = text
    return links


def _templates(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:  # somebody edited it; a link is no reason to lose the status
        return {}
    return found if isinstance(found, dict) else {}


def veil_of(job: Object) -> Veil:
    """Return the veil over the run's hidden values; an empty one without."""
    text = marks_of(job).get(ANNOTATION_VEIL, "")
    try:
        return Veil.model_validate_json(text) if text else Veil()
    except ValidationError:
        return Veil()
