"""Check objects against the structure of the real CRDs: names and types of fields, unknown fields refused.

`crds.json` was extracted from the CRDs of training-operator v1.9.3 (`manifests/base/crds`, PyTorchJob)
and KubeRay v1.6.0 (`ray-operator/config/crd/bases`, RayJob), both under the Apache License 2.0:
descriptions and formats left out, equal parts written once, int-or-string as two types.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types

_CRDS = json.loads((Path(__file__).parent / "crds.json").read_text(encoding="utf-8"))


def faults(document: Mapping[str, Any]) -> list[str]:
    """Return what the API server would refuse or drop of a PyTorchJob or RayJob, one sentence each."""
    schema = {"$defs": _CRDS["$defs"], **_CRDS["kinds"][document["kind"]]}
    errors = jsonschema.Draft202012Validator(schema).iter_errors(document)
    return [f"{error.json_path}: {error.message[:300]}" for error in errors]
