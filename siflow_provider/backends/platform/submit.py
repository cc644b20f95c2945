"""Submitting once: find, create, find again.

The platform takes no client token. Before a creation the run is looked for; after one whose answer was lost it is
looked for until a listing must show it, and only then may somebody try again; after every creation it is looked whether
another process was as quick.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from siflow_provider.backends.platform.errors import AnswerLost
from siflow_provider.backends.platform.mark import MARK_ENV, VEIL_ENV, Mark
from siflow_provider.backends.platform.matches import Run, groups
from siflow_provider.core.veil import Veil
from siflow_provider.errors import BackendError, BackendUnavailable, NameTaken

if TYPE_CHECKING:
    from siflow_provider.backends.platform.place import Place
    from siflow_provider.backends.platform.wire import Brief
    from siflow_provider.core.identity import Identity
    from siflow_provider.core.protocol import Manifest
    from siflow_provider.core.status import JobRef

__all__ = ["find_run", "revealed", "submit"]

log = logging.getLogger(__name__)

_LONGEST_PAUSE = 10.0
_OSS_KEYS = frozenset({"accessKey", "secretKey"})
"""Of the object store that `body_overrides` may name."""


async def find_run(place: Place, run: str, hint: str) -> dict[Run, list[tuple[Mark, Brief]]]:
    """Return every attempt of a run.

    Args:
        place: the connection, opened.
        run: the run's own id.
        hint: text that is in the name of each of its tasks.
    """
    found = groups(await place.tasks.named(hint))
    return {key: group for key, group in found.items() if key[0] == run}


async def submit(place: Place, manifest: Manifest) -> JobRef:
    """Create the run, or return the one that exists for the same identity.

    Raises:
        NameTaken: a run of that name is somebody else's.
        BackendError: it is not known whether it was created; the next call looks for it first.
    """
    identity = manifest.context.identity
    async with place.lock((identity.task_uuid, identity.attempt)):
        existing = await _existing(place, identity)
        if existing is not None:
            return existing
        await _refuse_foreign(place, manifest.name, identity)
        body, secrets = _body(manifest)
        try:
            uuid = await place.tasks.create(body, secrets=secrets)
        except AnswerLost as error:
            return await _look_again(place, manifest.name, identity, error)
        return await _settle(place, identity, uuid, manifest)


async def _existing(place: Place, identity: Identity) -> JobRef | None:
    found = await find_run(place, identity.task_uuid, identity.suffix)
    group = found.get((identity.task_uuid, identity.attempt))
    if not group:
        return None
    mark, task = await place.twins.keep_one(group)
    return mark.ref(task.uuid)


async def _refuse_foreign(place: Place, name: str, identity: Identity) -> None:
    if identity.suffix in name:
        return  # a name that is made from this identity: what else bears it was found above
    for run, _ in [key for key, group in groups(await place.tasks.named(name)).items() if group[0][0].name == name]:
        if run != identity.task_uuid:
            raise NameTaken(
                f"a run called {name!r} exists on the platform and is somebody else's.",
                hint="Give the task another name_prefix, or delete that run.",
            )


def revealed(manifest: Manifest) -> dict[str, Any]:
    """Return the create body with the hidden values in their places."""
    body = dict(manifest.documents[0])
    hidden = {name: value.reveal() for name, value in manifest.hidden.items()}
    return {**body, "taskEnv": [_revealed(one, hidden) for one in body["taskEnv"]]}


def _revealed(entry: dict[str, Any], hidden: dict[str, str]) -> dict[str, Any]:
    name = entry["envKey"]
    return {**entry, "envValue": hidden[name]} if entry["hide"] and name in hidden else entry


def _body(manifest: Manifest) -> tuple[dict[str, Any], list[str]]:
    """Return what is sent, and the secrets in it."""
    body = {**revealed(manifest), "namePrefix": manifest.name}
    hidden = [value.reveal() for value in manifest.hidden.values()]
    if hidden:
        veil = Veil.of(hidden).model_dump_json()
        body["taskEnv"] = [*body["taskEnv"], {"envKey": VEIL_ENV, "envValue": veil, "hide": False}]
    oss = body.get("oss")
    keys = [value for name, value in oss.items() if name in _OSS_KEYS] if isinstance(oss, dict) else []
    return body, [*hidden, *map(str, filter(None, keys))]


async def _look_again(place: Place, name: str, identity: Identity, error: AnswerLost) -> JobRef:
    """Look for a run whose creation was not answered, until every listing must show it.

    A refusal is ridden out as well: services of the platform have answered 401 in outages, and who gives up here leaves
    a task behind that nobody follows.
    """
    log.warning("the answer to a creation was lost (%s); looking for the task", error)
    deadline, pause = time.monotonic() + place.pace.visible, place.pace.first_pause
    while True:
        trouble: BackendError | None = None
        try:
            found = await _existing(place, identity)
            if found is not None:
                return found
        except BackendError as refused:
            log.info("can't look for %s now: %s", name, refused)
            trouble = refused
        if time.monotonic() >= deadline:
            raise _unseen(place, name, error, trouble) from error
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def _unseen(place: Place, name: str, error: AnswerLost, trouble: BackendError | None) -> BackendError:
    """Return what to tell of a creation that was not answered, and whose task was not seen since."""
    if trouble is None:
        return BackendUnavailable(
            f"{error} No task of this run has appeared within {place.pace.visible:g} s, so it was not created.",
            hint="Another try is safe: it looks for the task first.",
        )
    kind = BackendUnavailable if isinstance(trouble, BackendUnavailable) else BackendError
    return kind(
        f"{error} Whether a task was created is not known, as the platform can't be looked at: {trouble} "
        f"A task {name!r} may exist there.",
        hint=f"Once the platform answers, another try finds it; or stop it by hand: its name begins with {name}.",
    )


async def _settle(place: Place, identity: Identity, uuid: str, manifest: Manifest) -> JobRef:
    """Return the run that counts, now that there is one: another process may have been as quick."""
    mark = Mark.model_validate_json(
        next(e["envValue"] for e in manifest.documents[0]["taskEnv"] if e["envKey"] == MARK_ENV)
    )
    own = mark.model_copy(update={"name": manifest.name}).ref(uuid)
    try:
        return await _existing(place, identity) or own
    except BackendError as error:
        log.info("can't look for a second task of %s now: %s", own.name, error)
        return own
