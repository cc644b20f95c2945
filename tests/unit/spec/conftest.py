"""The catalog that the tests of the form share."""

from __future__ import annotations

import pytest

from siflow_provider.spec import Catalog, load_catalog
from tests.unit.spec.forms import CATALOG


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """The catalog of `forms.CATALOG`."""
    return load_catalog(CATALOG)
