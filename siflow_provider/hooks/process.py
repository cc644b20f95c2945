"""Which of Airflow's processes this code runs in, and connections read in the way that suits it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from airflow.sdk import Connection

__all__ = [
    "NOT_FOUND",
    "ais_surely_missing",
    "is_surely_missing",
    "mask",
    "mask_now",
    "name_process",
    "read_connection",
    "redacted",
    "uncut",
]

T = TypeVar("T")
_log = logging.getLogger(__name__)

NOT_FOUND = (AirflowNotFoundException, ImportError)
"""What a missing connection raises; Airflow 3.1 asks, outside of its own processes, for a channel that is not there."""
_AIRFLOWS_OWN = (
    "airflow.secrets.environment_variables",
    "airflow.secrets.metastore",
    "airflow.sdk.execution_time.secrets",
)
_TELLING = 8
"""From this length on, a line of a longer secret is masked by itself."""


def name_process() -> str:
    """Return `triggerer`, `worker` or `dag processor`; `process at hand` outside of them.

    Looks at the channel to the supervisor, which each kind of process opens by its own class (source: Airflow 3.3.2
    `jobs/triggerer_job_runner.py` init_comms, `dag_processing/processor.py`, task-sdk `execution_time/task_runner.py`).
    """
    channel = _channel()
    if channel is None:
        return "process at hand"
    if type(channel).__module__.startswith("airflow.jobs.triggerer"):
        return "triggerer"
    decoder = str(getattr(channel, "body_decoder", ""))
    return "dag processor" if "DagProcessor" in decoder else "worker"


async def uncut(call: Awaitable[T]) -> T:
    """Await a request to Airflow's supervising process to its end, and only then be cancelled.

    Up to Airflow 3.1 a triggerer dies of the answer to a request whose asker was cancelled: the next asker reads it
    ("Response read out of order") [tried on 3.1.0].
    """
    asking = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        while not asking.done():
            with contextlib.suppress(asyncio.CancelledError):  # said already: the first one is raised below
                await asyncio.wait({asking})
        if not asking.cancelled():
            asking.exception()  # nobody is left to hear of it
        raise


async def read_connection(conn_id: str) -> Connection:
    """Return a connection without blocking the event loop.

    The triggerer's channel belongs to its loop; a worker's is read from a thread, because a blocking call on the loop
    (masking, XCom) that meets an asynchronous one in flight is refused there (source: task-sdk 1.3.2
    `execution_time/comms.py`, DeadlockImminentError).

    Raises:
        NOT_FOUND: there is no such connection.
    """
    if name_process() == "triggerer":
        from airflow.providers.common.compat.connection import get_async_connection

        return await uncut(get_async_connection(conn_id))
    return await asyncio.to_thread(BaseHook.get_connection, conn_id)


def is_surely_missing(conn_id: str) -> bool:
    """Say whether Airflow answers that there is no such connection, and not only gives no answer. Blocks.

    Airflow's own look-up says "not found" for both, and passes over a secrets backend that gave no answer (source:
    task-sdk 1.3.2 `execution_time/secrets/execution_api.py`, `execution_time/context.py`).
    """
    if _is_backend_silent(conn_id):
        return False
    channel = _channel()
    if channel is None:
        return True
    from airflow.sdk.execution_time.comms import GetConnection

    try:
        return _says_missing(channel.send(GetConnection(conn_id=conn_id)))
    except Exception as error:
        return _says_missing(getattr(error, "error", None))


async def ais_surely_missing(conn_id: str) -> bool:
    """Say the same without blocking the event loop."""
    if name_process() != "triggerer":
        return await asyncio.to_thread(is_surely_missing, conn_id)
    if await asyncio.to_thread(_is_backend_silent, conn_id):
        return False
    from airflow.sdk.execution_time.comms import GetConnection

    try:
        return _says_missing(await uncut(_channel().asend(GetConnection(conn_id=conn_id))))
    except Exception as error:
        return _says_missing(getattr(error, "error", None))


def _is_backend_silent(conn_id: str) -> bool:
    """Say whether a secrets backend of this process, such as Vault, fails to tell whether it has the connection."""
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    # Airflow's own ask its database or its API: what that answers is asked for below
    backends = [one for one in ensure_secrets_backend_loaded() if not type(one).__module__.startswith(_AIRFLOWS_OWN)]
    for backend in backends:
        try:
            backend.get_connection(conn_id=conn_id)
        except Exception as error:
            _log.warning("%s gave no answer about %r: %s", type(backend).__name__, conn_id, type(error).__name__)
            return True
    return False


def _says_missing(answer: Any) -> bool:
    # an ErrorResponse, which a channel returns or raises inside an exception; its kind is an enum
    return getattr(getattr(answer, "error", None), "name", "") == "CONNECTION_NOT_FOUND"


def _channel() -> Any:
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    return getattr(runner, "SUPERVISOR_COMMS", None)


def mask_now(secrets: Iterable[str]) -> None:
    """Keep these texts out of this process's log from now on; each line of a text of several lines by itself.

    Airflow leaves texts under five characters as they are.
    """
    from airflow.sdk.log import mask_secret

    for secret in secrets:
        for part in dict.fromkeys((secret, *_telling_lines(secret))):
            mask_secret(part)


async def mask(secrets: Iterable[str]) -> None:
    """Do as `mask_now` on an event loop."""
    try:
        from airflow.sdk.log import amask_secret
    except ImportError:  # before Airflow 3.3.2
        from asgiref.sync import sync_to_async

        # a plain thread would mix up a triggerer's channel, which belongs to its event loop [tried on 3.1.0]
        await uncut(sync_to_async(mask_now, thread_sensitive=False)(tuple(secrets)))
        return
    for secret in secrets:
        for part in dict.fromkeys((secret, *_telling_lines(secret))):
            await uncut(amask_secret(part))


def _telling_lines(secret: str) -> list[str]:
    """Return the lines of a secret that are worth masking: `}` or `---` would spoil a whole log."""
    lines = [line.strip() for line in secret.splitlines()]
    return [line for line in lines if len(line) >= _TELLING and any(map(str.isalnum, line))] if len(lines) > 1 else []


def redacted(text: str) -> str:
    """Return the text with every secret masked that Airflow knows of in this process."""
    try:
        from airflow.sdk.log import redact  # type: ignore[attr-defined]  # a re-export
    except ImportError:  # before Airflow 3.1.1
        from airflow.sdk._shared.secrets_masker import redact
    return str(redact(text))
