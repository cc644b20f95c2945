"""The form while it is being put together: its fields, where each came from, and a last look with our own check."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from siflow_provider.backends.kubernetes.importing_parts import Fields, Notes, Placeholder
from siflow_provider.backends.kubernetes.importing_size import Size
from siflow_provider.backends.kubernetes.importing_words import kept
from siflow_provider.backends.kubernetes.limits import unsupported
from siflow_provider.backends.kubernetes.patch import apply_patch
from siflow_provider.errors import Problem, SpecError
from siflow_provider.spec.base import is_template
from siflow_provider.spec.document import MISFITS
from siflow_provider.spec.kube_names import MAX_PREFIX
from siflow_provider.spec.reading import check
from siflow_provider.spec.resolve import resolve
from siflow_provider.spec.templates import unreadable_templates

__all__ = ["Draft", "name_prefix"]

_IMAGE = Placeholder("{{ params.image }}")


@dataclass(slots=True)
class Draft:
    """A form that is being made of a manifest.

    Attributes:
        kind: PyTorchJob or RayJob.
        notes: what is not carried.
        own: the manifest is one that `render` made.
        fields: what the job itself says, for its roles to be merged with.
    """

    kind: str
    notes: Notes
    own: bool = False
    fields: Fields = field(default_factory=dict)
    _form: dict[str, Any] = field(default_factory=dict)
    _origins: dict[str, str] = field(default_factory=dict)

    def set(self, path: str, value: Any, origin: str) -> None:
        """Set one field, named by its path in the form."""
        self._put(tuple(path.split(".")), value, origin)

    def add(self, fields: Fields) -> None:
        """Set the fields that roles have."""
        for key, found in fields.items():
            if key[0] == "volumes":
                volumes = self._form.setdefault("volumes", [])
                self._origins[f"volumes[{len(volumes)}]"] = found.path
                volumes.append(found.value)
            else:
                self._put(key, found.value, found.path)

    def instance(self, size: Size) -> None:
        """Set what a replica runs on."""
        compute = self._form.setdefault("compute", {})
        compute |= {"type": "on_demand", "instances": [size.instance(self.notes)]}
        if size.units is not None:
            compute["units_per_replica"] = size.units

    def patch(self, patch: Mapping[str, Any]) -> None:
        """Add to `kubernetes.patch`."""
        section = self._form.setdefault("kubernetes", {})
        section["patch"] = apply_patch(section.get("patch", {}), patch)

    def runtime_env(self, text: str, origin: str) -> Any:
        """Return Ray's runtime environment as a mapping; text that is none is noted."""
        if self.own and is_template(text) and not text.lstrip().startswith("{\n"):
            return text
        try:
            value = yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError, *MISFITS):
            value = None
        if not isinstance(value, dict):
            self.notes.say(origin, "is no YAML of a mapping")
            return None
        return value

    def _put(self, key: tuple[str, ...], value: Any, origin: str) -> None:
        section = self._form
        for part in key[:-1]:
            section = section.setdefault(part, {})
        section[key[-1]] = value
        self._origins[".".join(key)] = origin

    def finished(self) -> dict[str, Any]:
        """Return the form as plain data that `check` has nothing against; what it had is noted.

        Raises:
            SpecError: it could not be mended.
        """
        if "image" not in self._form:
            self._no_image("spec", "no container names an image")
        form = {"kind": self.kind, **self._form}
        form = dict(self._escaped(form, ""))
        while (wrong := next(_wrongs(form), None)) is not None:
            if wrong.path == "image" and form["image"] != _IMAGE:
                self._no_image(self._origin("image"), wrong.message)
                form["image"] = _IMAGE
            elif _cut(form, wrong.path):
                self.notes.say(self._origin(wrong.path), wrong.message)
            else:
                raise SpecError([wrong], source=f"the {self.kind}")
        return form

    def _no_image(self, origin: str, why: str) -> None:
        self.notes.say(origin, f"{why}; write one in place of {_IMAGE}")
        self._form["image"] = _IMAGE

    def _origin(self, path: str) -> str:
        """Return where in the manifest a field of the form came from; its own path where that is not known."""
        while path and path not in self._origins:
            path = re.sub(r"(\[\d+\]|\.?[^.\[]*)$", "", path)
        return self._origins.get(path, path or "spec")

    def _escaped(self, value: Any, path: str) -> Any:
        """Return the value with the manifest's braces kept from Airflow; of ours, those that can be no template."""
        if isinstance(value, dict):
            return {key: self._escaped(item, f"{path}.{key}".lstrip(".")) for key, item in value.items()}
        if isinstance(value, list):
            return [self._escaped(item, f"{path}[{index}]") for index, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        text = value if self.own and next(unreadable_templates({path: value}), None) is None else kept(value)
        if str(text) != str(value) or "{% raw %}" in text:
            self.notes.say(
                self._origin(path), "holds braces that Airflow would read as a template; {% raw %} keeps them"
            )
        return str(text)


def name_prefix(name: str) -> str:
    """Return a name prefix of the form made from an object's name.

    Example:
        >>> name_prefix("bert.v1-")
        'bert-v1'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MAX_PREFIX].strip("-")


def _wrongs(form: dict[str, Any]) -> Iterator[Problem]:
    """Yield what `check` and then the rendering for Kubernetes have against the form."""
    checked = check(form, templates=True)
    yield from checked.errors
    if checked.task is None:
        return
    try:
        resolved = resolve(checked.task, user="user", templates=True)
    except SpecError as error:
        yield from error.problems
        return
    for reason in unsupported(resolved):
        if reason.path != "command":
            yield Problem(reason.path, reason.message)


def _cut(node: Any, path: str) -> bool:
    """Remove what stands at a path of the form, a list's item whole; False when nothing is there."""
    if isinstance(node, list):
        number, _, rest = path.removeprefix("[").partition("]")
        if number.isdigit() and int(number) < len(node):
            if not (isinstance(node[int(number)], list) and _cut(node[int(number)], rest)):
                del node[int(number)]
            return True
        return False
    if not isinstance(node, dict):
        return False
    for key in sorted(node, key=lambda key: -len(str(key))):
        rest = path.removeprefix(str(key))
        if path.startswith(str(key)) and (not rest or rest[0] in ".["):
            if not (rest and _cut(node[key], rest.removeprefix("."))):
                del node[key]
            return True
    return False
