"""Templates that Airflow won't be able to read, told when a form is checked and not by a failed task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from siflow_provider.errors import Problem
from siflow_provider.spec.base import is_template
from siflow_provider.spec.document import join
from siflow_provider.spec.hidden import Hidden

if TYPE_CHECKING:
    import jinja2

__all__ = ["unreadable_templates"]

_DEEPEST = 60
"""Deeper than any form; a mapping made in Python may contain itself."""


def unreadable_templates(
    form: Mapping[Any, Any], jinja: Callable[[], jinja2.Environment] | None = None
) -> Iterator[Problem]:
    """Yield a problem for each text of a form that is no valid template though it looks like one.

    Bash's `${#name}` is the usual one: Jinja takes `{#` for the start of a comment. Jinja is loaded only for a form
    with templates.

    Args:
        form: as written.
        jinja: makes the environment that the DAG renders with; Airflow's usual one by default.
    """
    texts = [(path, text) for path, text in _texts(form, "", 0) if is_template(text)]
    if not texts:
        return
    from jinja2 import TemplateSyntaxError

    environment = (jinja or _usual)()
    for path, text in texts:
        try:
            environment.parse(text)
        except TemplateSyntaxError as error:
            said = (error.message or "no template").rstrip(".")
            yield Problem(
                path,
                f"Airflow renders this text and can't read it as a template: {said} (line {error.lineno} of the text); "
                "write {% raw %}...{% endraw %} around what is no template, such as bash's ${#name}",
            )


@lru_cache(maxsize=1)
def _usual() -> jinja2.Environment:
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment()


def _texts(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, Hidden):
        value = value.value
    if isinstance(value, str):
        yield path, value
    elif depth == _DEEPEST:
        return
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, join(path, str(key)), depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _texts(item, join(path, index), depth + 1)
