"""Keep the training task in a YAML file beside the DAG, and let the DAG say only what differs.

The same file works on the command line: `siflow-provider check specs/train_digits.yaml`, `render`, `export`. Keyword
arguments win over the file.
"""

from __future__ import annotations

from airflow.sdk import DAG

from siflow_provider.operators import PyTorchJobOperator

with DAG("spec_file_training", schedule=None, tags=["example", "siflow"], doc_md=__doc__):
    PyTorchJobOperator(task_id="train", spec="specs/train_digits.yaml", workers=0)
