from __future__ import annotations

import pytest

from siflow_provider.core.diagnosis import Evidence, diagnose, signal_of, with_last_lines
from siflow_provider.core.status import FailureClass
from siflow_provider.core.veil import Veil

Class = FailureClass


LINES = [
    ("ModuleNotFoundError: No module named 'trainer'", Class.CODE, False),
    ("ImportError: libcudart.so.12: cannot open shared object file: No such file or directory", Class.CODE, False),
    ("python: can't open file '/x/train.py': [Errno 2] No such file or directory", Class.CODE, False),
    ("bash: line 1: torchrum: command not found", Class.CODE, False),
    ("ValueError: shapes (3,) and (4,) not aligned", Class.CODE, False),
    ("[rank1]: torch.cuda.CudaError: invalid device ordinal", Class.CODE, False),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/volume/data/a.bin'", Class.DATA_PATH, False),
    ("cat: /volume/x: No such file or directory", Class.DATA_PATH, False),
    ("OSError: [Errno 30] Read-only file system: '/volume/imagenet/x'", Class.DATA_PATH, False),
    ("PermissionError: [Errno 13] Permission denied: '/volume/x'", Class.DATA_PATH, False),
    ("OSError: [Errno 28] No space left on device", Class.DATA_PATH, False),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", Class.OUT_OF_MEMORY, False),
    ("RuntimeError: CUDA error: out of memory", Class.OUT_OF_MEMORY, False),
    ("MemoryError", Class.OUT_OF_MEMORY, False),
    ("RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory", Class.OUT_OF_MEMORY, False),
    ("ray.exceptions.OutOfMemoryError: Task was killed, node running low on memory.", Class.OUT_OF_MEMORY, False),
    ("[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)", Class.HANG, True),
    ("RuntimeError: [gloo/unbound_buffer.cc:81] Timed out waiting 60000ms for recv operation", Class.HANG, True),
    ("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError", Class.PLATFORM, True),
    ("torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients.", Class.PLATFORM, True),
    ("RuntimeError: [gloo/pair.cc:534] Connection closed by peer [127.0.0.1]:1234", Class.PLATFORM, True),
    ("torch.distributed.DistBackendError: NCCL error, ncclRemoteError: A call failed", Class.PLATFORM, True),
    ("ConnectionError: Failed to connect to Ray at address: http://head-svc:8265.", Class.PLATFORM, True),
]


@pytest.mark.parametrize(("line", "category", "transient"), LINES)
def test_a_failure_has_its_class_by_its_last_lines(line: str, category: FailureClass, transient: bool) -> None:
    noise = ("step 1 loss 0.3", line, "", "see the documentation for details")
    failure = diagnose(Evidence("worker-1", 2, 1, last_lines=noise))
    assert (failure.category, failure.transient) == (category, transient)
    assert failure.summary == f"worker-1 (rank 2) ended with exit code 1: {line}"
    assert failure.hint


@pytest.mark.parametrize(
    ("code", "category", "transient"),
    [
        (1, Class.CODE, False),
        (3, Class.CODE, False),
        (126, Class.CODE, False),
        (127, Class.CODE, False),
        (255, Class.CODE, False),
        (134, Class.CODE, True),
        (135, Class.CODE, True),
        (137, Class.PLATFORM, True),
        (139, Class.CODE, True),
        (143, Class.PLATFORM, True),
    ],
)
def test_a_failure_without_telling_lines_has_its_class_by_exit_code(
    code: int, category: FailureClass, transient: bool
) -> None:
    failure = diagnose(Evidence("worker-1", 2, code, last_lines=("step 1", "step 2")))
    assert (failure.category, failure.transient) == (category, transient)
    assert (failure.replica, failure.rank, failure.exit_code) == ("worker-1", 2, code)
    assert failure.summary.startswith("worker-1 (rank 2) ended ")
    assert failure.hint


def test_the_launchers_own_error_does_not_hide_the_cause() -> None:
    lines = (
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "Failures:",
    )
    assert "mat1 and mat2" in diagnose(Evidence("master-0", 0, 1, last_lines=lines)).summary


