"""A connection's text or fields -> `Settings`, by the rules by which Airflow itself reads them.

Source: Airflow task-sdk 1.3.2 `airflow/sdk/definitions/connection.py` (`from_uri`, `from_json`) and cncf-kubernetes
10.25.0 `hooks/kubernetes.py` (names of the options, the old prefix, which of them exclude each other). Errors name
keys and never values: a value may be a secret.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import yaml
from pydantic import ValidationError

from siflow_provider.backends.settings import Settings
from siflow_provider.errors import UsageError
from siflow_provider.spec.hidden import Hidden
from siflow_provider.spec.wording import nearest

__all__ = ["CNCF_OPTIONS", "EXTRA_KEYS", "find_secrets", "parse_text", "read_connection"]

EXTRA_KEYS = (
    "backend", "catalog", "region", "cluster", "project_group", "default_queue", "state_dir", "elastic_jobs",
    "training_api", "ttl_seconds_after_finished", "body_overrides", "api_overrides", "proxy",
)  # fmt: skip
"""What `extra` may hold, beside the options of the cncf provider."""

CNCF_OPTIONS = (
    "in_cluster", "kube_config_path", "kube_config", "namespace", "cluster_context", "disable_verify_ssl",
    "disable_tcp_keepalive", "xcom_sidecar_container_image", "xcom_sidecar_container_resources",
    "xcom_sidecar_container_security_context",
)  # fmt: skip
"""The cncf provider's own names, kept as they are."""

_PREFIXES = ("extra__siflow__", "extra__kubernetes__")
_FLAGS = ("elastic_jobs", "in_cluster", "disable_verify_ssl", "disable_tcp_keepalive")
_OBJECTS = ("body_overrides", "api_overrides")
_ONE_LOGIN = ("in_cluster", "kube_config_path", "kube_config")
_SECRET_KEYS = ("token", "password", "client-key-data", "id-token", "refresh-token", "access-token", "client-secret")
_FIELDS = frozenset({"conn_id", "conn_type", "description", "host", "login", "password", "schema", "port", "extra"})
_QUOTED = re.compile(r"'([^']*)'")
_TYPES = {"siflow": "local", "kubernetes": "kubernetes"}


def read_connection(
    conn_type: str,
    *,
    host: str | None,
    login: str | None,
    password: str | None,
    port: int | None,
    schema: str | None,
    extra: str | Mapping[str, Any] | None,
) -> Settings:
    """Return the settings of a connection; `Settings.from_connection` is the public door."""
    kind = conn_type.lower().replace("-", "_")
    if kind not in _TYPES:
        raise UsageError(
            f"a connection of type {conn_type!r} can't be used.", hint="Its type must be siflow or kubernetes."
        )
    own, cncf = _sort_keys(_read_extra(extra), strict=kind == "siflow")
    if kind == "kubernetes" and own.setdefault("backend", kind) != kind:
        raise UsageError(
            f"a connection of type kubernetes can't have `backend: {own['backend']}` in its extra.",
            hint="Leave `backend` out, or make it a connection of type siflow.",
        )
    chosen = [name for name in _ONE_LOGIN if cncf.get(name)]
    if len(chosen) > 1:
        raise UsageError(
            f"the connection says {' and '.join(f'`{name}`' for name in chosen)}: each is a way to log in of its own.",
            hint="Keep one of them.",
        )
    own.update(login=login or "", host=_base_url(host, port, schema), kubernetes=cncf)
    if password:
        own["password"] = Hidden(password)
    return _validated(own)


def _validated(values: dict[str, Any]) -> Settings:
    try:
        return Settings(**values)
    except ValidationError as error:
        wrong = "; ".join(
            f"`{'.'.join(map(str, item['loc']))}`: {item['msg']}" for item in error.errors(include_input=False)
        )
        hint = _nearest(error, values)
    raise UsageError(f"the connection's extra is wrong: {wrong}.", hint=hint)


def _nearest(error: ValidationError, values: Mapping[str, Any]) -> str:
    """Return which words were meant where one of a few was asked for; the word that stands there is not repeated."""
    found = [
        f"Did you mean {item['loc'][0]} {meant!r}?"
        for item in error.errors(include_input=False)
        if item["type"] == "literal_error"
        and (meant := nearest(values.get(str(item["loc"][0])), _QUOTED.findall(item["ctx"]["expected"])))
    ]
    return " ".join(found)


def _read_extra(extra: str | Mapping[str, Any] | None) -> dict[str, Any]:
    if not isinstance(extra, str):
        return dict(extra or {})
    if not extra.strip():
        return {}
    try:
        data = json.loads(extra)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UsageError(f"the connection's extra is not JSON ({error.msg}, {place}).") from None
    if not isinstance(data, dict):
        raise UsageError(f"the connection's extra must be a JSON object, not {type(data).__name__}.")
    return data


