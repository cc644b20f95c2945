"""How the templates of a task are read: with the DAG's own settings of Jinja, where it has some.

With native rendering (`render_template_as_native_obj`) Jinja reads what a template gives, and any text that is none,
as a Python literal where it can: `1.10` becomes the number 1.1 and a blank text None.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import DAG

__all__ = ["NO_LITERAL", "is_native", "is_plain_text", "jinja_of"]

NO_LITERAL = "\0"
"""Behind a text, it keeps native rendering from taking the text for a literal: Python reads no source that holds it.

Jinja leaves it where it is, unlike white space: `-}}`, `trim_blocks` and `newline_sequence` change it.
"""
_LINE_END = re.compile(r"\r\n|\r|\n")


def jinja_of(dag: DAG | None) -> Callable[[], jinja2.Environment] | None:
    """Return what makes the DAG's environment; None when it is Airflow's usual one.

    Example:
        check(form, templates=True, jinja=jinja_of(operator.get_dag()))
    """
    return dag.get_template_env if dag is not None and dag.jinja_environment_kwargs else None


def is_native(jinja: jinja2.Environment) -> bool:
    """Say whether this environment renders to Python objects."""
    from jinja2.nativetypes import NativeEnvironment

    return isinstance(jinja, NativeEnvironment)


def is_plain_text(text: str, jinja: jinja2.Environment) -> bool:
    """Say whether there is nothing to render in a text, by the environment's own marks of a template.

    Raises:
        TemplateSyntaxError: it looks like a template and is none.

    Example:
        >>> from jinja2.nativetypes import NativeEnvironment
        >>> is_plain_text("1.10", NativeEnvironment()), is_plain_text("{{ x }}", NativeEnvironment())
        (True, False)
    """
    from jinja2.nodes import TemplateData

    nodes = [node for output in jinja.parse(text).body for node in output.iter_child_nodes()]
    data = "".join(node.data for node in nodes if isinstance(node, TemplateData))
    whole = jinja.newline_sequence.join(_LINE_END.split(text))  # as Jinja writes it
    return len(nodes) <= 1 and data in (whole, whole.removesuffix(jinja.newline_sequence))
