"""`gc` on the embedded backend, with real processes, and an Airflow that says what the test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.backends.settings import Settings
from siflow_provider.core.identity import Identity
from siflow_provider.core.protocol import RenderContext
from siflow_provider.core.status import JobRef, Phase
from tests.unit.backends.local.tasks import task
from tests.unit.cli.airflow_answers import TOKEN, AirflowAnswers
from tests.unit.cli.conftest import Command, Done

pytestmark = pytest.mark.runs

RUN = "scheduled__2026-01-01T00:00:00+00:00"


@pytest.fixture
def airflow() -> Iterator[AirflowAnswers]:
    with AirflowAnswers() as answers:
        yield answers


def settings(command: Command) -> Settings:
    return Settings(state_dir=str(command.folder / "state"))


def submit(command: Command, *contexts: RenderContext) -> list[JobRef]:
    """Start a run for each context and wait until it works."""

    async def started() -> list[JobRef]:
        refs = []
        async with LocalBackend(settings(command)) as backend:
            for context in contexts:
                refs.append(await backend.submit(backend.render(task("exec sleep 600"), context)))
                async for status in backend.watch(refs[-1]):
                    if status.phase is Phase.RUNNING:
                        break
        return refs

    return asyncio.run(started())


def stop_all(command: Command) -> None:
    async def stopped() -> None:
        async with LocalBackend(settings(command)) as backend:
            await asyncio.gather(*(backend.stop(each.ref, by="the test") for each in await backend.runs()))

    asyncio.run(stopped())


def of(
    task_id: str, *, index: int = -1, detached: bool = False, instance: str = "", installation: str = ""
) -> RenderContext:
    identity = Identity(dag_id="täglich", task_id=task_id, run_id=RUN, map_index=index, installation=installation)
    return RenderContext(identity=identity, detached=detached, instance=instance)


def gc(command: Command, airflow: AirflowAnswers, *arguments: str, token: str = TOKEN) -> Done:
    return command("gc", "--airflow", airflow.url, *arguments, variables={"SIFLOW_AIRFLOW_TOKEN": token})


def test_runs_whose_task_is_over_are_stopped_and_no_others(command: Command, airflow: AirflowAnswers) -> None:
    by_hand = RenderContext(identity=Identity.random())
    contexts = (of("over"), of("mapped", index=3), of("alive"), of("gone"), of("secret"), of("kept", detached=True))
    over, mapped, alive, gone, secret, kept, hand = (ref.name for ref in submit(command, *contexts, by_hand))
    airflow.put("täglich", RUN, "over", "failed")
    airflow.put("täglich", RUN, "mapped", "deferred", try_number=2, index=3)
    airflow.put("täglich", RUN, "alive", "deferred")
    airflow.refuse("täglich", RUN, "secret", 403)
    try:
        shown = gc(command, airflow)
        assert shown.code == 0, shown.err
        rows = {line.split("\t")[1]: line.split("\t") for line in shown.out.splitlines()[1:]}
        assert {name: row[0] for name, row in rows.items()} == {
            over: "stop", mapped: "stop", gone: "keep", secret: "keep"
        }  # fmt: skip
        assert rows[over][3:] == [f"täglich.over {RUN} try 1", "its task instance is failed"]
        assert "HTTP 403" in rows[secret][4]
        assert "2 to stop, 0 to delete, 5 left as they are; of 2 of these it is not known" in shown.err
        assert "nothing was done" in shown.err

        done = gc(command, airflow, "--yes", "--json")
        assert done.code == 0, done.err
        told = {one["name"]: one for one in done.data}
        assert {name for name, one in told.items() if one["done"]} == {over, mapped}
        assert told[alive]["airflow"] == "deferred, try 1"
        assert (told[kept]["task"]["detached"], told[hand]["task"]) == (True, None)
        runs = {run["name"]: run for run in command("ps", "--all", "--json").data}
        assert {name for name, run in runs.items() if run["phase"] == "stopped"} == {over, mapped}
        assert runs[over]["stopped_by"] == "siflow-provider gc: its task instance is failed"
    finally:
        stop_all(command)


def test_a_run_of_a_dag_run_that_was_made_again_is_named_and_stopped_where_the_user_says_so(
    command: Command, airflow: AirflowAnswers
) -> None:
    old, new = (ref.name for ref in submit(command, of("train", instance="old"), of("other", instance="new")))
    airflow.put("täglich", RUN, "train", "deferred", own_id="new")
    airflow.put("täglich", RUN, "other", "deferred", own_id="new")
    try:
        shown = gc(command, airflow, "--json").data
        assert {one["name"]: (one["action"], one["unsure"]) for one in shown} == {
            old: ("keep", True), new: ("keep", False)
        }  # fmt: skip
        done = gc(command, airflow, "--missing", "--yes", "--json").data
        assert {one["name"]: one["done"] for one in done} == {old: True, new: None}
    finally:
        stop_all(command)


def test_only_runs_of_the_installation_are_touched(command: Command, airflow: AirflowAnswers) -> None:
    contexts = [of("over", installation=each) for each in ("blue", "green", "")]
    blue, green, none = (ref.name for ref in submit(command, *contexts))
    assert len({blue, green, none}) == 3
    airflow.put("täglich", RUN, "over", "failed")
    try:
        for option in ([], ["--installation", "red"]):
            shown = gc(command, airflow, "--older-than", "0s", *option, "--json").data
            assert {one["name"] for one in shown if one["action"] != "keep"} == ({none} if not option else set())
        variables = {"SIFLOW_AIRFLOW_TOKEN": TOKEN, "AIRFLOW__SIFLOW__INSTALLATION": "blue"}
        done = command("gc", "--airflow", airflow.url, "--missing", "--yes", "--json", variables=variables).data
        assert {one["name"]: one["done"] for one in done} == {blue: True, green: None, none: None}
        runs = {run["name"]: run["phase"] for run in command("ps", "--all", "--json").data}
        assert runs == {blue: "stopped", green: "running", none: "running"}
    finally:
        stop_all(command)


def test_ended_runs_are_deleted_from_an_age_on(command: Command) -> None:
    assert command("run", command.form()).code == 0
    assert command.anew("gc", "--older-than", "1h", "--yes").out.splitlines() == ["action\tname\tphase\ttask\twhy"]
    assert "delete\t" in command("gc", "--older-than", "0s").out
    assert len(command("ps", "--all", "--json").data) == 1
    assert "deleted\t" in command("gc", "--older-than", "0s", "--yes").out
    assert command("ps", "--all", "--json").data == []


def test_an_ended_attempt_is_deleted_only_when_the_one_that_followed_it_has_ended_too(command: Command) -> None:
    identity = Identity.random()
    submit(command, RenderContext(identity=identity))
    stop_all(command)
    submit(command, RenderContext(identity=identity.for_attempt(2)))
    try:
        assert command("gc", "--older-than", "0s", "--yes").out.splitlines() == ["action\tname\tphase\ttask\twhy"]
    finally:
        stop_all(command)
    assert command("gc", "--older-than", "0s", "--yes").out.count("deleted\t") == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--airflow URL"),
        (["--missing", "--older-than", "1d"], "--airflow URL"),
        (["--older-than", "soon"], "a duration is"),
        (["--older-than", "-5"], "not negative"),
        (["--airflow", "airflow.example"], "http(s) address"),
        (["--airflow", "https://airflow.example:99999"], "http(s) address"),
        (["--airflow", "https://me:secret-word@airflow.example"], "without a login"),
        (["--airflow", "http://127.0.0.1:1"], "gives no answer"),
    ],
)
def test_a_wrong_call_is_explained(command: Command, arguments: list[str], said: str) -> None:
    done = command("gc", *arguments)
    assert done.code == 2
    assert said in done.err
    assert "secret-word" not in done.err
    assert "Traceback" not in done.err


def test_a_token_that_is_not_accepted_ends_the_command_and_is_not_shown(
    command: Command, airflow: AirflowAnswers
) -> None:
    done = gc(command, airflow, "--yes", token="wrong-canary")
    assert done.code == 2
    assert "does not accept the token" in done.err
    assert "wrong-canary" not in done.err + done.out


class Ending(AirflowAnswers):
    """Its token ends once each task instance was asked for."""

    def _answer(self, path: str, authorization: str) -> tuple[int, dict[str, Any]]:
        return super()._answer(path, "" if path in self.asked else authorization)


def test_a_token_that_ends_in_between_stops_nothing_and_every_run_is_named(command: Command) -> None:
    names = {ref.name for ref in submit(command, of("one"), of("two"))}
    try:
        with Ending() as airflow:
            for task_id in ("one", "two"):
                airflow.put("täglich", RUN, task_id, "failed")
            done = gc(command, airflow, "--yes", "--json")
        assert done.code == 1, done.err
        told = {one["name"]: (one["action"], one["done"]) for one in done.data}
        assert told == dict.fromkeys(names, ("stop", False))
        assert all("does not accept the token" in one["error"] for one in done.data)
        assert {run["phase"] for run in command("ps", "--json").data} == {"running"}
    finally:
        stop_all(command)


@pytest.mark.parametrize("version", ["", "2.10.4"])
def test_what_is_no_airflow_3_is_not_believed_that_a_task_is_missing(command: Command, version: str) -> None:
    with AirflowAnswers(version) as other:
        done = gc(command, other, "--yes", "--missing")
    assert done.code == 2
    assert "is no Airflow 3" in done.err
    assert other.asked == ["/api/v2/version"]
