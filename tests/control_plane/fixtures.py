"""Fixtures of all tests on Kubernetes (a pytest plugin, loaded by tests/conftest.py).

    control_plane      real API server, controllers, Kueue, operators, four fake nodes and a real one: started once for
                       the whole run, shared by all pytest-xdist workers, gone when the run is. Each test that uses it
                       is marked `cluster`. Never disturb it.
    own_control_plane  one that the tests of a file may disturb (restart, pause, forget); a worker's own. A file's
                       CONTROL_PLANE_OPTIONS = ("--real-node",) or ("--trainer",) or ("--elastic",) asks for more
    admin, own_admin   blocking clients of the two, to make and look at things
    namespace          a namespace of the test's own
    queues             flavors, queues and priorities of the test's own

SIFLOW_TEST_KUBECONFIG names the kubeconfig of a control plane that is up already: it is used as it is, and left up.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.control_plane.admin import Admin
from tests.control_plane.plane import ControlPlane, locked, run
from tests.control_plane.queues import Queues, unique

KUBECONFIG = "SIFLOW_TEST_KUBECONFIG"
_SESSION = "SIFLOW_TEST_SESSION"  # folder of the whole run, told to the workers by the environment
_open = ExitStack()


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder of the run, in the process that outlives all workers; its lock says that the run goes on."""
    if hasattr(config, "workerinput"):
        return
    folder = tempfile.mkdtemp(prefix="siflow-tests-")
    _open.callback(shutil.rmtree, folder, ignore_errors=True)
    _open.enter_context(locked(Path(folder, "alive")))
    os.environ[_SESSION] = folder


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the run's control plane, when there is one."""
    if hasattr(config, "workerinput"):
        return
    folder = Path(os.environ[_SESSION])
    for kubeconfig in folder.glob("*/kubeconfig"):
        run("down", kubeconfig.parent)
    _open.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that needs a cluster, so that none can forget it; a start has no part in a test's own time."""
    for item in items:
        if {"control_plane", "own_control_plane"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.cluster)
        if item.get_closest_marker("cluster") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300, func_only=True))


def end_with_the_run() -> tuple[str, str]:
    """Return the options with which a control plane ends when this test run does, however that ends."""
    return "--while-locked", f"{os.environ[_SESSION]}/alive"


def _started(name: str, *options: str) -> ControlPlane:
    """Return the control plane of that name, started by whichever worker comes first."""
    folder = Path(os.environ[_SESSION])
    state = folder / name
    with locked(folder / f"{name}.lock"):
        if not (state / "ready").exists():
            run("up", state, *end_with_the_run(), *options)
    return ControlPlane(state / "kubeconfig", state)


@pytest.fixture(scope="session")
def control_plane() -> ControlPlane:
    """Return the run's shared control plane."""
    if given := os.environ.get(KUBECONFIG):
        folder = Path(given).parent
        return ControlPlane(Path(given), folder if (folder / "audit.log").exists() else None)
    return _started("shared", "--real-node")


@pytest.fixture(scope="module")
def own_control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """Return a control plane that the tests of one file may disturb: as many at a time as there are xdist workers."""
    options: tuple[str, ...] = getattr(request.module, "CONTROL_PLANE_OPTIONS", ())
    plane = _started(f"own-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}", *options)
    try:
        yield plane
    finally:
        run("down", plane.folder)
        shutil.rmtree(plane.folder)


@pytest.fixture(scope="session")
def admin(control_plane: ControlPlane) -> Iterator[Admin]:
    """Return an admin's client of the shared control plane."""
    admin = Admin(control_plane.kubeconfig)
    yield admin
    admin.close()


@pytest.fixture
def own_admin(own_control_plane: ControlPlane) -> Iterator[Admin]:
    """Return an admin's client of the control plane that may be disturbed."""
    admin = Admin(own_control_plane.kubeconfig)
    yield admin
    admin.close()


@pytest.fixture
def namespace(admin: Admin) -> Iterator[str]:
    """Return a namespace of the test's own, deleted at its end without waiting."""
    name = unique("test")
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    admin.delete(admin.path("Namespace", name))


@pytest.fixture
def queues(admin: Admin, namespace: str) -> Iterator[Queues]:
    """Return a maker of queues in the test's namespace."""
    queues = Queues(admin, namespace)
    yield queues
    queues.close()
