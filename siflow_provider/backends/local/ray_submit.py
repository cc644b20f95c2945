"""Submits the job to a local Ray cluster: `python -P ray_submit.py REQUEST.json`.

A process of its own, because Ray's client packs and uploads folders (`working_dir`, `py_modules`), may take long and
needs Ray, which the supervisor does not load. The file is run by its path and imports nothing but Ray. It looks before
it submits: a submission id that exists already answers HTTP 500.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Submit what the file says, once; on failure the last line of the output is the reason."""
    from ray.job_submission import JobSubmissionClient

    request = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = "127.0.0.1"
    client = JobSubmissionClient(request["address"])
    name = request["submission_id"]
    if any(job.submission_id == name for job in client.list_jobs()):
        return 0
    try:
        client.submit_job(entrypoint=request["entrypoint"], submission_id=name, runtime_env=request["runtime_env"])
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        sys.stdout.write(" ".join(str(error).split()) + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
