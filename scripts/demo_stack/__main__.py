"""What `scripts/demo` runs once its environment is there."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from scripts.airflow_stack import AirflowStack, AlreadyUpError, Run, StackError, StackSettings
from scripts.airflow_stack.keeper import stop_kept
from scripts.demo_stack.progress import Progress
from scripts.demo_stack.report import print_report

ROOT = Path(__file__).resolve().parents[2]
DAG_ID = "retraining"
INTERRUPTED = 130
RUN_SECONDS = 1800


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description="Train a real model through a real Airflow.")
    parser.add_argument("--down", action="store_true", help="end what KEEP=1 left up, and nothing else")
    parser.add_argument("--conf", type=json.loads, default={}, help="params of the DAG run, as JSON")
    return parser.parse_args(arguments)


def settings_for(home: Path) -> StackSettings:
    """Return the demo's stack: quick, small, and with everything it writes below `home`."""
    env = {"DIGITS_CHECKPOINTS": str(home / "checkpoints")}
    return StackSettings(home=home, dags=ROOT / "example_dags", parallelism=4, late_triggerers=True, env=env)


def end_unfinished_runs(stack: AirflowStack) -> None:
    """Mark runs failed that an interrupted demo left behind: the DAG lets only one run at a time."""
    for state in ("running", "queued"):
        for left in stack.rest.get(f"dags/{DAG_ID}/dagRuns", state=state, limit=100)["dag_runs"]:
            Run(stack.rest, DAG_ID, left["dag_run_id"]).mark("failed")


def login(stack: AirflowStack) -> str:
    """Return the UI's login in words."""
    user, password = stack.settings.login()
    return f"user {user}, password {password}"


def run_demo(stack: AirflowStack, conf: dict[str, Any], since: float) -> str:
    """Run the DAG as Airflow has read it at or after the moment `since`, show it, and return how it ended."""
    stack.wait_dag(DAG_ID, since=since, file=f"{DAG_ID}.py")
    end_unfinished_runs(stack)
    run = stack.trigger(DAG_ID, conf=conf)
    print(f"watch it in the browser: {stack.settings.url}/dags/{DAG_ID}  ({login(stack)})", flush=True)
    state = Progress(run).follow(timeout=RUN_SECONDS)
    print_report(stack.rest, run, state)
    return state


def main() -> int:
    """Run the demo; return the exit code: 0 when the DAG run succeeded."""
    options = parse_arguments()
    home = Path(os.environ.get("DEMO_HOME") or ROOT / ".cache" / "demo").resolve()
    if options.down:
        print("ended: nothing of the demo runs any more" if stop_kept(home) else "nothing is up")
        return 0
    began, started = time.time(), time.monotonic()
    print("starting Airflow: api-server, scheduler, dag-processor and triggerer", flush=True)
    try:
        with AirflowStack(settings_for(home)) as stack:
            print(f"Airflow is up after {time.monotonic() - started:.0f} s", flush=True)
            state = run_demo(stack, options.conf, began)
            if os.environ.get("KEEP", "") not in ("", "0"):
                stack.keeper.keep()
                print(f"Airflow stays up at {stack.settings.url}  ({login(stack)}); `scripts/demo --down` ends it")
            else:
                print("stopping Airflow", flush=True)
    except AlreadyUpError:
        print("error: a demo is up already; `scripts/demo --down` ends it", file=sys.stderr)
        return 1
    except StackError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted: everything has been stopped", file=sys.stderr)
        return INTERRUPTED
    print(f"done in {time.monotonic() - started:.0f} s")
    return int(state != "success")


if __name__ == "__main__":
    sys.exit(main())
