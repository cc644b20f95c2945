"""The rendered submit line, scripts and runtime environment on a real Ray cluster of this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from siflow_provider.backends.kubernetes.names import RUN_DIR, SCRIPTS_DIR
from siflow_provider.backends.local.ray_nodes import (
    cluster_env,
    head_ports,
    head_request,
    make_temp_dir,
    node_command,
    write_request,
    write_token,
)
from siflow_provider.backends.local.ray_plan import NodePlan
from siflow_provider.core.results import ResultReader
from siflow_provider.core.status import LogLine
from siflow_provider.spec.ray import RaySection
from tests.unit.backends.kubernetes.tasks import container, document, job, ray, rendered
from tests.unit.backends.kubernetes.test_command import NASTY, SHOW_ARGV, quoted
from tests.unit.backends.kubernetes.test_submit_line import submit_line

pytestmark = pytest.mark.ray
MEMORY = 500_000_000


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running head."""

    env: dict[str, str]
    address: str
    folder: Path

    def run(self, name: str, command: str, **env_vars: str) -> tuple[str, dict[str, Any]]:
        """Submit a RayJob as its submitter does; return what the submitter printed, and Ray's word on the job."""
        manifest = rendered(ray(RaySection(runtime_env={"env_vars": env_vars}), command=command))
        here = self.folder / name
        (here / "run").mkdir(parents=True)
        for file, text in document(manifest, "ConfigMap")["data"].items():
            placed = text.replace(SCRIPTS_DIR, str(here)).replace(RUN_DIR, str(here / "run"))
            (here / file).write_text(text if file == "command" else placed, encoding="utf-8")
        spec = dict(job(manifest)["spec"])
        spec["entrypoint"] = spec["entrypoint"].replace(SCRIPTS_DIR, str(here))
        line = submit_line(spec, self.address, name)
        env = self.env | {entry["name"]: entry["value"] for entry in container(manifest, "submitter")["env"]}
        done = subprocess.run(
            ["/bin/bash", "-ce", "--", line], env=env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, self._info(name)

    def _info(self, name: str) -> dict[str, Any]:
        code = (
            "import json, sys\nfrom ray.job_submission import JobSubmissionClient\n"
            "print(json.dumps(JobSubmissionClient(sys.argv[1]).get_job_info(sys.argv[2]).dict()))"
        )
        deadline = time.monotonic() + 30
        while True:
            argv = [sys.executable, "-c", code, self.address, name]
            done = subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=60, check=True)
            info: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            if info["status"] in {"SUCCEEDED", "FAILED", "STOPPED"}:
                return info
            assert time.monotonic() < deadline, info


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("ray")
    temp_dir = make_temp_dir()
    write_token(folder / "token")
    ports = head_ports(set())
    node = NodePlan(replica="head-0", replicas=("head-0",), cpus=1, gpus=(), memory=MEMORY, object_store=100_000_000)
    own = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder), "PYTHONUNBUFFERED": "1"}
    own["SIFLOW_RESULTS"] = str(folder / "results.json")
    env = cluster_env(own, ports, temp_dir, folder / "token")
    request = write_request(temp_dir / "head-0.json", head_request(node, ports, temp_dir, patient=True))
    with (folder / "head.log").open("wb") as log:
        head = subprocess.Popen(node_command(request), env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        yield Cluster(env, _answering(f"http://127.0.0.1:{ports['dashboard_port']}", env, folder), folder)
    finally:
        processes = [*psutil.Process(head.pid).children(recursive=True), psutil.Process(head.pid)]
        for process in processes:
            process.kill()
        psutil.wait_procs(processes, timeout=10)
        head.wait()
        shutil.rmtree(temp_dir, ignore_errors=True)


def _answering(address: str, env: dict[str, str], folder: Path) -> str:
    deadline = time.monotonic() + 60
    listing = ["ray", "job", "list", "--address", address]
    while subprocess.run(listing, env=env, capture_output=True, check=False).returncode:
        assert time.monotonic() < deadline, (folder / "head.log").read_text(errors="replace")[-2000:]
    return address


def test_command_and_runtime_env_reach_the_driver_unchanged_and_results_come_back(cluster: Cluster) -> None:
    words = " ".join(quoted(word) for word in NASTY)
    # no $NAME: Ray itself expands those in env_vars, as its documentation says
    odd = "$(id) `id` $$ $1 \"q\" 'q' \\ é"
    command = f"""{sys.executable} -c {quoted(SHOW_ARGV)} {words}
printf 'odd=%s\\n' "$ODD"
echo '{{"accuracy": 0.5}}' > "$SIFLOW_RESULTS"
exit 3"""
    out, info = cluster.run("nasty", command, ODD=odd)
    lines = out.splitlines()
    assert json.dumps(NASTY) in lines
    assert f"odd={odd}" in lines, out
    reader = ResultReader()
    for line in lines:
        reader.feed(LogLine(replica="submitter-0", text=line, position=""))
    assert reader.value == {"accuracy": 0.5}
    assert (info["status"], info["driver_exit_code"]) == ("FAILED", 3)


def test_hostfiles_name_the_nodes_that_are_there(cluster: Cluster) -> None:
    text = document(rendered(ray(ssh=True)), "ConfigMap")["data"]["ray_hosts.py"]
    script = cluster.folder / "ray_hosts.py"
    script.write_text(text.replace("/root/hostfile", str(cluster.folder / "hostfile")), encoding="utf-8")
    out, info = cluster.run("named", f"{sys.executable} {script}")
    assert info["status"] == "SUCCEEDED", out
    assert (cluster.folder / "hostfile").read_text() == "127.0.0.1 slots=1\n"
    assert (cluster.folder / "hostfile.hostname").read_text() == "127.0.0.1\n"
