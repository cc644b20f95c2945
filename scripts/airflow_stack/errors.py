"""The errors of the stack runner."""

__all__ = ["AlreadyUpError", "StackError"]


class StackError(RuntimeError):
    """A real Airflow could not be started or did not do what was asked; the text says where to look."""


class AlreadyUpError(StackError):
    """A stack runs in this home already."""
