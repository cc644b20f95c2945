"""Kubernetes quantities as exact numbers (`500m`, `16Gi`, `2`), so that they can be multiplied, added and compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

__all__ = ["Resources", "accelerators", "format_quantity", "is_accelerator", "parse_quantity"]

_UNITS = {
    "": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("0.001"),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9),
    "T": Decimal(10**12), "P": Decimal(10**15), "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30),
    "Ti": Decimal(2**40), "Pi": Decimal(2**50), "E": Decimal(10**18), "Ei": Decimal(2**60),
}  # fmt: skip
_SHAPE = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(?:[eE]([+-]?\d{1,2})|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?", re.ASCII)
_ACCELERATOR = re.compile(
    r".+/(?:[a-z]*(?:gpu|npu|dcu|mlu|gcu|xpu|tpu)|gaudi|neuron(?:core)?|ascend\w*|mig-[\w.]+)(?:\.shared)?",
    re.ASCII | re.IGNORECASE,
)
_NO_ACCELERATOR = re.compile(
    r"(?:rdma|.*\bkubernetes\.io|.*\bk8s\.io)/.*"
    r"|.*/.*(?:rdma|roce|hca|nic|sriov|efa|eni|hostdev|fuse|kvm|tun|sgx|mem|core).*",
    re.ASCII | re.IGNORECASE,
)
"""Network cards, devices of the kernel, and shares of an accelerator's memory or cores."""


def parse_quantity(text: str | float) -> Decimal:
    """Return the quantity as a plain number (cores, bytes, pieces).

    source: Kubernetes apimachinery `pkg/api/resource/quantity.go`, its grammar; a sign is left out, no form needs one.

    Raises:
        ValueError: it is not a quantity; the message says what one looks like.

    Example:
        >>> parse_quantity("500m"), parse_quantity("1Ki")
        (Decimal('0.500'), Decimal('1024'))
    """
    match = _SHAPE.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"{text!r} is not a quantity; write a number with an optional unit, such as 500m, 4 or 16Gi")
    return (Decimal(match[1]) * _UNITS[match[3] or ""]).scaleb(int(match[2] or 0))


def format_quantity(value: Decimal) -> str:
    """Return the shortest exact text of a quantity: binary units where they divide it, millis below one.

    Example:
        >>> format_quantity(parse_quantity("960Gi") * 2), format_quantity(Decimal("0.25"))
        ('1920Gi', '250m')
    """
    if value != value.to_integral_value():
        return f"{int((value * 1000).to_integral_value(rounding='ROUND_CEILING'))}m"
    number = int(value)
    for unit in ("Pi", "Ti", "Gi", "Mi", "Ki"):
        size = int(_UNITS[unit])
        if number >= size and number % size == 0 and (unit != "Ki" or number % 1000 != 0):
            # a shorter text than "1920Gi" exists only for whole multiples of the next unit
            return f"{number // size}{unit}"
    return str(number)


def is_accelerator(name: str) -> bool:
    """Say whether a resource's name is that of a known make of accelerator (`nvidia.com/gpu`, `huawei.com/Ascend910`).

    source: what the device plugins of the makers advertise.
    """
    return _ACCELERATOR.fullmatch(name) is not None


def accelerators(names: Iterable[str]) -> list[str]:
    """Return which of the resources of one replica count its accelerators.

    The ones of a known make; where there is none, every other extended resource (a name with `/`), since somebody's
    device plugin counts something with it, except what is well known to be something else, such as `rdma/hca`.

    Example:
        >>> accelerators(["cpu", "nvidia.com/gpu", "example.com/card"]), accelerators(["example.com/card", "rdma/hca"])
        (['nvidia.com/gpu'], ['example.com/card'])
    """
    extended = [name for name in names if "/" in name]
    known = [name for name in extended if is_accelerator(name)]
    return known or [name for name in extended if not _NO_ACCELERATOR.fullmatch(name)]


@dataclass(frozen=True, slots=True)
class Resources:
    """Amounts by resource name: `cpu` in cores, `memory` in bytes, anything else in pieces.

    Example:
        >>> (Resources.of({"cpu": 2, "nvidia.com/gpu": 1}) * 3).gpus
        3.0
    """

    amounts: Mapping[str, Decimal] = field(default_factory=dict)

    @classmethod
    def of(cls, raw: Mapping[str, str | float]) -> Resources:
        """Read amounts as a catalog or a manifest writes them."""
        return cls({name: parse_quantity(text) for name, text in raw.items()})

    @classmethod
    def total(cls, parts: Iterable[Resources]) -> Resources:
        """Return the sum of all parts."""
        out: dict[str, Decimal] = {}
        for part in parts:
            for name, value in part.amounts.items():
                out[name] = out.get(name, Decimal(0)) + value
        return cls(out)

    def __mul__(self, times: int) -> Resources:
        return Resources({name: value * times for name, value in self.amounts.items()})

    @property
    def cpu(self) -> float:
        """Cores."""
        return float(self.amounts.get("cpu", 0))

    @property
    def memory(self) -> int:
        """Bytes."""
        return int(self.amounts.get("memory", 0))

    @property
    def gpus(self) -> float:
        """Accelerators of every make; `accelerators` says which resources count them.

        Only names are known here. Of an instance that the catalog calls `accelerator: cpu`, ask `Flavor.gpus`.
        """
        return float(sum(self.amounts[name] for name in accelerators(self.amounts)))

    def rendered(self) -> dict[str, str]:
        """Return the amounts as a manifest writes them, in order of name."""
        return {name: format_quantity(self.amounts[name]) for name in sorted(self.amounts)}
