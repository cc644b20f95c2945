"""Templates that Airflow won't be able to read, told when the DAG file is read and not by a failed task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from siflow_provider.errors import Problem
from siflow_provider.spec.base import is_template
from siflow_provider.spec.hidden import Hidden

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import DAG

__all__ = ["unreadable_templates"]


def unreadable_templates(form: Mapping[str, Any], dag: DAG | None) -> Iterator[Problem]:
    """Yield a problem for each text of a form that is no valid template though it looks like one.

    Bash's `${#name}` is the usual one: Jinja takes `{#` for the start of a comment.
    """
    texts = [(path, text) for path, text in _texts(form, "") if is_template(text)]
    if not texts:
        return
    from jinja2 import TemplateSyntaxError

    environment = dag.get_template_env() if dag is not None and dag.jinja_environment_kwargs else _plain()
    for path, text in texts:
        try:
            environment.parse(text)
        except TemplateSyntaxError as error:
            yield Problem(
                path,
                f"Airflow renders this text and can't read it as a template: {error.message} (line {error.lineno}); "
                "write {% raw %}...{% endraw %} around what is no template, such as bash's ${#name}",
            )


@lru_cache(maxsize=1)
def _plain() -> jinja2.Environment:
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment()


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Hidden):
        yield from _texts(value.value, path)
    elif isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")
