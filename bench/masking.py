"""What masking a line of output costs, for a run with three hidden values: microseconds for lines of several kinds.

python -m bench.masking
"""

from __future__ import annotations

import timeit

from siflow_provider.core.veil import Veil

VALUES = ("hf_0123456789abcdefghijklmnopqrstuvwx", "wandb-40-characters-of-a-key-of-a-service", "p4ssw0rd!")
STEP = "epoch 12/90 step 4711 loss=0.1234 accuracy=0.9876 lr=1.0e-04 tokens/s=123456 memory=61.2GiB eta=01:23:45 "
LINES = {
    "a line of training": STEP,
    "16 KiB of such lines": STEP * 150,
    "16 KiB of one character": "." * 16384,
    "a line with a hidden value": f"using token {VALUES[0]} of the hub for the download of the weights",
}


def main() -> None:
    """Measure and print."""
    veil = Veil.of(VALUES)
    for name, line in LINES.items():
        count, seconds = timeit.Timer("veil.over(line)", globals={"veil": veil, "line": line}).autorange()
        print(f"{name}: {seconds / count * 1e6:.1f} microseconds")


if __name__ == "__main__":
    main()
