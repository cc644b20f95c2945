"""A container's environment: plain values as they are, those of Secrets left to a template, since no form holds them.

A Secret's value is never read, not even from a Secret that stands in the same file: a form is a file that people share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from siflow_provider.backends.kubernetes.importing_parts import Part, Placeholder, as_text
from siflow_provider.backends.kubernetes.importing_words import expanded

__all__ = ["Beside", "Environment", "content", "read_environment"]

Beside = Mapping[tuple[str, str], Mapping[str, Any]]
"""Kind and name -> the Secrets and ConfigMaps of the same file."""


def content(document: Mapping[str, Any] | None, key: str) -> Mapping[str, Any]:
    """Return `data` (or the like) of a Secret or ConfigMap; nothing where it has none."""
    data = None if document is None else document.get(key)
    return {str(name): value for name, value in data.items()} if isinstance(data, Mapping) else {}


@dataclass(slots=True)
class Environment:
    """What was read.

    Attributes:
        values: name -> text, or `{value: TEMPLATE, hidden: true}`.
        paths: name -> where it stands.
        known: every name that Kubernetes would expand -> its value, where that is plain text.
    """

    values: dict[str, Any] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    known: dict[str, str | None] = field(default_factory=dict)

    def add(self, name: str, value: Any, path: str) -> None:
        """Set a variable; the last one of a name counts."""
        self.values[name], self.paths[name] = value, path
        self.known[name] = value if isinstance(value, str) else None

    def hide(self, name: str, part: Part, where: str) -> None:
        """Set a variable whose value a Secret holds: a template of the Airflow Variable of its name."""
        variable = name.lower()
        self.add(name, {"value": Placeholder(f"{{{{ var.value.{variable} }}}}"), "hidden": True}, part.path)
        why = f"the value of {where} is not read; the form takes it from the Airflow Variable {variable!r}"
        part.notes.say(part.path, why)

    def miss(self, name: str, part: Part, why: str) -> None:
        """Note a variable that is not carried."""
        self.known[name] = None
        self.values.pop(name, None)
        part.notes.say(part.path, f"{name}: {why}")


def read_environment(container: Part, beside: Beside) -> Environment:
    """Return the environment of a container, `envFrom` below `env`, as Kubernetes has it."""
    env = Environment()
    for part in container.parts("envFrom"):
        _read_source(part, env, beside)
    for part in container.parts("env"):
        name = part.text("name") or ""
        origin = part.part("valueFrom")
        value = part.text("value")
        value = _referred(name, part, origin, env, beside) if value is None else _expanded(name, value, part, env)
        if value is not None:
            env.add(name, value, part.path)
        part.finish()
    return env


def _expanded(name: str, value: str, part: Part, env: Environment) -> str | None:
    missing = []

    def look_up(other: str) -> str | None:
        if other in env.known and env.known[other] is None:
            missing.append(other)
        return env.known.get(other)

    text = expanded(value, look_up)
    if missing:
        env.miss(
            name, part, f"it is made of {' and '.join(missing)}, whose value is not known here; set it in `command`"
        )
        return None
    return text


def _referred(name: str, part: Part, origin: Part, env: Environment, beside: Beside) -> str | None:
    """Return the value that a reference stands for, where this file holds it openly; else note what becomes of it."""
    for kind in ("secretKeyRef", "configMapKeyRef"):
        if kind not in origin:
            continue
        reference = origin.part(kind)
        owner, key = reference.text("name") or "", reference.text("key") or ""
        if kind == "secretKeyRef":
            env.hide(name, part, f"Secret {owner!r}, key {key!r},")
            return None
        data = content(beside.get(("ConfigMap", owner)), "data")
        if key in data:
            reference.skip("optional")
            reference.finish()
            origin.finish()
            return as_text(data[key])
        env.miss(name, part, f"ConfigMap {owner!r} does not stand in this file; write its value of {key!r} into `env`")
        return None
    for kind in ("fieldRef", "resourceFieldRef", "fileKeyRef"):
        if kind in origin:
            origin.skip(kind)
            env.miss(
                name, part, f"a form's env has no {kind}; `command` can find it out, as `hostname` does a pod's name"
            )
            return None
    return ""


def _read_source(part: Part, env: Environment, beside: Beside) -> None:
    prefix = part.text("prefix") or ""
    for key, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
        if key not in part:
            continue
        name = part.part(key).text("name") or ""
        found = beside.get((kind, name))
        if found is None:
            part.notes.say(part.path, f"{kind} {name!r} does not stand in this file, so its names are not known")
            continue
        data = content(found, "data")
        for item in {**data, **content(found, "stringData")}:
            if kind == "Secret":
                env.hide(f"{prefix}{item}", part, f"Secret {name!r}, key {item!r},")
            elif item in data:
                env.add(f"{prefix}{item}", as_text(data[item]), part.path)
    part.finish()
