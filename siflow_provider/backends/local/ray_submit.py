"""Submits the job to a local Ray cluster: `python -P ray_submit.py REQUEST.json`.

A process of its own, because it may take long and Ray's client, which packs and uploads folders (`working_dir`,
`py_modules`), is not for the supervisor to load. Without a runtime environment there is nothing to pack, and the
request is sent as it is: loading Ray takes longer than all the rest. The file is run by its path and imports nothing
but Ray. It looks before it submits: a submission id that exists already answers HTTP 500.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import Any

__all__ = ["main"]

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def main(argv: list[str]) -> int:
    """Submit what the file says, once; on failure the last line of the output is the reason."""
    request = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    address = request.pop("address")
    jobs = f"{address}/api/jobs/"
    try:
        if _ask(jobs + request["submission_id"]) != HTTPStatus.NOT_FOUND:
            return 0
        if request["runtime_env"]:
            _submit_packed(address, request)
        else:
            _ask(jobs, request)
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        sys.stdout.write(" ".join(str(error).split()) + "\n")
        return 1
    return 0


def _submit_packed(address: str, request: dict[str, Any]) -> None:
    from ray.job_submission import JobSubmissionClient

    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = "127.0.0.1"
    JobSubmissionClient(address).submit_job(**request)


def _ask(url: str, body: dict[str, Any] | None = None) -> int:
    """Return the HTTP status, which is a good one or 404."""
    token = Path(os.environ["RAY_AUTH_TOKEN_PATH"]).read_text(encoding="ascii")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body is not None else None
    try:
        with _OPENER.open(urllib.request.Request(url, data, headers)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == HTTPStatus.NOT_FOUND:
                return error.code
            text = error.read().decode("utf-8", "replace")
        raise RuntimeError(f"HTTP {error.code}: {text}") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
