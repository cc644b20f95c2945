"""What documents show: their fenced blocks, and the commands within their sentences."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tests.meta.source import relative, tracked

_FENCE = re.compile(
    r"^(?P<fence>```+) *(?P<language>[\w+-]*)[^\n]*\n(?P<text>.*?)^(?P=fence) *$", re.MULTILINE | re.DOTALL
)
PAGES = (":(glob)*.md", ":(glob)docs/**/*.md", ":(glob)example_dags/*.md")
"""What users and contributors read; a folder of tests explains itself to who works there."""
_COMMAND = re.compile(r"`(siflow-provider [^`]+)`")


@dataclass(frozen=True)
class Snippet:
    """One block of a page.

    Attributes:
        page: its path below the project's folder.
        line: where the block's text begins.
        language: as the fence says; "" where it says none.
        text: without the fences.
    """

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def snippets() -> tuple[Snippet, ...]:
    """Return every fenced block of every page."""
    return tuple(found for page in tracked(*PAGES) for found in _blocks(relative(page), page.read_text("utf-8")))


def in_language(*languages: str) -> list[Snippet]:
    """Return the blocks in these languages."""
    return [snippet for snippet in snippets() if snippet.language in languages]


def command_lines(snippet: Snippet) -> Iterator[list[str]]:
    """Yield each command of a shell block as words, without comments; a text in quotes may go over several lines."""
    begun = ""
    for line in snippet.text.replace("\\\n", " ").splitlines(keepends=True):
        begun += line
        with contextlib.suppress(ValueError):  # a quote is still open
            if words := shlex.split(begun, comments=True):
                yield words
            begun = ""
    assert not begun, f"{snippet}: a quote is never closed"


def commands_in_sentences() -> list[tuple[str, list[str]]]:
    """Return (page, words) of each `siflow-provider ...` that stands within a sentence; rows of tables show grammar."""
    found = []
    for page in tracked(*PAGES):
        text = _FENCE.sub("", page.read_text("utf-8"))
        prose = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
        found += [(relative(page), shlex.split(match[1])) for match in _COMMAND.finditer(prose)]
    return found


def _blocks(page: str, text: str) -> Iterator[Snippet]:
    for match in _FENCE.finditer(text):
        yield Snippet(page, text.count("\n", 0, match.start("text")) + 1, match["language"], match["text"])
