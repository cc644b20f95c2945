"""Documents lead somewhere: links exist, commands exist, decisions have their parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.meta.source import ROOT, relative, tracked

LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
ANCHOR = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")
ADR_PARTS = ("## Status", "## Context", "## Decision", "## Consequences", "## A change violates this when")


def test_every_relative_link_leads_to_a_file() -> None:
    pages = tracked("*.md", "**/*.md")
    assert pages
    broken = [
        f"{relative(page)}: {target}"
        for page in pages
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []


def anchors(page: Path) -> set[str]:
    """Return what a page's headings are called in a link, by GitHub's rule."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_every_link_into_a_page_leads_to_a_heading() -> None:
    found = [(page, *link) for page in tracked("*.md", "**/*.md") for link in ANCHOR.findall(page.read_text("utf-8"))]
    assert found
    broken = [
        f"{relative(page)}: {target}#{anchor}"
        for page, target, anchor in found
        if anchor not in anchors((page.parent / target).resolve() if target else page)
    ]
    assert broken == []


def test_every_script_that_a_document_names_exists_and_can_be_run() -> None:
    named = {
        name
        for page in (*tracked("*.md", "**/*.md"), ROOT / "Makefile")
        for name in re.findall(r"(?<![\w/])scripts/[a-z-]+\b(?![./])", page.read_text(encoding="utf-8"))
    }
    assert {"scripts/demo", "scripts/test"} <= named
    for name in sorted(named):
        path = ROOT / name
        assert path.is_file(), name
        assert path.stat().st_mode & 0o111, f"{name} is not executable"


@pytest.mark.parametrize("page", tracked("docs/adr/*.md"), ids=relative)
def test_a_decision_says_what_would_violate_it(page: object) -> None:
    text = (ROOT / str(page)).read_text(encoding="utf-8")
    assert [part for part in ADR_PARTS if part not in text] == []


def test_the_changelog_names_the_version() -> None:
    from siflow_provider import __version__

    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_field_of_the_form_is_documented() -> None:
    from siflow_provider.spec.task import PyTorchJob, RayJob

    page = (ROOT / "docs/reference/form.md").read_text(encoding="utf-8")
    fields = {*PyTorchJob.model_fields, *RayJob.model_fields}
    assert [name for name in sorted(fields) if f"`{name}`" not in page and f"`{name}." not in page] == []
