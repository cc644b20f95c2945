"""Search for good parameters of a digit classifier on a Ray cluster: one task per trial, as many at once as fit.

Copy it and put your own model and grid in; what it shows of a good Ray job:

- `ray.init()` without an address joins the cluster that the job was submitted to, and starts a small one of its own
  when the script is run by hand.
- Trials are reported as they end, one line each, best or not.
- The best parameters and their accuracy go as JSON to the file SIFLOW_RESULTS.

    python tune_digits.py --trials 6

Needs ray and scikit-learn on every node. Nothing is downloaded: the data set is part of scikit-learn.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

GRID = {"C": (1.0, 10.0, 0.1), "gamma": (0.001, 0.0001)}
"""Values to try of the support vector classifier's parameters; every combination is a trial."""
FOLDS = 3
"""Parts of the cross-validation that scores a trial."""


@dataclass(frozen=True)
class Trial:
    """One set of parameters and how well it did.

    Attributes:
        number: from 1, in the order of the grid.
        parameters: keyword arguments of the classifier.
        accuracy: mean of the cross-validation, 0 to 1.
        seconds: how long it took.
    """

    number: int
    parameters: dict[str, float]
    accuracy: float
    seconds: float

    def __str__(self) -> str:
        values = " ".join(f"{name}={value:g}" for name, value in self.parameters.items())
        return f"trial {self.number}: {values} accuracy={self.accuracy:.4f} ({self.seconds:.1f} s)"


def list_parameters(trials: int) -> list[dict[str, float]]:
    """Return the first `trials` combinations of the grid."""
    combinations = itertools.product(*GRID.values())
    return [dict(zip(GRID, values, strict=True)) for values in itertools.islice(combinations, trials)]


def run_trial(number: int, parameters: dict[str, float]) -> Trial:
    """Score one set of parameters. Runs on whatever node Ray picks."""
    begin = time.monotonic()
    pixels, digits = load_digits(return_X_y=True)
    accuracy = cross_val_score(SVC(**parameters), pixels, digits, cv=FOLDS).mean()
    return Trial(number, parameters, float(accuracy), time.monotonic() - begin)


def search(candidates: Sequence[dict[str, float]]) -> Iterator[Trial]:
    """Run all candidates on the cluster; yield each trial when it ends.

    Raises:
        ray.exceptions.RayTaskError: a trial failed; carries the trial's own traceback.
    """
    remote_trial = ray.remote(num_cpus=1)(run_trial)
    running: list[Any] = [remote_trial.remote(number, values) for number, values in enumerate(candidates, start=1)]
    while running:
        done, running = ray.wait(running)
        yield from ray.get(done)


def write_results(best: Trial, trials: int) -> None:
    """Leave the results where the task that started the job picks them up; do nothing when started by hand."""
    target = os.environ.get("SIFLOW_RESULTS")
    if target:
        results = {"accuracy": round(best.accuracy, 4), "parameters": best.parameters, "trials": trials}
        Path(target).write_text(json.dumps(results), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, report, and leave the cluster."""
    parser = argparse.ArgumentParser(description="Search for good parameters of a digit classifier on Ray.")
    parser.add_argument("--trials", type=int, default=6, help=f"how many, at most {len(list_parameters(10**6))}")
    candidates = list_parameters(parser.parse_args(arguments).trials)

    ray.init()
    print(f"{len(candidates)} trials on {ray.cluster_resources().get('CPU', 0):g} cores", flush=True)
    best: Trial | None = None
    for trial in search(candidates):
        better = best is None or trial.accuracy > best.accuracy
        best = trial if better else best
        print(f"{trial}{' <- best so far' if better else ''}", flush=True)
    if best is None:
        raise SystemExit("no trials: --trials must be at least 1")
    print(f"best of {len(candidates)}: {best}", flush=True)
    write_results(best, len(candidates))
    ray.shutdown()


if __name__ == "__main__":
    main()
