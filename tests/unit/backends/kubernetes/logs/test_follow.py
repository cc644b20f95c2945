"""What a user reads of a run while everything on the way breaks: each line once, in order, and all of them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from datetime import UTC, datetime

import pytest

from siflow_provider.backends.kubernetes.cluster.resources import PODS as PODS_KIND
from siflow_provider.backends.kubernetes.logs import reader
from siflow_provider.core.status import LogCursor, LogLine
from siflow_provider.errors import AccessDenied, BackendUnavailable, UsageError
from tests.unit.backends.kubernetes.logs.conftest import Run, numbers, texts
from tests.unit.backends.kubernetes.logs.log_server import ENDED, PODS, WAITING, Cut, pod

REPLICAS = ("master-0", "worker-0", "worker-1")


@pytest.mark.parametrize("how", ["reset", "closed"])
async def test_every_line_comes_once_and_in_order_though_connections_break(run: Run, how: str) -> None:
    run.start(*REPLICAS)
    for replica in REPLICAS:
        run.server.log(f"bert-{replica}").write(*numbers(1, 3000), every=10**7)
        run.server.cuts[f"bert-{replica}", "pytorch"].extend(Cut(after, how) for after in (1, 999, 20_001, 50_000))  # type: ignore[arg-type]
    reading = run.reading()
    await reading.until(9000)
    run.end(*REPLICAS)
    lines = await reading.end()
    for replica in REPLICAS:
        assert texts(lines, replica) == numbers(1, 3000)


async def test_a_reader_in_another_process_goes_on_where_the_first_one_was(run: Run) -> None:
    run.start("master-0")
    log = run.server.log("bert-master-0")
    log.write(*numbers(1, 100), every=3 * 10**8)
    first: list[LogLine] = []
    async with aclosing(run.lines()) as stream:
        async for line in stream:
            first.append(line)
            if line.text == "37":
                break
    log.write(*numbers(101, 120))
    run.end("master-0")
    cursor = LogCursor.model_validate_json(LogCursor().after(first[-1]).model_dump_json())
    assert texts(first + await run.read(cursor=cursor)) == numbers(1, 120)


async def test_pods_that_do_not_exist_yet_are_waited_for(run: Run) -> None:
    reading = run.reading()
    await run.server.watched()
    run.server.put(PODS, pod("master-0", WAITING, status={"phase": "Pending"}))
    run.server.log("bert-master-0").write("hello")
    run.start("master-0")
    await reading.until(1)
    run.end("master-0")
    assert texts(await reading.end()) == ["hello"]


async def test_a_pod_that_is_created_again_is_read_from_its_beginning_and_marked(run: Run) -> None:
    run.server.put(PODS, pod("master-0", metadata={"uid": "first"}))
    run.server.log("bert-master-0").write("step 1", "step 2")
    reading = run.reading()
    await reading.until(2)
    run.server.log("bert-master-0").end()
    run.server.put(PODS, pod("master-0", ENDED, metadata={"uid": "first"}))
    run.server.remove(PODS, "bert-master-0")
    run.server.new_log("bert-master-0").write("step 2", "step 3")
    run.server.put(PODS, pod("master-0", metadata={"uid": "second", "creationTimestamp": "2026-05-01T11:00:00Z"}))
    await reading.until(5)
    run.end()
    run.server.put(PODS, pod("master-0", ENDED, metadata={"uid": "second"}))
    run.server.log("bert-master-0").end()
    mark = "--- master-0: begins anew in a pod that was created at 2026-05-01T11:00:00Z ---"
    assert texts(await reading.end()) == ["step 1", "step 2", mark, "step 2", "step 3"]


async def test_a_name_that_another_pod_has_by_now_is_not_read_as_ours(run: Run) -> None:
    run.server.put(PODS, pod("master-0", metadata={"uid": "first"}))
    await run.cluster.store(PODS_KIND, "ml").ready()
    await run.server.watched()
    run.server.put(PODS, pod("master-0", metadata={"uid": "second"}), quietly=True)
    run.server.log("bert-master-0").write("of the second")
    reading = run.reading()
    await run.server.until(lambda: f"{PODS}/bert-master-0" in run.server.paths and not run.server.open)
    assert reading.lines == []
    run.server.end_watches()
    run.end()
    run.server.log("bert-master-0").end()
    run.server.compact()
    assert "of the second" in texts(await reading.end())


async def test_the_output_of_init_containers_is_there_and_marked(run: Run) -> None:
    spec = {"initContainers": [{"name": "fetch"}, {"name": "beside", "restartPolicy": "Always"}]}
    failed = {"phase": "Failed", "initContainerStatuses": [{"name": "fetch", "state": {"terminated": {"exitCode": 2}}}]}
    run.server.put(PODS, pod("master-0", WAITING, spec=spec, status=failed))
    run.server.log("bert-master-0", "fetch").write("no such bucket")
    run.end()
    assert texts(await run.read()) == ["[init fetch] no such bucket"]


async def test_an_operator_that_waits_for_the_master_is_not_heard(run: Run) -> None:
    spec = {"initContainers": [{"name": "init-pytorch"}]}
    waits = {"initContainerStatuses": [{"name": "init-pytorch", "state": {"running": {}}}], "phase": "Pending"}
    run.server.put(PODS, pod("worker-0", WAITING, spec=spec, status=waits))
    run.server.log("bert-worker-0", "init-pytorch").write("waiting for master")
    run.server.log("bert-worker-0").write("begun")
    reading = run.reading()
    await run.server.watched()
    done = {"initContainerStatuses": [{"name": "init-pytorch", "state": {"terminated": {"exitCode": 0}}}]}
    run.server.put(PODS, pod("worker-0", spec=spec, status=done))
    await reading.until(1)
    run.server.log("bert-worker-0").end()
    run.server.put(PODS, pod("worker-0", ENDED, spec=spec, status=done))
    run.end()
    assert texts(await reading.end(), "worker-0") == ["begun"]


async def test_a_pod_that_is_deleted_at_once_is_read_as_far_as_it_goes_and_the_gap_is_told(run: Run) -> None:
    run.start("master-0")
    run.server.log("bert-master-0").write("begun")
    run.server.cuts["bert-master-0", "pytorch"].append(Cut(34))
    reading = run.reading()
    await run.server.watched()
    run.server.remove(PODS, "bert-master-0")
    run.end()
    assert texts(await reading.end())[-1] == "--- master-0: its pod is gone; its last lines may be missing ---"


async def test_a_container_that_was_never_made_has_no_lines_to_miss(run: Run) -> None:
    run.server.put(PODS, pod("master-0", WAITING))
    reading = run.reading()
    await run.server.watched()
    never = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
    run.server.put(PODS, pod("master-0", never, status={"phase": "Running"}))
    run.server.remove(PODS, "bert-master-0")
    run.end()
    assert await reading.end() == []


async def test_a_pod_that_ended_before_it_was_deleted_leaves_no_doubt(run: Run) -> None:
    run.start("master-0")
    run.server.log("bert-master-0").write("begun", "done")
    reading = run.reading()
    await reading.until(2)
    run.server.log("bert-master-0").end()
    run.server.put(PODS, pod("master-0", ENDED))
    run.server.remove(PODS, "bert-master-0")
    run.end()
    assert texts(await reading.end()) == ["begun", "done"]


async def test_a_pod_that_was_gone_before_anybody_looked_is_told_of_once(run: Run) -> None:
    run.running_at = datetime(2026, 5, 1, tzinfo=UTC)
    run.start("master-0")
    run.server.log("bert-master-0").write("wrong")
    run.end("master-0")
    lines = await run.read(("master-0", "worker-1"))
    told = "--- worker-1: its pod was gone before its log could be read ---"
    assert [(line.text, line.remark) for line in lines] == [("wrong", False), (told, True)]
    cursor = LogCursor(positions={line.replica: line.position for line in lines})
    assert await run.read(("master-0", "worker-1"), cursor) == []


async def test_a_replica_that_is_not_there_is_an_error_that_names_those_that_are(run: Run) -> None:
    with pytest.raises(UsageError, match=r"bert has no replica 'worker-7'\. It has: master-0, worker-0, worker-1\."):
        await run.read(("master-0", "worker-7"))


async def test_only_the_selected_replicas_are_read(run: Run) -> None:
    run.start(*REPLICAS)
    for replica in REPLICAS:
        run.server.log(f"bert-{replica}").write(replica)
    assert [line.text for line in await run.read(("worker-1",), follow=False)] == ["worker-1"]
    assert [line.text for line in await run.read("master", follow=False)] == ["master-0"]
    assert {pod for pod, _ in run.server.asked} == {"bert-master-0", "bert-worker-1"}
    assert await run.read("none", follow=False) == []


async def test_all_replicas_are_followed_however_few_connections_are_opened_at_a_time(run: Run) -> None:
    run.start(*REPLICAS)
    for replica in REPLICAS:
        run.server.log(f"bert-{replica}").write("begun")
    reading = run.reading()
    await reading.until(3)
    assert run.server.open == 3
    run.end(*REPLICAS)
    await reading.end()


async def test_leaving_early_closes_every_connection(run: Run) -> None:
    run.start(*REPLICAS)
    for replica in REPLICAS:
        run.server.log(f"bert-{replica}").write("begun")
    async with aclosing(run.lines()) as stream:
        await anext(stream)
        assert run.server.open > 0
    await run.server.until(lambda: not run.server.open)


async def test_one_node_out_of_reach_does_not_keep_the_others_back_and_is_told_once(run: Run) -> None:
    run.start("master-0", "worker-0")
    run.server.log("bert-master-0").write(*numbers(1, 3))
    run.server.log("bert-worker-0").write("late")
    run.server.refusals["bert-worker-0"].extend([(500, "dial tcp: connection refused")] * 12)
    reading = run.reading()
    await reading.until(5)
    run.end("master-0", "worker-0")
    assert texts(await reading.end()) == numbers(1, 3)
    told, *rest = texts(reading.lines, "worker-0")
    assert "worker-0: its log can't be read at the moment" in told
    assert rest == ["late"]


async def test_nobody_waits_for_the_log_of_a_node_that_is_lost_once_the_run_is_over(run: Run) -> None:
    run.start("master-0")
    run.server.log("bert-master-0").write("one")
    reading = run.reading()
    await reading.until(1)
    run.server.refusals["bert-master-0"].extend([(500, "dial tcp: connection refused")] * 1000)
    lost = [{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]
    run.server.put(PODS, pod("master-0", status={"conditions": lost}))
    run.server.log("bert-master-0").end()
    run.end()
    with suppress(BackendUnavailable):
        await reading.end()
    assert texts(await run.read())[-1] == "--- master-0: its node does not answer; its last lines may be missing ---"


async def test_an_outage_of_all_is_told_to_who_reads(run: Run) -> None:
    run.start("master-0", "worker-0")
    for replica in ("master-0", "worker-0"):
        run.server.refusals[f"bert-{replica}"].extend([(503, "starting")] * 1000)
    with pytest.raises(BackendUnavailable, match="503"):
        await run.read()


async def test_a_login_that_may_not_read_logs_is_told_so(run: Run) -> None:
    run.start("master-0")
    run.server.refusals["bert-master-0"].append((403, "may not get pods/log"))
    with pytest.raises(AccessDenied, match="may not get pods/log"):
        await run.read()


async def test_a_login_that_may_not_list_pods_reads_them_by_name(run: Run) -> None:
    run.server.denies_lists = True
    run.start("master-0", "worker-0")
    for replica in ("master-0", "worker-0"):
        run.server.log(f"bert-{replica}").write(replica)
    reading = run.reading()
    await reading.until(2)
    run.end("master-0", "worker-0")
    assert sorted(line.text for line in await reading.end()) == ["master-0", "worker-0"]


async def test_a_connection_that_died_without_a_word_is_replaced(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_SILENCE_SECONDS", 0.2)
    run.start("master-0")
    run.server.log("bert-master-0").write("one", "two")
    run.server.cuts["bert-master-0", "pytorch"].append(Cut(25, "silent"))
    reading = run.reading()
    await reading.until(2)
    run.end("master-0")
    assert texts(await reading.end()) == ["one", "two"]


async def test_a_cluster_that_is_kept_after_the_end_does_not_keep_the_reader(run: Run) -> None:
    run.start("master-0")
    run.server.log("bert-master-0").write("all there is")
    run.end()
    assert texts(await run.read()) == ["all there is"]


async def test_what_is_not_taken_is_not_fetched(run: Run) -> None:
    run.start("master-0")
    run.server.log("bert-master-0").write(*("x" * 10_000 for _ in range(4000)))
    async with aclosing(run.lines()) as stream:
        await anext(stream)
        before = -1
        while before != run.server.bytes_sent:
            before = run.server.bytes_sent
            await asyncio.sleep(0.3)
        assert run.server.bytes_sent < 20_000_000
