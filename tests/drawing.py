"""How many examples the property tests draw: as many as each says, and a tenth of them under `--quick`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

__all__ = ["examples", "register"]

_WHOLE = 100
_FEWEST = 10


def register() -> None:
    """Make the profiles `whole`, taken unless pytest's `--hypothesis-profile` says otherwise, and `quick`.

    How fast examples are drawn says how busy the machine is, and nothing about the code.
    """
    busy = [HealthCheck.too_slow]
    settings.register_profile("whole", max_examples=_WHOLE, suppress_health_check=busy)
    settings.register_profile("quick", max_examples=_WHOLE // 10, suppress_health_check=busy)
    settings.load_profile("whole")


def examples(number: int) -> int:
    """Return how many examples the profile makes of `number`; asked while a test module is imported."""
    return max(number * settings().max_examples // _WHOLE, min(number, _FEWEST))