@pytest.mark.parametrize(
    ("reason", "category", "transient"),
    [
        ("Preempted", Class.PREEMPTED, True),
        ("Evicted", Class.NODE_LOST, True),
        ("NodeLost", Class.NODE_LOST, True),
        ("ErrImagePull", Class.IMAGE, True),
        ("ImagePullBackOff", Class.IMAGE, True),
        ("InvalidImageName", Class.IMAGE, False),
        ('ErrImagePull: failed to resolve reference "a/b:1": a/b:1: not found', Class.IMAGE, False),
        (
            'ErrImagePull: failed to pull and unpack image "a/b:1": failed to resolve image: a/b:1: not found',
            Class.IMAGE,
            False,
        ),
        ("ErrImagePull: a/b:1: pull access denied, repository may need authorization", Class.IMAGE, False),
        ("ErrImagePull: dial tcp 10.0.0.1:443: i/o timeout", Class.IMAGE, True),
        (
            "Evicted: Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.",
            Class.DATA_PATH,
            False,
        ),
        ('Evicted: Usage of EmptyDir volume "dshm" exceeds the limit "8Gi".', Class.DATA_PATH, False),
        ("Evicted: The node was low on resource: ephemeral-storage.", Class.NODE_LOST, True),
        ("Node shutdown: Pod was terminated in response to imminent node shutdown.", Class.NODE_LOST, True),
        ("OutOfcpu: Node didn't have enough resource: cpu", Class.PLATFORM, True),
        ("OutOfnvidia.com/gpu: Node didn't have enough resource", Class.PLATFORM, True),
        ("DeadlineExceeded: Pod was active on the node longer than the specified deadline", Class.TIMEOUT, False),
        ('StartError: exec: "bash": executable file not found in $PATH', Class.CODE, False),
    ],
)
def test_the_backends_own_word_goes_before_the_lines(reason: str, category: FailureClass, transient: bool) -> None:
    failure = diagnose(Evidence("worker-0", 1, 137, reason=reason, last_lines=("ModuleNotFoundError: No module",)))
    assert (failure.category, failure.transient) == (category, transient)


def test_memory_that_ran_out_for_certain_goes_before_everything() -> None:
    failure = diagnose(Evidence("worker-0", 1, 137, out_of_memory=True, reason="Evicted", last_lines=("Killed",)))
    assert failure.category is Class.OUT_OF_MEMORY
    assert not failure.transient
    assert "memory" in failure.hint


def test_the_nearest_telling_line_decides() -> None:
    lines = ("Connection reset by peer, retrying", "step 9", "ModuleNotFoundError: No module named 'x'")
    assert diagnose(Evidence("master-0", 0, 1, last_lines=lines)).category is Class.CODE


def test_a_summary_names_the_signal_and_the_hint_what_to_do() -> None:
    failure = diagnose(Evidence("worker-0", 1, 135))
    assert failure.summary == "worker-0 (rank 1) ended by SIGBUS (exit code 135)"
    assert "shm_size" in failure.hint


def test_evidence_is_kept_and_bounded() -> None:
    lines = tuple(f"{number}" for number in range(100))
    failure = diagnose(Evidence("worker-0", 1, 1, last_lines=lines, events=("Pulled", "Started")))
    assert failure.last_lines == lines[-20:]
    assert failure.events == ("Pulled", "Started")


def test_a_failure_of_no_replica_is_the_runs() -> None:
    failure = diagnose(Evidence(reason="the controller gave up"))
    assert failure.category is Class.PLATFORM
    assert failure.summary == "the run failed: the controller gave up"


def test_last_lines_are_told_with_their_replica_where_there_is_one() -> None:
    assert "last lines of worker-1:\n  boom" in diagnose(Evidence("worker-1", 2, 1, last_lines=("boom",))).describe()
    assert "last lines:\n  boom" in diagnose(Evidence(last_lines=("boom",))).describe()


def test_exit_codes_over_128_are_signals_only_where_there_is_such_a_signal() -> None:
    assert [signal_of(code) for code in (None, 0, 128, 129, 137, 162, 192, 193, 255)] == [
        None,
        None,
        None,
        "SIGHUP",
        "SIGKILL",
        "SIGRTMIN",
        "SIGRTMAX",
        None,
        None,
    ]
    assert signal_of(128 + 33) == "signal 33"


def test_lines_that_are_read_later_decide_what_only_the_exit_code_had_told() -> None:
    told = diagnose(Evidence("worker-1", 2, 1))
    assert told.category is Class.CODE
    failure = with_last_lines(told, ["step 1", "FileNotFoundError: '/volume/x'"], Veil())
    assert failure.category is Class.DATA_PATH
    assert failure.summary == "worker-1 (rank 2) ended with exit code 1: FileNotFoundError: '/volume/x'"
    assert failure.last_lines == ("step 1", "FileNotFoundError: '/volume/x'")


def test_lines_that_are_read_later_change_nothing_that_is_certain() -> None:
    told = diagnose(Evidence("worker-1", 2, 137, reason="Evicted"))
    failure = with_last_lines(told, ["ModuleNotFoundError: No module named 'x'"], Veil())
    assert failure.category is Class.NODE_LOST
    assert failure.last_lines
    assert with_last_lines(failure, ["other"], Veil()) == failure


@pytest.mark.parametrize("before", range(285, 300))
def test_a_hidden_value_where_a_summary_is_cut_is_not_halved(before: int) -> None:
    veil = Veil.of(["canary-7391-of-the-test"])
    line = f"ValueError: {'x' * (before - 12)}canary-7391-of-the-test"
    evidence = Evidence("master-0", 0, 1, reason=line, last_lines=(line,), events=(line,), veil=veil)
    for failure in (
        diagnose(evidence),
        with_last_lines(diagnose(Evidence("master-0", 0, 1)), [line], veil),
        diagnose(Evidence(reason=f"ErrImagePull: {line[14:]}", veil=veil)),
    ):
        assert "xx*" in failure.summary
        assert "can" not in failure.model_dump_json()
