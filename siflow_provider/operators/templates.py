"""How the templates of a task are read: with the DAG's own settings of Jinja, where it has some."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import DAG

__all__ = ["jinja_of"]


def jinja_of(dag: DAG | None) -> Callable[[], jinja2.Environment] | None:
    """Return what makes the DAG's environment; None when it is Airflow's usual one.

    Example:
        check(form, templates=True, jinja=jinja_of(operator.get_dag()))
    """
    return dag.get_template_env if dag is not None and dag.jinja_environment_kwargs else None
