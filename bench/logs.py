"""How fast lines of a pod's log are cut, in CPU time, and for how long the event loop waits for a read of 32 KiB.

python -m bench.logs
"""

from __future__ import annotations

import time

from siflow_provider.backends.kubernetes.logs.splitter import LineSplitter

STEP = "epoch 12/90 step 4711 loss=0.1234 accuracy=0.9876 lr=1.0e-04 tokens/s=123456 memory=61.2GiB"
CHUNK = 32 * 1024
LINES = 500_000
LOGS = {"a line of training": STEP, "short lines": "step 1", "lines of 40 KiB": STEP * 430}


def main() -> None:
    """Measure and print."""
    for name, text in LOGS.items():
        count = max(1000, LINES // (1 + len(text) // 1000))
        size = len(text) + 32
        piece = "".join(
            f"2026-05-01T10:00:00.{number:09}Z {text}\n" for number in range(max(1, 8 * CHUNK // size))
        ).encode()
        lines, longest, started = 0, 0.0, time.process_time()
        cutter = LineSplitter("master-0", "c0ffee", "pytorch")
        while lines < count:
            for start in range(0, len(piece), CHUNK):
                before = time.process_time()
                lines += len(cutter.feed(piece[start : start + CHUNK]))
                longest = max(longest, time.process_time() - before)
        seconds = time.process_time() - started
        print(f"{name}: {lines / seconds:,.0f} lines or pieces a second, {longest * 1000:.1f} ms for a read at most")


if __name__ == "__main__":
    main()
