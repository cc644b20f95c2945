"""A PyTorchJob from submit to its end, with real processes."""

from __future__ import annotations

from siflow_provider.backends.local.backend import LocalBackend
from siflow_provider.core.status import Phase
from tests.unit.backends.local.following import end_of, lines_of, running
from tests.unit.backends.local.tasks import context, task


async def test_two_replicas_run_and_succeed_with_torch_rendezvous_variables(backend: LocalBackend) -> None:
    ref = await backend.submit(
        backend.render(task('echo "rank $RANK of $WORLD_SIZE at $MASTER_ADDR"', workers=1), context())
    )
    status = await end_of(backend, ref)
    assert status.phase is Phase.SUCCEEDED, status
    assert [replica.phase for replica in status.replicas] == [Phase.SUCCEEDED] * 2
    assert await lines_of(backend, ref) == ["rank 0 of 2 at 127.0.0.1"]
    assert await lines_of(backend, ref, "worker-0") == ["rank 1 of 2 at 127.0.0.1"]


async def test_failing_rank_is_named_with_its_exit_code_and_last_lines(backend: LocalBackend) -> None:
    command = 'if [ "$RANK" = 1 ]; then for i in $(seq 30); do echo "line $i"; done; exit 3; fi; sleep 600'
    ref = await backend.submit(backend.render(task(command, workers=2), context()))
    status = await end_of(backend, ref)
    assert status.phase is Phase.FAILED
    failure = status.failure
    assert failure is not None
    assert (failure.replica, failure.rank, failure.exit_code) == ("worker-0", 1, 3)
    assert failure.last_lines == tuple(f"line {number}" for number in range(11, 31))
    assert [replica.phase for replica in status.replicas] == [Phase.STOPPED, Phase.FAILED, Phase.STOPPED]


async def test_stop_ends_the_run_and_says_who_asked(backend: LocalBackend) -> None:
    ref = await backend.submit(backend.render(task("sleep 600", workers=1), context()))
    await running(backend, ref)
    await backend.stop(ref, by="ada")
    status = await backend.status(ref)
    assert (status.phase, status.stopped_by) == (Phase.STOPPED, "ada")
    await backend.stop(ref, by="bob")
    assert (await backend.status(ref)).stopped_by == "ada"
