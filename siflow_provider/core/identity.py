"""Whose run it is, and a name made from that. Identity is labels; the name is for eyes and is never parsed.

The same task-instance try gives the same name each time; another try, another map index or an id that differs in one
character gives another. Limits: Kubernetes' rule for names of objects (RFC 1035 labels, 63 characters),
less what controllers append; 47 characters fit every kind (source: KubeRay v1.6.0 `const.go`, training-operator
v1.9.3 `service.go`, JobSet v0.10.1 `jobset_webhook.go`).
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import unicodedata
import uuid

from siflow_provider.core.frozen import Frozen
from siflow_provider.spec.kube_names import MAX_PREFIX

__all__ = ["LABEL_PREFIX", "MAX_NAME", "MAX_PREFIX", "Identity", "default_prefix", "is_job_name", "run_labels"]

MAX_NAME = 47
LABEL_PREFIX = "siflow-provider/"
_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_SUFFIX = 7
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_NAMESPACE = uuid.UUID("6f1d9a52-6a54-5b0e-9d5c-0f6f3a0c7d11")


class Identity(Frozen):
    """The task-instance try that owns a run, and which attempt of it.

    Attributes:
        dag_id, task_id, run_id: as Airflow knows them; any unicode.
        map_index: -1 for a task that is not mapped.
        try_number: Airflow's try, from 1.
        attempt: our submission within the try, from 1.
        nonce: set by `random()` only, for runs that no Airflow task owns.
        generation: 0; more where an earlier DAG run of the same ids has left a run (`core.earlier`).
        installation: which Airflow it is (`[siflow] installation`); "" where that is not said.
    """

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1
    try_number: int = 1
    attempt: int = 1
    nonce: str = ""
    generation: int = 0
    installation: str = ""

    @classmethod
    def random(cls, task_id: str = "run") -> Identity:
        """Return an identity that nobody else has, for a run started by hand."""
        return cls(dag_id="", task_id=task_id, run_id="manual", nonce=secrets.token_hex(16))

    def for_attempt(self, attempt: int) -> Identity:
        """Return the identity of another attempt of the same run."""
        return self.model_copy(update={"attempt": attempt})

    def of_generation(self, generation: int) -> Identity:
        """Return the identity of another run with the same ids."""
        return self.model_copy(update={"generation": generation})

    @property
    def key(self) -> str:
        """The run in one line of JSON, attempts left out: what the hashes are made of."""
        ids = [self.dag_id, self.task_id, self.run_id, self.map_index, self.try_number, self.nonce]
        # a text and a number, each left out where it says nothing: no two of them are taken for each other
        more = [each for each in (self.installation, self.generation) if each]
        return json.dumps([*ids, *more], ensure_ascii=True)

    @property
    def task_uuid(self) -> str:
        """The run's own id (`TASK_UUID`), the same for every attempt."""
        return str(uuid.uuid5(_NAMESPACE, self.key))

    @property
    def suffix(self) -> str:
        """Seven characters that only this run has (35 bits of a SHA-256)."""
        bits = int.from_bytes(hashlib.sha256(self.key.encode()).digest()[:8], "big")
        return "".join(_ALPHABET[(bits >> (5 * place)) & 31] for place in range(_SUFFIX))

    def name(self, prefix: str) -> str:
        """Return the job's full name: prefix, suffix and, from the second attempt on, its number.

        Example:
            >>> Identity(dag_id="d", task_id="t", run_id="r").name("train")
            'train-w7rwdss'
        """
        lead = f"j-{prefix}" if prefix[:1].isdigit() else prefix
        tail = f"-{self.suffix}" + (f"-{self.attempt}" if self.attempt > 1 else "")
        return lead[: MAX_NAME - len(tail)].rstrip("-") + tail

    def labels(self) -> dict[str, str]:
        """Return the labels that `find` selects on."""
        return run_labels(self.task_uuid, self.attempt)

    def annotations(self) -> dict[str, str]:
        """Return the ids as Airflow knows them, in full and unchanged."""
        return {
            f"{LABEL_PREFIX}dag-id": self.dag_id,
            f"{LABEL_PREFIX}task-id": self.task_id,
            f"{LABEL_PREFIX}run-id": self.run_id,
            f"{LABEL_PREFIX}map-index": str(self.map_index),
            f"{LABEL_PREFIX}try-number": str(self.try_number),
            **({f"{LABEL_PREFIX}installation": self.installation} if self.installation else {}),
        }


def run_labels(task_uuid: str, attempt: int) -> dict[str, str]:
    """Return the labels of one attempt: the run's id and the attempt's number, both valid label values."""
    return {f"{LABEL_PREFIX}run": task_uuid, f"{LABEL_PREFIX}attempt": str(attempt)}


def is_job_name(text: str) -> bool:
    """Say whether a job of ours can be called `text`: what people type is looked up by name, and may be anything.

    Example:
        >>> is_job_name("train-w7rwdss"), is_job_name("../train")
        (True, False)
    """
    return len(text) <= MAX_NAME and _NAME.fullmatch(text) is not None


def default_prefix(dag_id: str, task_id: str) -> str:
    """Return a valid name prefix made from ids of any length and script; `task` when nothing of them is usable.

    Example:
        >>> default_prefix("Señal.daily", "train__it")
        'senal-daily-train-it'
    """
    text = unicodedata.normalize("NFKD", f"{dag_id}-{task_id}").encode("ascii", "ignore").decode().lower()
    clean = re.sub(r"[^a-z0-9]+", "-", text).strip("-")
    return clean[:MAX_PREFIX].strip("-") or "task"
