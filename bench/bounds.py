"""The one way in which a measurement is held to its bound: said in a line, and an exit code where it was not kept."""

from __future__ import annotations

__all__ = ["is_kept"]


def is_kept(what: str, found: float, most: float) -> bool:
    """Print what was found beside what it may be at most, and say whether it is that; what is no number is not."""
    kept = found <= most
    print(f"bound: {what} {found:,.3g}, at most {most:,.3g}: {'kept' if kept else 'exceeded'}", flush=True)
    return kept
