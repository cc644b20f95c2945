"""How long the command takes to start, in fresh processes: `--help`, and `check` of an example.

Prints the median seconds of each beside those of the bare interpreter, and which heavy packages were loaded. Fails
above the limit, and where one was loaded.

    python -m bench.start [--runs 5]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.bounds import is_kept

LIMIT = 0.7
"""Seconds that a person does not wait for."""
HEAVY = ("airflow", "kubernetes", "kubernetes_asyncio", "ray", "torch", "apprise", "httpx")
FORM = Path(__file__).parents[1] / "example_dags" / "specs" / "train_digits.yaml"

COMMAND = """
import atexit, sys
from siflow_provider.cli.main import main
heavy = {heavy!r}
atexit.register(lambda: sys.stderr.write(" ".join(name for name in heavy if name in sys.modules)))
main()
"""


def measure(code: str, arguments: list[str], runs: int) -> tuple[float, str]:
    """Return the median seconds of a fresh interpreter that runs `code`, and what it wrote to stderr."""
    seconds, told = [], ""
    for _ in range(runs):
        start = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
        seconds.append(time.perf_counter() - start)
        told = done.stderr
    return statistics.median(seconds), told


def main() -> int:
    """Measure and print; 1 where a bound was exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    bare, _ = measure("pass", [], options.runs)
    print(f"bare interpreter:        {bare:.3f} s")
    command = COMMAND.format(heavy=HEAVY)
    kept = []
    for arguments in (["--help"], ["check", str(FORM)]):
        seconds, loaded = measure(command, arguments, options.runs)
        print(f"siflow-provider {arguments[0]:<8} {seconds:.3f} s; loaded: {loaded or 'none'}")
        kept += [is_kept("seconds", seconds, LIMIT), is_kept("heavy packages", len(loaded.split()), 0)]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
