"""Hides hidden values that a training prints, in a process that must not know them.

Airflow stores what a trigger is given in clear, so no hidden value may be in it; but the trigger shows the training's
lines, and a training may print its token. The trigger gets, for each value, its length and forty bits of keyed hashes:
enough to know the value when it passes by. A random value can't be found out by that; one that can be guessed can be
confirmed by whoever reads the database. Whoever knows the values masks in the same way: the command, and the embedded
backend before it keeps a failure's last lines. In a worker Airflow's own masking works as well.

Every line of a chatty run passes here, in an event loop that many runs share. So twelve of the forty bits are the
classes of the value's first four characters: a search in C finds the few places that can begin a value, and only those
are hashed (`python -m bench.masking` prints what a line costs).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING, Any

from siflow_provider.core.frozen import Frozen
from siflow_provider.spec.hidden import MASK

if TYPE_CHECKING:
    from siflow_provider.core.outcome import Outcome
    from siflow_provider.core.status import Failure

__all__ = ["SHORTEST", "Veil"]

SHORTEST = 5
"""Characters; Airflow masks nothing shorter either."""
_HEAD = 4
"""First characters whose classes are known: three bits each."""
_DIGEST_LENGTH = 7
"""Hex digits: the other 28 bits."""
Mark = tuple[int, str, str]


class Veil(Frozen):
    """Knows hidden values by sight.

    Attributes:
        salt: the hash's key, in hex; another one for each task instance.
        marks: (length, classes of the first characters, digest in hex) of each value, and of each line of one of
            several lines; longest first.

    Example:
        >>> Veil.of(["s3cr3t"]).over("token=s3cr3t.")
        'token=***.'
    """

    salt: str = ""
    marks: tuple[Mark, ...] = ()

    @classmethod
    def of(cls, values: Iterable[str]) -> Veil:
        """Return a veil over these values; those under five characters can't be told from other text."""
        texts = {part for value in values for part in (value, *value.splitlines()) if len(part) >= SHORTEST}
        if not texts:
            return cls()
        salt = secrets.token_hex(16)
        marks = ((len(text), text[:_HEAD].translate(_classes(salt)), _digest(text, salt)) for text in texts)
        return cls(salt=salt, marks=tuple(sorted(marks, reverse=True)))

    def over(self, text: str) -> str:
        """Return the text with each hidden value in it masked."""
        if not self.marks:
            return text
        for length, marks in groupby(self.marks, key=lambda mark: mark[0]):
            text = _masked(text, length, tuple(marks), self.salt)
        return text

    def over_json(self, value: Any) -> Any:
        """Return a JSON value with each hidden value in its texts masked."""
        if not self.marks:
            return value
        if isinstance(value, str):
            return self.over(value)
        if isinstance(value, dict):
            return {self.over(key): self.over_json(item) for key, item in value.items()}
        return [self.over_json(item) for item in value] if isinstance(value, list) else value

    def over_outcome(self, outcome: Outcome) -> Outcome:
        """Return the outcome with hidden values masked in results and evidence: it goes through the database."""
        if not self.marks:
            return outcome
        failure = None if outcome.failure is None else self.over_failure(outcome.failure)
        return outcome.model_copy(update={"failure": failure, "results": self.over_json(outcome.results)})

    def over_failure(self, failure: Failure) -> Failure:
        """Return the failure with hidden values masked in its evidence: it goes through databases and messages."""
        if not self.marks:
            return failure
        return failure.model_copy(
            update={
                "summary": self.over(failure.summary),
                "last_lines": tuple(self.over(line) for line in failure.last_lines),
                "events": tuple(self.over(event) for event in failure.events),
            }
        )


def _masked(text: str, length: int, marks: tuple[Mark, ...], salt: str) -> str:
    out, kept = [], 0
    digests = {digest for _, _, digest in marks}
    heads = "|".join(sorted({head for _, head, _ in marks}))
    for place in re.finditer(f"(?={heads})", text.translate(_classes(salt))):
        at = place.start()
        if at < kept:
            continue  # inside a value that is masked already
        if at + length > len(text):
            break
        if _digest(text[at : at + length], salt) in digests:
            out.append(text[kept:at])
            kept = at + length
    return MASK.join([*out, text[kept:]])


class _Classes(dict[int, str]):
    """Character -> one of eight classes, as the salt deals them out; filled as characters come up."""

    def __init__(self, salt: str) -> None:
        super().__init__()
        self._salt = bytes.fromhex(salt)

    def __missing__(self, code: int) -> str:
        character = chr(code).encode("utf-8", "surrogatepass")
        self[code] = str(blake2b(character, key=self._salt, digest_size=1).digest()[0] % 8)
        return self[code]


@lru_cache(maxsize=256)
def _classes(salt: str) -> _Classes:
    return _Classes(salt)


def _digest(text: str, salt: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), key=bytes.fromhex(salt)).hexdigest()[:_DIGEST_LENGTH]
