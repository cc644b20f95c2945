"""What the supervisor makes of the answers of Ray's REST API, good and bad, from a real HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from siflow_provider.backends.local.ray_api import RayApi, RayJobInfo
from siflow_provider.backends.local.ray_job import ending_of
from siflow_provider.backends.local.runner import Ending
from siflow_provider.errors import BackendUnavailable

Answers = dict[str, tuple[int, Any]]


@pytest.fixture
def answers() -> Answers:
    return {}


@pytest.fixture
def api(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayApi]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.headers["Authorization"] == "Bearer t0ken"
            status, value = answers.get(self.path, (404, "")) if known else (401, "")
            self.send_response(status)
            self.end_headers()
            self.wfile.write((value if isinstance(value, str) else json.dumps(value)).encode())

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *args: object) -> None:
            return

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield RayApi(f"http://127.0.0.1:{server.server_port}", "t0ken")
    server.shutdown()
    thread.join()
    server.server_close()


def test_job_is_read_with_its_exit_code_and_driver(api: RayApi, answers: Answers) -> None:
    answers["/api/jobs/a"] = (
        200,
        {"status": "FAILED", "message": "m", "driver_exit_code": -9, "driver_info": {"pid": "12"}},
    )
    assert api.find_job("a") == RayJobInfo("FAILED", "m", -9, 12)
    assert api.find_job("unknown") is None


def test_only_living_nodes_count(api: RayApi, answers: Answers) -> None:
    rows = [{"node_name": "head-0", "state": "ALIVE"}, {"node_name": "worker-0", "state": "DEAD"}]
    answers["/api/v0/nodes"] = (200, {"data": {"result": {"result": rows}}})
    assert api.alive_nodes() == {"head-0"}


@pytest.mark.parametrize("answer", [(500, "boom"), (200, "no json"), (200, {"data": None})])
def test_a_bad_answer_is_no_answer(api: RayApi, answers: Answers, answer: tuple[int, Any]) -> None:
    answers["/api/v0/nodes"] = answer
    with pytest.raises(BackendUnavailable):
        api.alive_nodes()


def test_a_cluster_that_is_gone_is_unavailable() -> None:
    with pytest.raises(BackendUnavailable, match="does not answer"):
        RayApi("http://127.0.0.1:1", "t").stop_job("a")


@pytest.mark.parametrize(
    ("job", "ending"),
    [
        (RayJobInfo("SUCCEEDED", "", 0), Ending(True)),
        (RayJobInfo("FAILED", "exit", -9), Ending(False, "submitter-0", exit_code=137)),
        (
            RayJobInfo("FAILED", "runtime_env setup\n failed"),
            Ending(False, "submitter-0", summary="Ray could not run the job: runtime_env setup failed"),
        ),
        (
            RayJobInfo("STOPPED", ""),
            Ending(False, "submitter-0", summary="the Ray job was stopped through Ray's own API"),
        ),
    ],
)
def test_end_of_a_ray_job_is_told_in_the_user_s_words(job: RayJobInfo, ending: Ending) -> None:
    assert ending_of(job) == ending


def test_a_long_message_of_ray_is_cut_at_its_beginning() -> None:
    summary = ending_of(RayJobInfo("FAILED", "pip says " * 500 + "the reason")).summary
    assert summary.endswith("the reason")
    assert len(summary) < 700
