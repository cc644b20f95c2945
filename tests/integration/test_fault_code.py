"""What a user's program meets inside real pods, and what is told of a container that ended before it began."""

from __future__ import annotations

from dataclasses import replace

import pytest

from siflow_provider.backends.kubernetes.backend import KubernetesBackend
from siflow_provider.core.outcome import OutcomeKind
from siflow_provider.spec.quantity import Resources
from tests.contract.life import Told, run_to_end, texts
from tests.contract.worlds.kubernetes import KubernetesWorld
from tests.control_plane.plane import ControlPlane
from tests.control_plane.queues import Queues

# torchrun 1.13 reads "no redirection" (its default) as nothing on Python 3.11; with 1 each line has a prefix
_RANKS = "torchrun -r 1 -t 1 --nproc_per_node=2 --no_python bash -c 'echo rank $RANK of $WORLD_SIZE, $LOCAL_RANK here'"
_FETCH = {
    "name": "fetch", "image": "base:test", "imagePullPolicy": "Never",
    "command": ["bash", "-c", "echo no such bucket; exit 3"],
}  # fmt: skip
_FIRST_FETCH = {"spec": {"pytorchReplicaSpecs": {"Master": {"template": {"spec": {"initContainers": [_FETCH]}}}}}}


@pytest.fixture
def world(control_plane: ControlPlane, queues: Queues) -> KubernetesWorld:
    return KubernetesWorld(control_plane.kubeconfig, queues)


async def test_torchrun_without_addresses_gives_each_process_of_all_machines_a_rank_of_its_own(
    world: KubernetesWorld, backend: KubernetesBackend
) -> None:
    task = world.task(_RANKS, workers=1)
    place = replace(task.flavors[0], resources=Resources.of({"memory": "512Mi"}))
    ended, _ = await run_to_end(backend, replace(task, image="torch:test", flavors=(place,)), told := Told())
    assert ended.outcome.kind is OutcomeKind.SUCCEEDED, told.everything
    for replica, ranks in (("master-0", (0, 1)), ("worker-0", (2, 3))):
        said = sorted(text[text.index("rank ") :] for text in texts(told.lines, replica) if "rank " in text)
        assert said == [f"rank {rank} of 4, {here} here" for here, rank in enumerate(ranks)]


async def test_an_init_container_that_fails_is_quoted_in_the_failure(
    world: KubernetesWorld, backend: KubernetesBackend
) -> None:
    ended, _ = await run_to_end(backend, world.task("echo never", kubernetes={"patch": _FIRST_FETCH}), told := Told())
    failure = ended.outcome.failure
    assert failure is not None
    assert (failure.replica, failure.exit_code) == ("master-0", 3), told.everything
    assert "container fetch ended with exit code 3" in failure.summary
    assert "no such bucket" in "\n".join(failure.last_lines)
    assert "never" not in texts(told.lines, "master-0")
