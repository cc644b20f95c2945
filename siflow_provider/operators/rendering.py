"""Rendering of forms: models and hidden values, at any depth, beside what Airflow renders by itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, XComArg
from pydantic import BaseModel

from siflow_provider.hooks.process import mask_now
from siflow_provider.operators.form import SOURCES, hide, hide_defaults, is_hidden_form, unfold
from siflow_provider.operators.keywords import refuse_unknown
from siflow_provider.operators.outcome import airflow_errors
from siflow_provider.operators.partial import HidingPartial, hide_arguments
from siflow_provider.operators.templates import NO_LITERAL, is_native, is_plain_text
from siflow_provider.operators.upstream import come_after
from siflow_provider.spec.containers import structured
from siflow_provider.spec.hidden import Hidden

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

__all__ = ["RendersForms"]


class RendersForms(BaseOperator):
    """An operator or sensor with form fields among its template fields."""

    @abstractmethod
    def settle_form(self) -> None:
        """Bring the rendered form into the shape that is shown: what runs, and no hidden value."""

    @classmethod
    def partial(cls, **kwargs: Any) -> HidingPartial:
        """Fix arguments of a mapped task; hidden values in them stay out of the serialized DAG."""
        refuse_unknown(cls, kwargs, task_id=kwargs.get("task_id"))
        made = super().partial(**hide_arguments(kwargs))
        hide_defaults(made.kwargs["dag"])
        return HidingPartial.of(made)

    def _set_xcomargs_dependencies(self) -> None:
        super()._set_xcomargs_dependencies()
        come_after(self)

    @property
    def made_of_mapped(self) -> bool:
        """Whether a worker made it of a mapped task, for one task instance."""
        return bool(getattr(self, "_BaseOperator__from_mapped", False))

    def _wrapped(self, value: Any) -> Any:
        """Return an argument with its hidden values wrapped.

        What is mapped over and was pulled stays the same object, by which rendering knows that it is no template; the
        rest of a mapped task's arguments was wrapped when the DAG file was read.
        """
        return value if self.made_of_mapped else hide(value)

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: Context,
        jinja_env: jinja2.Environment,
        seen_oids: set[int],
    ) -> None:
        # `expand_kwargs` takes another task's output in one of its mappings for pulled already, and it is not
        # source: Airflow 3.3.2 airflow/sdk/definitions/_internal/expandinput.py ListOfDictsExpandInput.resolve
        given = (getattr(parent, name, None) for name in template_fields)
        pulled = seen_oids - {id(value) for value in given if isinstance(value, XComArg)}
        super()._do_render_template_fields(parent, template_fields, context, jinja_env, pulled)
        with airflow_errors():
            self.settle_form()
        self._read_env()

    def _read_env(self) -> None:
        """Read an `env` that a template gave as text: what is hidden in it is shown in no rendered field."""
        for name in SOURCES:
            form = getattr(self, name, None)
            if isinstance(form, dict) and isinstance(form.get("env"), str):
                setattr(self, name, {**form, "env": hide(structured(form["env"]))})
        if isinstance(env := getattr(self, "env", None), str):
            self.env = hide(structured(env))

    def render_template(
        self,
        content: Any,
        context: Context,
        jinja_env: jinja2.Environment | None = None,
        seen_oids: set[int] | None = None,
    ) -> Any:
        """Render as every operator does, and models and hidden values too; a hidden value is masked at once.

        Native rendering leaves alone what is no template, and hidden values, which are texts whatever they look like.
        What another task pushed is data and no template, also when it is mapped over.
        """
        if seen_oids and id(content) in seen_oids:
            return hide(content)
        jinja_env = jinja_env or self.get_template_env()
        native = is_native(jinja_env)
        if isinstance(content, BaseModel):
            content = unfold(content)
        if is_hidden_form(content):
            content = Hidden(content["value"])
        if native and isinstance(content, str) and is_plain_text(content, jinja_env):
            return content
        if not isinstance(content, Hidden):
            rendered = super().render_template(content, context, jinja_env, seen_oids)
            # what another task pushed may be, or hold, a hidden value in its written form
            return hide(rendered) if isinstance(content, (str, XComArg)) else rendered
        # a new object: the one in a mapped task's `partial` is shared by all of its instances
        value = content.value + NO_LITERAL if native and isinstance(content.value, str) else content.value
        rendered = super().render_template(value, context, jinja_env, seen_oids)
        hidden = Hidden(str(rendered).removesuffix(NO_LITERAL) if value is not content.value else rendered)
        mask_now([hidden.reveal()])
        return hidden
