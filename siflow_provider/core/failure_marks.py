"""The words by which known failures are told, in the order in which they are tried on a text.

Sources: messages of CPython, PyTorch 2 (`torch/distributed`, ProcessGroupNCCL, ProcessGroupGloo, c10d TCPStore),
Ray 2 (`ray.exceptions`), NCCL 2 and the kubelet's container reasons, as users see them in their logs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from siflow_provider.core.status import FailureClass

__all__ = ["LINE_MARKS", "REASON_MARKS", "Mark"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A pattern, and what a text that shows it means."""

    pattern: re.Pattern[str]
    category: FailureClass
    transient: bool
    hint: str


def _mark(pattern: str, category: FailureClass, hint: str, *, transient: bool = False) -> Mark:
    return Mark(re.compile(pattern), category, transient, hint)


REASON_MARKS = (
    _mark(
        r"(?i)local storage usage exceeds the total limit|exceeded its local ephemeral storage limit"
        r"|usage of emptydir volume",
        FailureClass.DATA_PATH,
        "The replica wrote more into its own files or /dev/shm than it may: write to a volume, or raise shm_size.",
    ),
    _mark(
        r"(?i)^preempt",
        FailureClass.PREEMPTED,
        "A task of higher priority took the place; fault_tolerance.max_retries resubmits.",
        transient=True,
    ),
    _mark(
        r"(?i)^(evicted|node ?lost|node ?shutdown|terminated by node|unexpectedadmissionerror)",
        FailureClass.NODE_LOST,
        "The machine went away or pushed the replica out; fault_tolerance.max_retries resubmits.",
        transient=True,
    ),
    _mark(
        r"(?i)^(invalidimagename|errimageneverpull|signaturevalidationfailed)|manifest unknown"
        r"|repository does not exist|pull access denied|failed to resolve (?:reference|image).*: not found"
        r"|insufficient_scope|authentication required",
        FailureClass.IMAGE,
        "Check the image's name, tag and registry.",
    ),
    _mark(
        r"(?i)(errimagepull|imagepullbackoff|image pull)",
        FailureClass.IMAGE,
        "The image could not be pulled: check its name and the pull secret, or the registry's health.",
        transient=True,
    ),
    _mark(
        r"(?i)^(outof\S+|nodeaffinity|nodeports|topologyaffinityerror)\b",
        FailureClass.PLATFORM,
        "The machine refused the replica after the scheduler had chosen it; fault_tolerance.max_retries resubmits.",
        transient=True,
    ),
    _mark(r"(?i)^deadlineexceeded", FailureClass.TIMEOUT, "Raise the limit that the event names."),
    _mark(
        r"(?i)^(starterror|containercannotrun|createcontainer\w*error|runcontainererror)",
        FailureClass.CODE,
        "The container can't be started so: see whether the image has the program, and the secrets and volumes exist.",
    ),
)
"""Tried on the backend's own reason."""

LINE_MARKS = (
    _mark(
        r"CUDA out of memory|CUDA error: out of memory|OutOfMemoryError: (CUDA|HIP)|cudaErrorMemoryAllocation",
        FailureClass.OUT_OF_MEMORY,
        "The GPU's memory ran out: lower the batch size, or use a larger GPU or more of them.",
    ),
    _mark(
        r"^MemoryError\b|std::bad_alloc|Cannot allocate memory|DefaultCPUAllocator: (not enough|can't allocate) memory"
        r"|OutOfMemoryError|running low on memory",
        FailureClass.OUT_OF_MEMORY,
        "The replica's memory ran out: give it more memory, or make the task smaller.",
    ),
    _mark(
        r"Watchdog caught collective operation timeout|NCCL.*[Tt]imed? ?out|collective operation timeout"
        r"|monitoredBarrier.*timed out|Timed out waiting \d+ms for (recv|send) operation",
        FailureClass.HANG,
        "A collective waited for a rank that did not come: look for the slow or dead rank.",
        transient=True,
    ),
    _mark(
        r"Rendezvous(Timeout|Connection|Closed)Error|DistNetworkError|DistStoreError|Socket Timeout"
        r"|Timed out after \d+ seconds waiting for clients|ncclSystemError|ncclRemoteError"
        r"|Connection closed by peer|[Cc]onnection reset by peer|Broken pipe|Connect timeout"
        r"|Failed to connect to Ray at address",
        FailureClass.PLATFORM,
        "The replicas lost or never found each other: fault_tolerance.max_retries resubmits.",
        transient=True,
    ),
    _mark(
        r"can't open file .*No such file or directory|: command not found$|ModuleNotFoundError: |ImportError: ",
        FailureClass.CODE,
        "The image lacks a program, file or module that the command needs.",
    ),
    _mark(
        r"\bFileNotFoundError\b|No such file or directory|NotADirectoryError|IsADirectoryError",
        FailureClass.DATA_PATH,
        "A path does not exist in the replica: check volumes, datasets, models and their mount paths.",
    ),
    _mark(
        r"Read-only file system|\bPermissionError\b|Permission denied",
        FailureClass.DATA_PATH,
        "A path may not be written or read: datasets are read-only, and models by default.",
    ),
    _mark(
        r"No space left on device|Disk quota exceeded",
        FailureClass.DATA_PATH,
        "A volume or /dev/shm is full: free space, use another volume or raise shm_size.",
    ),
)
"""Tried on log lines."""
