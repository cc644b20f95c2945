"""Retrain a model every week, and promote it only if it is better than the one promoted last.

    quota -> train -> search -> evaluate -> is_better -> promote

- `quota` waits until the machine or the cluster has room for the whole training; it holds no worker meanwhile.
- `train` trains a network on two replicas that meet by torch's rendezvous (DDP); what they print is in the task's log.
- `search` looks for the best parameters of a rival, a classic classifier, on a Ray cluster of its own.
- `evaluate` takes the better of the two, and `is_better` compares it with the model promoted last.
- `promote` announces the model as an event of the asset `digits-model`, its metrics with it. Other DAGs can be
  scheduled on that asset; the next run of this one reads from it what there is to beat.

Try it without a scheduler: `airflow dags test retraining`. Its parameters are asked for when it is started from the UI.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, Metadata, Param, task

from siflow_provider.operators import PyTorchJobOperator, RayJobOperator
from siflow_provider.sensors import QuotaSensor

JOBS = Path(__file__).parent / "jobs"
CHECKPOINTS = os.environ.get("DIGITS_CHECKPOINTS", str(Path.home() / "siflow-examples" / "checkpoints"))
MODEL = Asset("digits-model")

# One core and 1 GiB for each replica, written in place: a catalog (see the documentation) would give instances names.
COMPUTE = {"type": "on_demand", "instances": [{"cpu": 1, "memory": "1Gi"}]}

with DAG(
    "retraining",
    description=__doc__.splitlines()[0],
    doc_md=__doc__,
    schedule="@weekly",
    catchup=False,
    max_active_runs=1,
    tags=["example", "siflow"],
    # every task that gets a form takes these, unless it says something else
    default_args={
        "compute": COMPUTE,
        # what a cluster would run; the embedded backend runs in its own environment instead and says so
        "image": "registry.example/ai/digits:1.0",
    },
    params={
        "epochs": Param(8, type="integer", minimum=1, description="Passes over the training images"),
        "learning_rate": Param(0.01, type="number", exclusiveMinimum=0, description="Step size of the optimizer"),
        "trials": Param(4, type="integer", minimum=1, maximum=6, description="Parameters tried by the search"),
        "minimum_gain": Param(0.0, type="number", description="By how much accuracy must rise to promote a model"),
    },
):
    train = PyTorchJobOperator(
        task_id="train",
        command=f"python '{JOBS}/train_digits.py'"
        + " --epochs {{ params.epochs }} --learning-rate {{ params.learning_rate }}",
        workers=1,  # and always one master: two replicas
        env={"CHECKPOINT_DIR": CHECKPOINTS + "/{{ run_id }}", "OMP_NUM_THREADS": 1},
        # a lost machine costs the epochs since the last checkpoint, not the run
        fault_tolerance={"max_retries": 2},
        logs="all",
        execution_timeout=timedelta(minutes=30),
    )

    search = RayJobOperator(
        task_id="search",
        command=f"python '{JOBS}/tune_digits.py'" + " --trials {{ params.trials }}",
        workers=1,  # and always one head
        execution_timeout=timedelta(minutes=30),
    )

    quota = QuotaSensor(task_id="quota", task=train, timeout=timedelta(hours=6).total_seconds())

    @task
    def evaluate(trained: Any, searched: Any, **context: Any) -> dict[str, Any]:
        """Return the better of the two candidates: what it is and how well it did on images it has never seen."""
        network = {
            "model": "network",
            "accuracy": trained["results"]["accuracy"],
            "checkpoints": f"{CHECKPOINTS}/{context['run_id']}",
        }
        classic = {"model": "classic", **searched["results"]}
        best = max(network, classic, key=lambda candidate: candidate["accuracy"])
        print(f"network {network['accuracy']:.4f}, classic {classic['accuracy']:.4f}: {best['model']} is better")
        return best

    @task.short_circuit(inlets=[MODEL])
    def is_better(candidate: Any, **context: Any) -> bool:
        """Say whether the candidate beats the model promoted last; if not, the run ends here and that model stays."""
        promoted = [event.extra["accuracy"] for event in context["inlet_events"][MODEL]]
        if not promoted:
            print("no model was promoted before: this is the first one")
            return True
        gain = candidate["accuracy"] - promoted[-1]
        print(f"accuracy {candidate['accuracy']:.4f}, promoted before {promoted[-1]:.4f}: gain {gain:+.4f}")
        return bool(gain > context["params"]["minimum_gain"])

    @task(outlets=[MODEL])
    def promote(candidate: Any) -> Iterator[Metadata]:
        """Announce the candidate: from now on this is the model."""
        print(f"promoted: {candidate}")
        yield Metadata(MODEL, candidate)

    quota >> train >> search
    best = evaluate(train.output, search.output)
    is_better(best) >> promote(best)
