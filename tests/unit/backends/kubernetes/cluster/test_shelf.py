"""Whatever events are lost or told twice: after a list the shelf holds what there is, in little memory."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from siflow_provider.backends.kubernetes.cluster.shelf import Shelf
from siflow_provider.backends.kubernetes.cluster.trim import trimmed
from tests.unit.backends.kubernetes.cluster.things import label

NAMES = ("a", "b", "c")
GOLDEN = Path(__file__).parents[4] / "golden"

Step = tuple[str, str, bool]
steps = st.lists(st.tuples(st.sampled_from(["put", "remove", "list"]), st.sampled_from(NAMES), st.booleans()))


class World:
    """A cluster, and a shelf that hears of only some of its changes."""

    def __init__(self) -> None:
        self.shelf = Shelf(label, most_gone=4)
        self.there: dict[str, dict[str, Any]] = {}
        self._version = 0

    def put(self, name: str, *, told: bool) -> None:
        self._version += 1
        known = self.there.get(name)
        uid = known["metadata"]["uid"] if known else f"{name}-{self._version}"
        metadata = {"name": name, "uid": uid, "resourceVersion": str(self._version), "labels": {"key": name}}
        self.there[name] = {"metadata": metadata, "status": {"at": self._version}}
        if told:
            assert self.shelf.put([self.there[name]]) == {name}
            assert self.shelf.put([self.there[name]]) == set()

    def remove(self, name: str, *, told: bool) -> None:
        last = self.there.pop(name, None)
        self._version += 1
        if last is not None and told:
            last = {**last, "metadata": {**last["metadata"], "resourceVersion": str(self._version)}}
            assert self.shelf.remove(last) == {name}
            assert self.shelf.remove(last) == set()
            assert self.shelf.gone(last["metadata"]["uid"]) == last

    def list(self) -> None:
        self.shelf.put(self.there.values())
        self.shelf.drop(self.shelf.uids() - {item["metadata"]["uid"] for item in self.there.values()})


@given(steps)
def test_after_a_list_the_shelf_holds_what_there_is(taken: list[Step]) -> None:
    world = World()
    for what, name, told in taken:
        if what == "list":
            world.list()
        else:
            getattr(world, what)(name, told=told)
    world.list()
    assert {name: world.shelf.objects(name) for name in NAMES} == {
        name: (world.there[name],) if name in world.there else () for name in NAMES
    }
    assert len(world.shelf) == len(world.there)


def test_what_a_list_no_longer_shows_is_remembered_as_it_was_seen_last() -> None:
    world = World()
    world.put("a", told=True)
    seen = world.there["a"]
    world.remove("a", told=False)
    world.list()
    assert world.shelf.gone("a") == seen


def test_only_the_newest_of_those_that_are_gone_are_remembered() -> None:
    world = World()
    for _ in range(10):
        world.put("a", told=True)
        world.remove("a", told=True)
    world.put("b", told=True)
    world.remove("b", told=True)
    gone = [uid for number in range(40) if world.shelf.gone(uid := f"a-{number}") is not None]
    assert len(gone) == 3
    assert world.shelf.gone("b") is not None


def test_a_caller_may_change_what_it_got() -> None:
    world = World()
    world.put("a", told=True)
    world.shelf.objects("a")[0]["status"] = "changed"
    assert world.shelf.objects("a") == (world.there["a"],)


def test_an_object_without_a_key_is_not_kept() -> None:
    shelf = Shelf(lambda _item: None)
    assert shelf.put([{"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}}]) == set()
    assert len(shelf) == 0


def manifest(name: str) -> dict[str, Any]:
    documents = yaml.safe_load_all((GOLDEN / name).read_text(encoding="utf-8"))
    return next(document for document in documents if document["kind"] in ("PyTorchJob", "RayJob"))


def test_what_tells_the_state_of_a_job_is_kept_and_the_rest_is_not() -> None:
    job = manifest("everything-pytorch.yaml")
    job["metadata"]["managedFields"] = [{"manager": "x"}]
    job["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
    kept = trimmed(job)
    assert "managedFields" not in kept["metadata"]
    assert "kubectl.kubernetes.io/last-applied-configuration" not in kept["metadata"]["annotations"]
    assert kept["metadata"]["labels"] == job["metadata"]["labels"]
    assert kept["spec"]["runPolicy"] == job["spec"]["runPolicy"]
    for role, replicas in job["spec"]["pytorchReplicaSpecs"].items():
        mine = kept["spec"]["pytorchReplicaSpecs"][role]
        assert mine["replicas"] == replicas["replicas"]
        [container, *_] = mine["template"]["spec"]["containers"]
        assert set(container) <= {"name", "image", "resources", "restartPolicy"}
    assert len(json.dumps(kept)) < len(json.dumps(job)) / 2


def test_ten_thousand_jobs_take_less_than_a_hundred_megabytes() -> None:
    job = json.dumps(manifest("everything-pytorch.yaml"))
    shelf = Shelf(lambda item: str(item["metadata"]["name"]))
    tracemalloc.start()
    try:
        for number in range(200):
            item = json.loads(job)
            item["metadata"] |= {"name": f"job-{number}", "uid": f"uid-{number}", "resourceVersion": str(number)}
            shelf.put([item])
        taken, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken * 50 < 100 * 2**20
