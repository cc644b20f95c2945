"""How long a DAG file takes to parse: 500 training operators beside 500 EmptyOperators, in fresh interpreters.

Prints the seconds of both, the ratio, and which client libraries were loaded beyond what Airflow's own
`from airflow.sdk import DAG` loads (none should be). Fails above twice the time of the EmptyOperators and two
seconds, and where a client library was loaded.

    python -m bench.parse [--operators 500] [--runs 5]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.bounds import is_kept

CLIENTS = ("kubernetes", "kubernetes_asyncio", "ray", "torch", "apprise", "httpx")
BARE = "from airflow.sdk import DAG\n"

EMPTY = """
from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator

with DAG(dag_id="empty", schedule=None):
    for number in range({count}):
        EmptyOperator(task_id=f"task_{{number}}")
"""

OURS = """
from airflow.sdk import DAG
from siflow_provider.operators import PyTorchJobOperator

with DAG(dag_id="training", schedule=None):
    for number in range({count}):
        PyTorchJobOperator(
            task_id=f"task_{{number}}",
            image="registry.example/ai/pytorch:2.9",
            command="torchrun train.py --lr {{{{ params.lr }}}}",
            env={{"LR": "1e-4", "TOKEN": {{"value": "{{{{ var.value.token }}}}", "hidden": True}}}},
            compute={{"type": "on_demand", "instances": [{{"cpu": 4, "memory": "16Gi"}}], "units_per_replica": 1}},
            workers=3,
            fault_tolerance={{"max_retries": 3, "hang_timeout": "15m"}},
        )
"""

TIMED = """
import json, sys, time
import airflow.sdk
start = time.perf_counter()
exec(compile(open({path!r}).read(), {path!r}, "exec"), {{"__name__": "dag_file", "__file__": {path!r}}})
seconds = time.perf_counter() - start
print(json.dumps({{"seconds": seconds, "loaded": [name for name in {clients!r} if name in sys.modules]}}))
"""


def measure(source: str, runs: int) -> tuple[float, list[str]]:
    """Return the median seconds of importing a DAG file after Airflow itself, and the client libraries it loaded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dag_file.py"
        path.write_text(source, encoding="utf-8")
        code = TIMED.format(path=str(path), clients=CLIENTS)
        results = [
            json.loads(
                subprocess.run(
                    [sys.executable, "-c", code], check=True, capture_output=True, text=True
                ).stdout.splitlines()[-1]
            )
            for _ in range(runs)
        ]
    return statistics.median(result["seconds"] for result in results), results[0]["loaded"]


def most_seconds(empty: float) -> float:
    """Return how long ours may take where the EmptyOperators take so long."""
    return 2 * empty + 2


def main() -> int:
    """Measure and print; 1 where a bound was exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", type=int, default=500)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    empty, _ = measure(EMPTY.format(count=options.operators), options.runs)
    _, airflows_own = measure(BARE, 1)
    ours, loaded = measure(OURS.format(count=options.operators), options.runs)
    print(f"{options.operators} EmptyOperators:      {empty:.3f} s")
    print(f"{options.operators} PyTorchJobOperators: {ours:.3f} s ({ours / empty:.2f}x, {ours - empty:+.3f} s)")
    more = [name for name in loaded if name not in airflows_own]
    print(f"client libraries loaded: {', '.join(more) or 'none'}")
    kept = [is_kept("seconds", ours, most_seconds(empty)), is_kept("client libraries", len(more), 0)]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
