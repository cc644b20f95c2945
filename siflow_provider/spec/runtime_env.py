"""Ray's runtime environment: known keys and their types, without importing Ray.

source: Ray 2.60 `runtime_env/runtime_env.py` (known fields, what excludes what) and
`_private/runtime_env/validation.py` (types). Values are never quoted: `env_vars` may hold secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import yaml
from pydantic import ValidationInfo

from siflow_provider.spec.base import Mode, is_unknown, mode_of
from siflow_provider.spec.document import MISFITS, faults_of
from siflow_provider.spec.plain_data import plain_faults
from siflow_provider.spec.scalars import flag, whole
from siflow_provider.spec.wording import kind_of, suggest
from siflow_provider.spec.wrongs import Wrong, Wrongs

__all__ = ["RUNTIME_ENV_KEYS", "parse_runtime_env"]

Fault = tuple[str, str]
_PIP = ("packages", "pip_check", "pip_version", "pip_install_options")
_UV = ("packages", "uv_check", "uv_version", "uv_pip_install_options")
_CONFIG = ("setup_timeout_seconds", "eager_install", "log_files")
_ALONE = {"container": ("container", "config", "env_vars"), "image_uri": ("image_uri", "config", "env_vars")}


def parse_runtime_env(value: Any, info: ValidationInfo) -> dict[str, Any]:
    """Return a runtime environment as a mapping; YAML text is read.

    Raises:
        ValueError: unknown keys, wrong types or keys that exclude each other; all are named.
    """
    mode = mode_of(info)
    data = _read(value) if isinstance(value, str) else value
    if not isinstance(data, Mapping):
        raise Wrong(f"must be a mapping or the YAML text of one, not {kind_of(data)}")
    faults: list[Fault] = []
    for key, item in data.items():
        check = _CHECKS.get(key) if isinstance(key, str) else None
        if check is None:
            name = key if isinstance(key, str) else kind_of(key)
            faults.append(
                (f".{name}", f"Ray's runtime_env has no such key; {suggest(key, RUNTIME_ENV_KEYS, what='keys')}")
            )
        elif not mode.is_open(item):
            faults.extend((f".{key}{path}", message) for path, message in check(item, mode))
    faults.extend(_exclusions(data))
    told = {path for path, _ in faults}
    faults.extend((path, message) for path, message in plain_faults(data, mode) if path not in told)
    if faults:
        raise Wrongs(faults)
    return {key: _typed((key,), item) for key, item in data.items()}


def _typed(path: tuple[str, ...], value: Any) -> Any:
    """Return the value as Ray takes it: a rendered template is the text of a number or of true and false."""
    if isinstance(value, Mapping):
        return {key: _typed((*path, key), item) for key, item in value.items()}
    read = _TYPES.get(path)
    return value if read is None or is_unknown(value) else read(value)


def _read(text: str) -> Any:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        faults = [] if root is None else faults_of(root)
        if faults:
            raise Wrongs([(f".{fault.path}" if fault.path else "", fault.message) for fault in faults])
        return yaml.safe_load(text)
    except Wrong:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" in its line {mark.line + 1}" if mark is not None else ""
        raise Wrong(f"is not valid YAML{place}") from None
    except (*MISFITS, RecursionError):
        raise Wrong("is not valid YAML: a value that looks like a date or number and is none") from None


def _exclusions(data: Mapping[Any, Any]) -> list[Fault]:
    faults = []
    managers = [name for name in ("pip", "uv", "conda") if data.get(name) is not None]
    if len(managers) > 1:
        faults.append(("", f"{' and '.join(managers)} exclude each other; keep one of them"))
    for name, allowed in _ALONE.items():
        others = [str(key) for key in data if key not in allowed]
        if data.get(name) and others:
            faults.append((f".{name}", f"can't stand beside {', '.join(others)}; only config and env_vars may"))
    return faults


def _text(value: Any, mode: Mode) -> list[Fault]:
    return [] if isinstance(value, str) else [("", f"must be text, not {kind_of(value)}")]


def _flag(value: Any, mode: Mode) -> list[Fault]:
    try:
        flag(value)
    except Wrong:
        return [("", f"must be true or false, not {kind_of(value)}")]
    return []


def _texts(value: Any, mode: Mode) -> list[Fault]:
    if not isinstance(value, list | tuple):
        return [("", f"must be a list of texts, not {kind_of(value)}")]
    return [
        (f"[{index}]", f"must be text, not {kind_of(item)}")
        for index, item in enumerate(value)
        if not isinstance(item, str) and not mode.is_open(item)
    ]


def _mapping_of_texts(value: Any, mode: Mode) -> list[Fault]:
    if not isinstance(value, Mapping):
        return [("", f"must be a mapping of name: text, not {kind_of(value)}")]
    return [
        (f".{key}", f"must be text, not {kind_of(item)}; write it in quotes")
        for key, item in value.items()
        if not isinstance(item, str) and not mode.is_open(item)
    ]


def _text_or_mapping(value: Any, mode: Mode) -> list[Fault]:
    return [] if isinstance(value, str | Mapping) else [("", f"must be text or a mapping, not {kind_of(value)}")]


def _mapping(value: Any, mode: Mode) -> list[Fault]:
    return [] if isinstance(value, Mapping) else [("", f"must be a mapping, not {kind_of(value)}")]


def _packages(kind: str, known: tuple[str, ...]) -> Callable[[Any, Mode], list[Fault]]:
    rules = {known[0]: _texts_or_text, known[1]: _flag, known[2]: _text, known[3]: _texts}

    def check(value: Any, mode: Mode) -> list[Fault]:
        if not isinstance(value, Mapping):
            return _texts_or_text(value, mode)
        missing = [] if "packages" in value else [(".packages", f"is required when {kind} is a mapping")]
        return [*missing, *_by_key(value, rules, mode)]

    return check


def _texts_or_text(value: Any, mode: Mode) -> list[Fault]:
    return [] if isinstance(value, str) else _texts(value, mode)


def _seconds(value: Any, mode: Mode) -> list[Fault]:
    try:
        number = whole(value)
    except Wrong:
        number = 0
    if number > 0 or number == -1:
        return []
    return [("", "must be a whole number of seconds from 1 on, or -1 for no limit")]


def _config(value: Any, mode: Mode) -> list[Fault]:
    if not isinstance(value, Mapping):
        return _mapping(value, mode)
    return _by_key(value, dict(zip(_CONFIG, (_seconds, _flag, _texts), strict=True)), mode)


def _by_key(
    value: Mapping[Any, Any], rules: Mapping[str, Callable[[Any, Mode], list[Fault]]], mode: Mode
) -> list[Fault]:
    faults: list[Fault] = []
    for key, item in value.items():
        rule = rules.get(key) if isinstance(key, str) else None
        if rule is None:
            faults.append((f".{key}", f"unknown key; {suggest(key, rules, what='keys')}"))
        elif not mode.is_open(item):
            faults.extend((f".{key}{path}", message) for path, message in rule(item, mode))
    return faults


_CHECKS: dict[str, Callable[[Any, Mode], list[Fault]]] = {
    "working_dir": _text,
    "py_modules": _texts,
    "py_executable": _text,
    "excludes": _texts,
    "pip": _packages("pip", _PIP),
    "uv": _packages("uv", _UV),
    "conda": _text_or_mapping,
    "env_vars": _mapping_of_texts,
    "config": _config,
    "image_uri": _text,
    "container": _mapping,
    "java_jars": _texts,
    "worker_process_setup_hook": _text,
    "_nsight": _text_or_mapping,
    "_rocprof_sys": _text_or_mapping,
    "_ray_release": _text,
    "_ray_commit": _text,
    "_inject_current_ray": _flag,
}
_TYPES: dict[tuple[str, ...], Callable[[Any], Any]] = {
    ("config", "setup_timeout_seconds"): whole,
    ("config", "eager_install"): flag,
    ("pip", "pip_check"): flag,
    ("uv", "uv_check"): flag,
    ("_inject_current_ray",): flag,
}
RUNTIME_ENV_KEYS = tuple(name for name in _CHECKS if not name.startswith("_"))
"""The keys that Ray documents."""
