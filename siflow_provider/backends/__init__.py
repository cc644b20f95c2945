"""Backend name -> class, imported on use so that nobody pays for a backend that is not used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from siflow_provider.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from siflow_provider.backends.settings import Settings
    from siflow_provider.core.protocol import TrainingBackend

__all__ = ["BACKENDS", "make_backend"]

BACKENDS = {
    "kubernetes": "siflow_provider.backends.kubernetes.backend:KubernetesBackend",
    "local": "siflow_provider.backends.local.backend:LocalBackend",
    "platform": "siflow_provider.backends.platform.backend:PlatformBackend",
}
"""Name -> `module:class`; the class takes the connection's settings."""


def make_backend(settings: Settings) -> TrainingBackend:
    """Return the backend that the settings name, not yet opened.

    Raises:
        UsageError: no such backend in this version, or a package that it needs is not installed.

    Example:
        async with make_backend(Settings(backend="local")) as backend: ...
    """
    path = BACKENDS.get(settings.backend)
    if path is None:
        raise UsageError(
            f"this version can't submit to the backend {settings.backend!r}.",
            hint=f"Set `backend` in the connection's extra to one of: {', '.join(BACKENDS)}.",
        )
    module, _, name = path.partition(":")
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the backend {settings.backend!r} needs the package {error.name!r}, which is not installed here.",
            hint=f'pip install "airflow-provider-siflow[{settings.backend}]"',
        ) from error
    return cast("Callable[[Settings], TrainingBackend]", getattr(found, name))(settings)