def _sort_keys(extra: Mapping[str, Any], *, strict: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split `extra` into our keys and the cncf provider's; what is empty counts as not given."""
    own: dict[str, Any] = {}
    cncf: dict[str, Any] = {}
    unknown: list[str] = []
    # bare names win over prefixed ones, as in the cncf provider
    for key in sorted(extra, key=lambda name: name.startswith(_PREFIXES), reverse=True):
        name = _bare(key)
        known = name in EXTRA_KEYS or name in CNCF_OPTIONS
        if not known:
            unknown.append(key)
        elif extra[key] is not None and extra[key] != "":
            (own if name in EXTRA_KEYS else cncf)[name] = _value(name, extra[key])
    if unknown and strict:
        text = "; ".join(map(_unknown, sorted(unknown)))
        raise UsageError(text if text.endswith("?") else f"{text}.")
    return own, cncf


def _bare(key: str) -> str:
    for prefix in _PREFIXES:
        key = key.removeprefix(prefix)
    return key


def _unknown(key: str) -> str:
    near = difflib.get_close_matches(key, (*EXTRA_KEYS, *CNCF_OPTIONS), n=1)
    choice = f"did you mean `{near[0]}`?" if near else f"known keys: {', '.join(EXTRA_KEYS)}"
    return f"the connection's extra has an unknown key `{key}`; {choice}"


def _value(name: str, value: Any) -> Any:
    if name in _FLAGS:
        return _flag(name, value)
    if name == "kube_config":
        return Hidden(value if isinstance(value, str) else json.dumps(value))
    if name in _OBJECTS and isinstance(value, str):
        return _read_extra(value)
    return value


def _flag(name: str, value: Any) -> bool:
    text = str(value).strip().lower()
    if text in ("true", "1", "yes", "on"):
        return True
    if text in ("false", "0", "no", "off"):
        return False
    raise UsageError(f"`{name}` in the connection's extra must be true or false.")


def _base_url(host: str | None, port: int | None, schema: str | None) -> str:
    if not host:
        return ""
    url = host if "://" in host else f"https://{host}"
    place = f":{port}" if port else ""
    path = f"/{schema.strip('/')}" if schema else ""
    return f"{url.rstrip('/')}{place}{path}"


def parse_text(text: str) -> Settings:
    """Return the settings of a URI or JSON text; `settings.parse_connection` is the public door."""
    text = text.strip()
    return _from_json(text) if text.startswith("{") else _from_uri(text)


def _from_json(text: str) -> Settings:
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"the connection is not JSON ({error.msg}, column {error.colno}).") from None
    unknown = sorted(set(fields) - _FIELDS)
    if unknown:
        raise UsageError(
            f"the connection has unknown fields: {', '.join(unknown)}.",
            hint=f"Known: {', '.join(sorted(_FIELDS))}; what is ours goes into `extra`.",
        )
    return read_connection(
        str(fields.get("conn_type") or "siflow"),
        host=fields.get("host"),
        login=fields.get("login"),
        password=fields.get("password"),
        port=_port(fields.get("port")),
        schema=fields.get("schema"),
        extra=fields.get("extra"),
    )


def _port(value: Any) -> int | None:
    if value in (None, ""):
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        raise UsageError("the connection's `port` must be a whole number.") from None


def _from_uri(text: str) -> Settings:
    scheme, found, rest = text.partition("://")
    if not found or not scheme or rest.count("://") > 1 or "@" in scheme:
        raise UsageError(
            "this is no connection: neither a URI (`siflow://...`) nor a JSON object.",
            hint='Example: {"conn_type": "siflow", "extra": {"backend": "local"}}',
        )
    # `siflow://https://user:secret@host` keeps the protocol of the host, as Airflow writes it
    before, inner, after = rest.partition("://")
    has_protocol = bool(inner) and before.isalnum()
    parts = urlsplit(f"//{after}" if has_protocol else f"//{rest}")
    host = unquote(parts.hostname or "")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return read_connection(
        scheme,
        host=f"{before}://{host}" if has_protocol and host else host,
        login=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        port=_uri_port(parts),
        schema=unquote(parts.path[1:]),
        extra=query.get("__extra__", query),
    )


def _uri_port(parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError:
        raise UsageError("the port in the connection's URI must be a whole number up to 65535.") from None


def find_secrets(settings: Settings) -> tuple[str, ...]:
    """Return the texts to mask; the credentials inside a kubeconfig one by one, since logs are masked line by line."""
    found = [settings.password.reveal()] if settings.password else []
    if settings.proxy:
        found.extend(filter(None, [urlsplit(settings.proxy).password]))
    inline = settings.kubernetes.get("kube_config")
    if isinstance(inline, Hidden):
        found.extend(_credentials(inline.reveal()))
    return tuple(dict.fromkeys(found))


def _credentials(kube_config: str) -> Iterator[str]:
    try:
        data = yaml.safe_load(kube_config)
    except yaml.YAMLError:
        data = None  # the client will say what is wrong; whatever it is, it stays hidden as a whole
    yield kube_config
    yield from _leaves(data)


def _leaves(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in _SECRET_KEYS and isinstance(value, str):
                yield value
            else:
                yield from _leaves(value)
    elif isinstance(node, list):
        for item in node:
            yield from _leaves(item)
