"""Fuzz our client with answers that schemathesis makes from the fake platform's OpenAPI description.

    python -m tests.platform.fuzz_answers URL [--max-examples N]      # URL of a running fake, without `/sfapi`

schemathesis makes requests, so the description is turned round: what a call answers becomes what a call takes. The fake
gives each made answer to our client over HTTP, whole ones and broken ones. Whatever comes, the client reads it or
raises an error of ours; it reads every whole answer that says `status: true`, and an error names the ids that came.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from siflow_provider.backends.platform.discover import discover
from siflow_provider.backends.platform.errors import AnswerLost
from siflow_provider.backends.platform.logs import LogReader
from siflow_provider.backends.platform.pace import Pace
from siflow_provider.backends.platform.place import Place, open_place
from siflow_provider.backends.platform.quota import answer_quota
from siflow_provider.errors import SiflowError
from siflow_provider.spec.quantity import Resources
from siflow_provider.spec.resolve import Flavor, ResolvedTask
from siflow_provider.spec.task import PyTorchJob
from tests.platform.client import LOGS, connection
from tests.platform.names import POOL

TASKS, RES = "/task-service/v1/tasks", "/resource-service/v1"
PACE = Pace(tries=1, answer=30.0)
BODY = {"namePrefix": "a", "taskEnv": []}
FORM = {"image": "i:1", "command": "true", "compute": {"type": "on_demand", "instances": ["cpu.demo-1"]}}
SIZE = Resources.of({"cpu": "1", "memory": "1Gi"})
TASK = ResolvedTask(
    task=PyTorchJob.model_validate(FORM),
    image="i:1",
    env={},
    hidden={},
    flavors=(Flavor("cpu.demo-1", SIZE, resource_pool=POOL),),
)


async def _quota(place: Place) -> object:
    return await answer_quota(place.client, TASK, place.settings)


async def _discover(place: Place) -> object:
    return await discover(place.settings, PACE)


CALLS: dict[tuple[str, str], Callable[[Place], Awaitable[object]]] = {
    ("get", TASKS): lambda place: place.tasks.everything(),
    ("post", TASKS): lambda place: place.tasks.create(BODY, secrets=()),
    ("get", f"{TASKS}/{{uuid}}"): lambda place: place.tasks.get("u"),
    ("delete", f"{TASKS}/{{uuid}}"): lambda place: place.tasks.delete("u"),
    ("get", f"{TASKS}/{{uuid}}/pods"): lambda place: place.tasks.pods("u"),
    ("get", f"{TASKS}/{{uuid}}/logs"): lambda place: LogReader(place.client, LOGS).entries("u", "p", 0),
    ("post", f"{TASKS}/stop"): lambda place: place.tasks.stop("u"),
    ("get", f"{RES}/instances"): _quota,
    ("get", f"{RES}/user-instances"): _quota,
    ("get", f"{RES}/user-quota"): _quota,
    ("get", f"{RES}/instance/quota"): _discover,
    ("get", f"{RES}/volumes"): _discover,
    ("get", "/data-service/v1/datasets"): _discover,
    ("get", "/model-service/v1/models"): _discover,
    ("get", "/model-service/v1/preset-models"): _discover,
    ("get", "/aiapi/v1/image-sync-server/images-management"): _discover,
}
"""What of our client reads which answer."""


@dataclass
class Reader:
    """Our client at work on one fake platform."""

    url: str
    fake: httpx.Client
    loop: asyncio.Runner
    place: Place

    def read(self, key: tuple[str, str], text: str) -> SiflowError | None:
        """Let the fake answer one call with a text, and return the error that our client makes of it."""
        method, path = key
        pattern = path.replace("{uuid}", "[^/]+") + "$"
        self._plant({"method": method.upper(), "path": pattern, "body": text, "times": 9})
        try:
            self.loop.run(_awaited(CALLS[key](self.place)))
        except SiflowError as error:
            return error
        finally:
            self._plant()  # what was not asked for must meet nobody else
        return None

    def _plant(self, *faults: dict[str, Any]) -> None:
        self.fake.post(f"{self.url}/control", json={"faults": faults}).raise_for_status()


async def _awaited(work: Awaitable[object]) -> object:
    return await work


def turned(description: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a service that takes, at `/METHOD/PATH`, what the platform answers there."""
    paths = {}
    for key in CALLS:
        method, path = key
        answer = description["paths"][path][method]["responses"]["200"]["content"]
        made = {"requestBody": {"required": True, "content": answer}, "responses": {"200": {"description": ""}}}
        paths[_place_of(key)] = {"post": made}
    return {**description, "paths": paths}


def _place_of(key: tuple[str, str]) -> str:
    return re.sub(r"[{}]", "", f"/{key[0]}{key[1]}")


def judge(body: Any, error: SiflowError | None, *, whole: bool) -> None:
    """Refuse an error that a whole answer has no reason for, and one that leaves the answer's ids out."""
    if error is None or not isinstance(body, dict):
        return
    empty = isinstance(error, AnswerLost) and not body.get("data")
    assert not (whole and body.get("status") is True) or empty, f"{error!r} of {body!r}"
    for name in ("requestID", "traceID"):
        assert str(body.get(name) or "") in str(error), f"{name} of {body!r} is not in {error!r}"


def fuzz(reader: Reader, schema: Any, key: tuple[str, str], mode: GenerationMode, examples: int) -> int:
    """Give the client made answers to one call; return how many there were."""
    given_answers = 0

    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=schema[_place_of(key)]["POST"].as_strategy(generation_mode=mode))
    def one(case: Any) -> None:
        nonlocal given_answers
        given_answers += 1
        try:
            text = json.dumps(case.body)
        except TypeError:  # no body at all is one of the broken ones
            text = ""
        judge(case.body, reader.read(key, text), whole=mode is GenerationMode.POSITIVE)

    one()
    return given_answers


def main() -> None:
    """Fuzz every call that our client reads, and print how many answers it was given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--max-examples", type=int, default=8)
    options, _ = parser.parse_known_args()  # the others are for schemathesis itself
    stack, patient = AsyncExitStack(), httpx.HTTPTransport(retries=8)  # the fake may have just been started
    with httpx.Client(transport=patient, timeout=60) as fake, asyncio.Runner() as loop:
        description = fake.get(f"{options.url}/sfapi/openapi.json").raise_for_status().json()
        schema = schemathesis.openapi.from_dict(turned(description))
        place = loop.run(stack.enter_async_context(open_place(connection(f"{options.url}/sfapi"), PACE)))
        reader = Reader(options.url, fake, loop, place)
        for key in CALLS:
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                count = fuzz(reader, schema, key, mode, options.max_examples)
                sys.stdout.write(f"{key[0].upper():>6} {key[1]}: {count} answers, {mode.value}\n")
                sys.stdout.flush()
        loop.run(stack.aclose())


if __name__ == "__main__":
    main()
