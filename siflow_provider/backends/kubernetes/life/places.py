"""Where a connection's runs may be: its own namespace, and those that the catalog names.

A run is looked for by its identity alone, and that says nothing about where it went. So it is looked for in every
context that the connection or its catalog knows: in all namespaces where the login may list them, else in the known
ones, and in those of the tasks that this process works on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siflow_provider.spec.catalog import load_catalog

if TYPE_CHECKING:
    from siflow_provider.backends.settings import Settings
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["Places"]


class Places:
    """Contexts and their namespaces; "" is the connection's own context, and its own namespace there."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, None]] = {"": {"": None}}

    def read(self, settings: Settings) -> None:
        """Take what the connection's catalog names. Blocks when that is a file.

        Raises:
            SpecError: the catalog is wrong.
        """
        if settings.catalog is None:
            return
        catalog = load_catalog(settings.catalog)
        groups = [group.namespace for group in catalog.project_groups.values()]
        self.add("", *groups)
        for cluster in catalog.clusters:
            self.add(cluster.context or "", cluster.namespace, *groups)

    def add(self, context: str, *namespaces: str | None) -> None:
        """Take a context and namespaces of it."""
        self._known.setdefault(context, {"": None}).update(dict.fromkeys(name for name in namespaces if name))

    def add_task(self, task: ResolvedTask) -> None:
        """Take where a task goes."""
        self.add(task.context or "", task.namespace)

    def contexts(self) -> list[str]:
        """Return the contexts, the connection's own first."""
        return list(self._known)

    def namespaces(self, context: str, default: str) -> list[str]:
        """Return the known namespaces of a context, its default first."""
        return list(dict.fromkeys(name or default for name in self._known[context]))
