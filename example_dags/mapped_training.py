"""Train once for each of several learning rates, side by side, and keep the best.

The list could as well come from another task: `expand(env=list_of_settings())`. Each training is a task instance of its
own, with its own log, retries and quota; as many run at once as there is room for, the others wait in the queue.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task

from siflow_provider.operators import PyTorchJobOperator

JOBS = Path(__file__).parent / "jobs"
LEARNING_RATES = [0.1, 0.01, 0.001]

with DAG("mapped_training", schedule=None, tags=["example", "siflow"], doc_md=__doc__):
    train = PyTorchJobOperator.partial(
        task_id="train",
        image="registry.example/ai/digits:1.0",
        command=f"python '{JOBS}/train_digits.py' --epochs 3 --learning-rate $LEARNING_RATE",
        compute={"type": "on_demand", "instances": [{"cpu": 1, "memory": "1Gi"}]},
        map_index_template="learning rate {{ task.env['LEARNING_RATE'] }}",
    ).expand(env=[{"LEARNING_RATE": str(rate)} for rate in LEARNING_RATES])

    @task
    def choose(trained: Any) -> float:
        """Return the learning rate that trained best."""
        accuracies = {rate: one["results"]["accuracy"] for rate, one in zip(LEARNING_RATES, trained, strict=True)}
        print(accuracies)
        return max(accuracies, key=lambda rate: accuracies[rate])

    choose(train.output)
