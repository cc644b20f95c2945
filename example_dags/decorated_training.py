"""Write a training task as a function that returns its command, as `@task.bash` does.

The function runs on an Airflow worker, sees the outputs of other tasks and says what to run; the training itself runs
where the form says. The task's output holds what the training wrote to `SIFLOW_RESULTS`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task

JOBS = Path(__file__).parent / "jobs"

with DAG("decorated_training", schedule=None, tags=["example", "siflow"], doc_md=__doc__):

    @task
    def count_epochs() -> int:
        """Decide how long to train; a real DAG would look at how much new data there is."""
        return 2

    @task.pytorch_job(
        image="registry.example/ai/digits:1.0",
        compute={"type": "on_demand", "instances": [{"cpu": 1, "memory": "1Gi"}]},
        workers=1,
    )
    def train(epochs: Any) -> str:
        """Return the command that every replica runs."""
        return f"python '{JOBS}/train_digits.py' --epochs {epochs}"

    @task
    def report(trained: Any) -> float:
        """Use what the training left."""
        print(f"{trained['name']} ran {trained['running_seconds']} s")
        return float(trained["results"]["accuracy"])

    report(train(count_epochs()))
