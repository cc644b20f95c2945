"""Sends the form's alerts through apprise, by Airflow connections of the apprise provider.

A message is worth a try and no more: a channel that is dead, slow, wrong or not installed gives one warning in the log
and never an exception. Hidden values and the secrets that Airflow knows are masked; so are the channels' own addresses,
which hold tokens, wherever apprise writes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import json
import logging
import re
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from siflow_provider.errors import UsageError
from siflow_provider.hooks.process import NOT_FOUND, mask, name_process, read_connection, redacted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from siflow_provider.core.outcome import AlertRule
    from siflow_provider.core.status import Status

__all__ = ["ALERT_SECONDS", "alert_text", "deliver", "send_alert"]

ALERT_SECONDS = 10.0
"""The longest that one message may take, the look-up of its connection included."""

_KINDS = {
    "succeeded": "success",
    "failed": "failure",
    "hang": "failure",
    "never_admissible": "failure",
    "retrying": "warning",
    "stopped": "warning",
    "queued_too_long": "warning",
}
_GOOD_NEWS = ("submitted", "started", "succeeded")
_LONGEST_TITLE = 200
_TOKEN = 16
"""From this length on, a part of a channel's address that is no plain word is taken for a token."""

_log = logging.getLogger(__name__)


async def send_alert(rule: AlertRule, event: str, status: Status, text: str) -> None:
    """Tell every connection of the rule about one event, all at once. Never raises; done within `ALERT_SECONDS`.

    Args:
        rule: whom to tell; its own message, where it has one, comes first.
        event: one of the form's alert events.
        status: what is known of the run.
        text: what happened, hidden values masked.
    """
    title, body = alert_text(event, status=status, text=text, message=rule.message)
    await asyncio.gather(*(deliver(each, title=title, body=body, event=event) for each in rule.connections))


def alert_text(event: str, *, status: Status | None, text: str, message: str | None = None) -> tuple[str, str]:
    """Return title and body of an alert: the author's message, what happened, and the evidence. Pure.

    Example:
        >>> alert_text("started", status=None, text="bert-3f9c1a7 runs")
        ('SiFlow: started', 'bert-3f9c1a7 runs')
    """
    ref = status.ref if status is not None else None
    name = f" {ref.name}" if ref is not None else ""
    attempt = f" (attempt {ref.attempt})" if ref is not None and ref.attempt > 1 else ""
    title = f"SiFlow:{name} {event.replace('_', ' ')}{attempt}"
    lines = [message, text, *(_evidence(event, status) if status is not None else ())]
    return title[:_LONGEST_TITLE], "\n".join(line for line in lines if line)


def _evidence(event: str, status: Status) -> Iterator[str]:
    """Yield what belongs to this event: a run that ended at once is over already when its start is told."""
    if status.queue is not None and event == "queued_too_long":
        told = status.queue.told()
        yield f"queue: {status.queue.queue}" + (f", {told}" if told else "")
    failure = status.failure
    if failure is None or event in _GOOD_NEWS:
        return
    where = [f"replica {failure.replica}"] if failure.replica else []
    where += [f"rank {failure.rank}"] if failure.rank is not None else []
    where += [f"exit code {failure.exit_code}"] if failure.exit_code is not None else []
    yield ", ".join(where)
    yield from (f"event: {event}" for event in failure.events)
    if failure.last_lines:
        yield f"last lines of {failure.replica or 'the run'}:"
        yield from (f"  {line}" for line in failure.last_lines)
    yield failure.hint


async def deliver(connection_id: str, *, title: str, body: str, event: str) -> None:
    """Send one message to one connection. Never raises; done within `ALERT_SECONDS`.

    Args:
        connection_id: of an Airflow connection of the apprise provider: extra `config` as {"path": URL, "tag": ...} or
            a list of such.
        title: masked here once more, by what Airflow knows in this process.
        body: masked as well.
        event: decides how channels colour the message.
    """
    try:
        async with asyncio.timeout(ALERT_SECONDS):
            urls = await _channels(connection_id)
            sent = await _notify(urls, title=title, body=body, event=event)
    except TimeoutError:
        _log.warning("alert %r: no answer from %r within %g s", event, connection_id, ALERT_SECONDS)
    except UsageError as error:
        _log.warning("alert %r was not sent: %s", event, error)
    except Exception as error:  # whatever a channel's plugin raises must not reach the run
        _log.warning("alert %r to %r failed: %s", event, connection_id, redacted(f"{type(error).__name__}: {error}"))
    else:
        if not sent:
            _log.warning("alert %r: a channel of %r did not take it", event, connection_id)


async def _channels(connection_id: str) -> list[tuple[str, Any]]:
    """Return (URL, tag) of each channel of a connection, the URLs masked in logs from now on."""
    try:
        connection = await read_connection(connection_id)
    except NOT_FOUND:
        raise UsageError(
            f"there is no connection {connection_id!r} in the {name_process()}.",
            hint="Add one of type apprise, or a channel of that name to the catalog's `alerts`.",
        ) from None
    wrong = UsageError(
        f"connection {connection_id!r} has no channel.",
        hint='Its extra must hold {"config": {"path": "<service URL>", "tag": "alerts"}} or a list of such.',
    )
    try:
        config = json.loads(connection.extra or "{}").get("config")
        config = json.loads(config) if isinstance(config, str) else config
        entries = config if isinstance(config, list) else [config]
        found = [(str(entry["path"]), entry.get("tag")) for entry in entries]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise wrong from None
    if not found:
        raise wrong
    await mask(token for path, _ in found for token in _tokens(path))
    return found


async def _notify(channels: list[tuple[str, Any]], *, title: str, body: str, event: str) -> bool:
    try:
        apprise = await asyncio.to_thread(__import__, "apprise")  # half a second of imports, off the event loop
    except ImportError:
        raise UsageError(
            "apprise is not installed.", hint="Install airflow-provider-siflow[alerts] where tasks and triggers run."
        ) from None
    kind = _KINDS.get(event, "info")
    title, body = redacted(title), redacted(body)

    def send(url: str, tag: Any) -> bool:
        sender = apprise.Apprise()
        return bool(sender.add(url, tag=tag) and sender.notify(body, title, kind, body_format="text", tag="all"))

    answers = await asyncio.gather(*(_in_thread(functools.partial(send, url, tag)) for url, tag in channels))
    return all(answers)


def _in_thread(call: Callable[[], bool]) -> asyncio.Future[bool]:
    """Run a call that may hang in a thread that nobody waits for, neither a closing loop nor an ending process."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bool] = loop.create_future()

    def settle(value: bool, error: Exception | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)

    def work() -> None:
        value, error = False, None
        try:
            value = call()
        except Exception as caught:
            error = caught
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), name="siflow-alert", daemon=True).start()
    return answer


def _tokens(url: str) -> Iterator[str]:
    """Yield the texts of a channel's address that must not reach a log: the whole, and what may be a token in it."""
    yield url
    parts = urlsplit(url)
    words = re.split(r"[/@:]", f"{parts.netloc}/{parts.path}")
    values = [value for _, value in parse_qsl(parts.query)]
    yield from (word for word in (*words, *values) if len(word) >= _TOKEN and not word.isalpha())
    if parts.password:
        yield unquote(parts.password)
