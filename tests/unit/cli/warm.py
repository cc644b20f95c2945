"""The command as a process of its own, forked from one that has imported it: the half second of imports is spent once.

The forking process imports the command and what most of it uses: no test, no pytest, no Airflow. What it forks gets the
arguments, folder, environment, signals and pipes of a command that a shell starts, and ends as that does.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

from siflow_provider.cli.main import main

__all__ = ["run_forked"]

_WARM = multiprocessing.get_context("forkserver")
_WARM.set_forkserver_preload([__name__, "siflow_provider.backends.local.backend", "siflow_provider.core.run"])


def run_forked(
    arguments: tuple[str, ...], folder: Path, environment: Mapping[str, str], timeout: float
) -> tuple[int, str, str]:
    """Run the command to its end; return its exit code and what it wrote to stdout and stderr.

    Raises:
        TimeoutError: it has not ended after that many seconds; it is killed.
    """
    pipes = [_WARM.Pipe(duplex=False) for _ in range(2)]
    process = _WARM.Process(target=_become, args=(arguments, folder, dict(environment), *(end for _, end in pipes)))
    process.start()
    for _, writing in pipes:
        writing.close()
    with ThreadPoolExecutor() as pool:
        texts = [pool.submit(_read, reading) for reading, _ in pipes]
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"{arguments} did not end within {timeout} s")
    return process.exitcode, texts[0].result(), texts[1].result()


def _read(pipe: Connection) -> str:
    with pipe, open(pipe.fileno(), encoding="utf-8", closefd=False) as stream:
        return stream.read()


def _become(
    arguments: tuple[str, ...], folder: Path, environment: dict[str, str], out: Connection, err: Connection
) -> None:
    """Become the command, in the forked process."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, end in enumerate((out, err), start=1):
        os.dup2(end.fileno(), number)
        end.close()
    sys.argv = ["siflow-provider", *arguments]
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    main()
