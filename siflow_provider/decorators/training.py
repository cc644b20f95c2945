"""What `@task.pytorch_job` and `@task.ray_job` are made of.

As with `@task.bash`: the function runs in the worker, and what it returns is the command, which is rendered then. It
runs in each worker leg that submits, so that an attempt after a failure may have another command.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    DecoratedOperator,
    context_merge,
    determine_kwargs,
    task_decorator_factory,
)
from airflow.sdk.bases.decorator import _TaskDecorator
from airflow.sdk.definitions._internal.contextmanager import DagContext
from airflow.sdk.definitions._internal.types import SET_DURING_EXECUTION

from siflow_provider.operators.form import hide_defaults
from siflow_provider.operators.keywords import refuse_unknown
from siflow_provider.operators.partial import hide_arguments
from siflow_provider.operators.pytorch import PyTorchJobOperator
from siflow_provider.operators.ray import RayJobOperator
from siflow_provider.operators.upstream import come_after

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.bases.decorator import TaskDecorator

__all__ = ["pytorch_job_task", "ray_job_task"]


def pytorch_job_task(python_callable: Callable[..., str] | None = None, **kwargs: Any) -> TaskDecorator:
    """Make a function that returns a command a PyTorchJob task; reached as `@task.pytorch_job(...)`.

    Args:
        python_callable: the function, where the decorator is used without brackets.
        kwargs: those of `PyTorchJobOperator` but `command`.

    Example:
        @task.pytorch_job(image="registry.example/train:1", compute={"type": "on_demand", "instances": ["gpu.h100-8"]})
        def train(lr: float) -> str:
            return f"torchrun train.py --lr {lr}"
    """
    return _decorator(_PyTorchJobDecoratedOperator, python_callable, kwargs)


def ray_job_task(python_callable: Callable[..., str] | None = None, **kwargs: Any) -> TaskDecorator:
    """Make a function that returns an entrypoint a RayJob task; reached as `@task.ray_job(...)`.

    Args:
        python_callable: the function, where the decorator is used without brackets.
        kwargs: those of `RayJobOperator` but `command`.
    """
    return _decorator(_RayJobDecoratedOperator, python_callable, kwargs)


class _HidingDecorator(_TaskDecorator[Any, Any, Any]):
    """Airflow's decorated function, with hidden values wrapped also where a task is made without `__init__`."""

    @classmethod
    def of(cls, made: Any) -> _HidingDecorator:
        """Take the place of Airflow's own."""
        return cls(
            function=made.function,
            operator_class=made.operator_class,
            multiple_outputs=made.multiple_outputs,
            kwargs=made.kwargs,
        )

    def override(self, **kwargs: Any) -> _HidingDecorator:
        return cast("_HidingDecorator", super().override(**hide_arguments(kwargs)))

    def _expand(self, expand_input: Any, *, strict: bool) -> Any:
        refuse_unknown(self.operator_class, self.kwargs, task_id=self.kwargs["task_id"])
        hide_defaults(self.kwargs.get("dag") or DagContext.get_current())
        made: Any = super()._expand(expand_input, strict=strict)
        come_after(made.operator)
        return made


def _decorator(
    operator: type[BaseOperator], python_callable: Callable[..., str] | None, kwargs: Mapping[str, Any]
) -> TaskDecorator:
    make: Any = partial(task_decorator_factory, decorated_operator_class=operator, **hide_arguments(kwargs))
    if python_callable is not None:
        return cast("TaskDecorator", _HidingDecorator.of(make(python_callable)))
    return cast("TaskDecorator", lambda function: _HidingDecorator.of(make(function)))


class _Decorated(DecoratedOperator):
    """What both kinds add to Airflow's decorated operator."""

    overwrite_rtif_after_execution = True
    command: Any

    def __init__(
        self,
        *,
        python_callable: Callable[..., str],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            python_callable=python_callable,
            op_args=op_args,
            op_kwargs=op_kwargs,
            command=SET_DURING_EXECUTION,
            **kwargs,
        )

    def prepare_form(self, context: Context) -> None:
        """Ask the function for the command."""
        context_merge(context, self.op_kwargs)
        kwargs = determine_kwargs(self.python_callable, self.op_args, context)
        command = self.python_callable(*self.op_args, **kwargs)
        if not isinstance(command, str) or not command.strip():
            name = getattr(self.python_callable, "__name__", "the function")
            raise AirflowFailException(f"{name} must return the command, a text that is not blank, not {command!r}.")
        self.command = self.render_template(command, context)


class _PyTorchJobDecoratedOperator(_Decorated, PyTorchJobOperator):
    """The operator behind `@task.pytorch_job`."""

    template_fields = (*DecoratedOperator.template_fields, *PyTorchJobOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **PyTorchJobOperator.template_fields_renderers,
    }
    custom_operator_name = "@task.pytorch_job"


class _RayJobDecoratedOperator(_Decorated, RayJobOperator):
    """The operator behind `@task.ray_job`."""

    template_fields = (*DecoratedOperator.template_fields, *RayJobOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **RayJobOperator.template_fields_renderers,
    }
    custom_operator_name = "@task.ray_job"
