"""The Ray dashboard's job API for every fake head pod.

All addresses of fake pods lead here, and the address that was called tells which pod is meant. A submitted job runs for
fakepod.test/ray-job-duration seconds (annotation of the head pod, default 3), then has the status
fakepod.test/ray-job-status (default SUCCEEDED).

In submission mode K8sJobMode the fake submitter pod submits nothing, so there a job counts as submitted when KubeRay
first asks for it.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from tests.control_plane.fakes.pods import Pod, Pods, Server, annotation
from tests.control_plane.fakes.web import Answers, WebServer

Answer = tuple[int, Any]


@dataclass
class Job:
    """One submitted job."""

    entrypoint: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    started: int = field(default_factory=lambda: int(time.time() * 1000))
    stopped: int | None = None


def _ending(pod: Pod, job: Job) -> dict[str, Any]:
    end = job.started + int(1000 * float(annotation(pod, "ray-job-duration", "3")))
    if job.stopped is not None:
        return {"status": "STOPPED", "end_time": job.stopped, "message": "Job was intentionally stopped."}
    if time.time() * 1000 < end:
        return {"status": "RUNNING", "message": "Job is currently running."}
    status = annotation(pod, "ray-job-status", "SUCCEEDED")
    failed = "Job entrypoint command failed with exit code 1"
    return {
        "status": status,
        "end_time": end,
        "message": "Job finished successfully." if status == "SUCCEEDED" else failed,
    }


def describe(pod: Pod, submission: str, job: Job) -> dict[str, Any]:
    """Return a job as the dashboard shows it."""
    return {
        "type": "SUBMISSION",
        "submission_id": submission,
        "job_id": None,
        "entrypoint": job.entrypoint,
        "metadata": job.metadata,
        "start_time": job.started,
        **_ending(pod, job),
    }


class Dashboards:
    """The jobs of all fake clusters."""

    def __init__(self) -> None:
        self._server = Server()
        self._pods = Pods(self._server)
        self._jobs: dict[tuple[str, str], Job] = {}
        self._lock = threading.Lock()

    def head(self, address: str) -> Pod | None:
        """Return the running head pod with that address."""
        return self._pods.first(
            lambda pod: (
                pod["status"].get("podIP") == address
                and pod["status"].get("phase") == "Running"
                and (pod["metadata"].get("labels") or {}).get("ray.io/node-type") == "head"
            )
        )

    def answer(self, pod: Pod, method: str, parts: list[str], body: dict[str, Any]) -> Answer:
        """Answer one request about a head pod's jobs."""
        if parts == ["api", "version"]:
            return 200, {"version": "4", "ray_version": "fake", "ray_commit": "fake"}
        if parts[:2] != ["api", "jobs"]:
            return 404, "the fake dashboard serves the job API only"
        uid = pod["metadata"]["uid"]
        with self._lock:
            if len(parts) == 2 and method == "POST":
                return self._submit(uid, body)
            if len(parts) == 2:
                mine = [(key[1], job) for key, job in self._jobs.items() if key[0] == uid]
                return 200, [describe(pod, submission, job) for submission, job in mine]
            return self._about(pod, parts[2], method, parts[3:])

    def _submit(self, uid: str, body: dict[str, Any]) -> Answer:
        submission = body.get("submission_id") or f"raysubmit_{time.time_ns()}"
        if (uid, submission) in self._jobs:
            return 500, f"Job with submission_id {submission} already exists. Please use a different submission_id."
        self._jobs[uid, submission] = Job(body.get("entrypoint", ""), body.get("metadata") or {})
        return 200, {"job_id": submission, "submission_id": submission}

    def _about(self, pod: Pod, submission: str, method: str, rest: list[str]) -> Answer:
        key = (pod["metadata"]["uid"], submission)
        if key not in self._jobs and method == "GET":
            self._as_submitted(pod, submission)
        job = self._jobs.get(key)
        if job is None:
            return 404, f"Job {submission} does not exist"
        shown = describe(pod, submission, job)
        if method == "DELETE":
            del self._jobs[key]
            return 200, {"deleted": True}
        if rest == ["stop"]:
            running = shown["status"] == "RUNNING"
            job.stopped = int(time.time() * 1000) if running else job.stopped
            return 200, {"stopped": running}
        if rest == ["logs"]:
            return 200, {"logs": f"{submission}: {shown['message']}\n"}
        return 200, shown

    def _as_submitted(self, pod: Pod, submission: str) -> None:
        """Count a job as submitted whose submitter is a fake pod."""
        found = self._server.get(f"/apis/ray.io/v1/namespaces/{pod['metadata']['namespace']}/rayjobs")
        for ray_job in (found or {"items": []})["items"]:
            spec, status = ray_job["spec"], ray_job.get("status") or {}
            if status.get("jobId") == submission and spec.get("submissionMode") != "HTTPMode":
                self._jobs[pod["metadata"]["uid"], submission] = Job(spec.get("entrypoint", ""))


class Dashboard(Answers):
    """One head pod's dashboard: which, tells the address."""

    dashboards: Dashboards

    def handle_request(self, parts: list[str]) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        pod = self.dashboards.head(self.connection.getsockname()[0])
        if pod is None:
            return self.reply(503, "no running head pod has this address")
        return self.reply(*self.dashboards.answer(pod, self.command, parts, body))


if __name__ == "__main__":
    Dashboard.dashboards = Dashboards()
    WebServer(("0.0.0.0", 8265), Dashboard).serve_forever()  # of the private network namespace
