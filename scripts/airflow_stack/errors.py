"""The one error of the stack runner."""

__all__ = ["StackError"]


class StackError(RuntimeError):
    """A real Airflow could not be started or did not do what was asked; the text says where to look."""
