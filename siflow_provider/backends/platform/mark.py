"""Whose run a platform task is: the mark that it carries, and the name that it gets.

The platform takes no client token and puts a suffix of its own behind each name. So the run's hash is in the name
prefix, by which a listing can be filtered, and the whole identity in a plain environment variable, which a listing
gives back. Labels can't serve: no answer of the platform shows them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from siflow_provider.core.identity import Identity, default_prefix
from siflow_provider.core.moves import Moves
from siflow_provider.core.origin import Origin
from siflow_provider.core.status import JobRef, Kind
from siflow_provider.core.veil import Veil
from siflow_provider.spec.kube_names import MAX_PREFIX

if TYPE_CHECKING:
    from siflow_provider.backends.platform.wire import Brief
    from siflow_provider.core.protocol import RenderContext
    from siflow_provider.spec.resolve import ResolvedTask

__all__ = ["MARK_ENV", "VEIL_ENV", "Mark", "mark_of", "read_mark", "read_veil", "run_name"]

MARK_ENV = "SIFLOW_IDENTITY"
"""The variable that holds the mark."""
VEIL_ENV = "SIFLOW_VEIL"
"""The variable that lets every process know the task's hidden values by sight, and none by heart."""


class Mark(BaseModel):
    """All that a listing must tell about a run of ours; no secret.

    Attributes:
        run: the run's own id, the same for each attempt.
        attempt: number of this submission.
        name: the run's name: the prefix that was sent.
        kind: PyTorchJob or RayJob.
        dag_id, task_id, run_id, map_index, try_number: whose it is, for people.
        user: X_USER_NAME as Airflow knows it.
        private: only its owner shall see it.
        timezone: in which people want to read its times.
        gpus: GPUs held while it runs.
        workers: replicas beside the main one.
        moves: those before this attempt.
        detached: it shall go on when its task is killed.
        instance: Airflow's own id of the task instance.
        installation: which Airflow it is.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: str
    attempt: int = 1
    name: str
    kind: Kind = "PyTorchJob"
    dag_id: str = ""
    task_id: str = ""
    run_id: str = ""
    map_index: int = -1
    try_number: int = 1
    user: str = ""
    private: bool = True
    timezone: str = "UTC"
    gpus: float = 0.0
    workers: int = 0
    moves: Moves = Moves()
    detached: bool = False
    instance: str = ""
    installation: str = ""

    def text(self) -> str:
        """Return the mark as the variable holds it."""
        return json.dumps(self.model_dump(mode="json", exclude_defaults=True), sort_keys=True)

    @property
    def origin(self) -> Origin | None:
        """The task instance that the run belongs to; None for a run by hand."""
        names = Origin.model_fields
        return Origin(**{name: getattr(self, name) for name in names}) if self.dag_id else None

    def ref(self, uuid: str) -> JobRef:
        """Return the ref of a task that carries this mark."""
        return JobRef(
            backend="platform", kind=self.kind, name=self.name, uid=uuid, task_uuid=self.run, attempt=self.attempt
        )


def mark_of(task: ResolvedTask, context: RenderContext) -> Mark:
    """Return the mark of an attempt."""
    identity, form = context.identity, task.task
    head = task.head or task.flavors[0]
    return Mark(
        run=identity.task_uuid,
        attempt=identity.attempt,
        name=run_name(form.name_prefix or default_prefix(identity.dag_id, identity.task_id), identity),
        kind=form.kind,
        dag_id=identity.dag_id,
        task_id=identity.task_id,
        run_id=identity.run_id,
        map_index=identity.map_index,
        try_number=identity.try_number,
        user=context.user_name,
        private=not form.visible_in_group,
        timezone=form.timezone or "UTC",
        gpus=head.gpus + task.flavors[0].gpus * form.workers,
        workers=form.workers,
        moves=context.moves,
        detached=context.detached,
        instance=context.instance,
        installation=identity.installation,
    )


def run_name(prefix: str, identity: Identity) -> str:
    """Return the name prefix that is sent: the form's, cut so that the run's own ending fits into 35 characters.

    Example:
        >>> run_name("a" * 35, Identity(dag_id="d", task_id="t", run_id="r"))
        'aaaaaaaaaaaaaaaaaaaaaaaaaaa-w7rwdss'
    """
    room = MAX_PREFIX - len(identity.name(prefix[0])) + 1
    return identity.name(prefix[:room].rstrip("-"))


def read_mark(task: Brief) -> Mark | None:
    """Return the mark that a task carries; None for a task that is none of ours."""
    text = task.env(MARK_ENV)
    if not text:
        return None
    try:
        return Mark.model_validate_json(text)
    except ValidationError:
        return None


def read_veil(task: Brief) -> Veil:
    """Return the veil over the task's hidden values; an empty one without."""
    text = task.env(VEIL_ENV)
    try:
        return Veil.model_validate_json(text) if text else Veil()
    except ValidationError:
        return Veil()
