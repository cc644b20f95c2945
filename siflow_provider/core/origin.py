"""Which task instance a run belongs to, as the run itself carries it: read back by who has nothing but the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from siflow_provider.core.frozen import Frozen
from siflow_provider.core.identity import LABEL_PREFIX

if TYPE_CHECKING:
    from siflow_provider.core.identity import Identity

__all__ = ["STOPPED_BY", "Origin"]

STOPPED_BY = "Airflow:"
"""How the reason of a stop begins that Airflow asked for."""
_IDS = ("dag_id", "task_id", "run_id", "map_index", "try_number", "installation")
_DETACHED, _INSTANCE = f"{LABEL_PREFIX}detached", f"{LABEL_PREFIX}task-instance"


class Origin(Frozen):
    """The task-instance try behind a run. A run that was started by hand has none.

    Attributes:
        dag_id, task_id, run_id: as Airflow knows them; any unicode.
        map_index: -1 for a task that is not mapped.
        try_number: Airflow's try, from 1.
        detached: the run shall go on when its task is killed (`on_kill_action="detach"`).
        instance: Airflow's own id of the task instance, new for each try and for each making of its DAG run; "" where
            it is not known.
        installation: which Airflow it is (`[siflow] installation`); "" where that is not said.

    Example:
        >>> str(Origin(dag_id="daily", task_id="train", run_id="manual__1", map_index=2))
        'daily.train[2] manual__1 try 1'
    """

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1
    try_number: int = 1
    detached: bool = False
    instance: str = ""
    installation: str = ""

    def __str__(self) -> str:
        index = f"[{self.map_index}]" if self.map_index >= 0 else ""
        place = f" of {self.installation}" if self.installation else ""
        return f"{self.dag_id}.{self.task_id}{index} {self.run_id} try {self.try_number}{place}"

    @classmethod
    def of_identity(cls, identity: Identity, *, detached: bool, instance: str = "") -> Origin | None:
        """Return the task instance that an identity stands for; None for a run by hand."""
        if not identity.dag_id:
            return None
        ids = {name: getattr(identity, name) for name in _IDS}
        return cls(**ids, detached=detached, instance=instance)

    @staticmethod
    def annotations(*, detached: bool, instance: str) -> dict[str, str]:
        """Return what stands beside the identity's own annotations."""
        return {**({_DETACHED: "true"} if detached else {}), **({_INSTANCE: instance} if instance else {})}

    @classmethod
    def of(cls, annotations: Mapping[str, str]) -> Origin | None:
        """Read it back from a run's annotations; None for a run by hand, and where somebody edited them."""
        if not annotations.get(f"{LABEL_PREFIX}dag-id"):
            return None
        try:
            return cls(
                dag_id=annotations[f"{LABEL_PREFIX}dag-id"],
                task_id=annotations[f"{LABEL_PREFIX}task-id"],
                run_id=annotations[f"{LABEL_PREFIX}run-id"],
                map_index=int(annotations[f"{LABEL_PREFIX}map-index"]),
                try_number=int(annotations[f"{LABEL_PREFIX}try-number"]),
                detached=_DETACHED in annotations,
                instance=annotations.get(_INSTANCE, ""),
                installation=annotations.get(f"{LABEL_PREFIX}installation", ""),
            )
        except (KeyError, ValueError):
            return None
