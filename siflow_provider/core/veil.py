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
from bisect import bisect_left, insort
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
        spans = self._spans(text)
        if not spans:
            return text
        out, kept = [], 0
        for start, end in spans:
            out.append(text[kept:start])
            kept = end
        return MASK.join([*out, text[kept:]])

    @property
    def reach(self) -> int:
        """How many characters behind a place must be known to say whether a value lies across it."""
        return max(0, self.marks[0][0] - 1) if self.marks else 0

    def cut(self, text: str, at: int) -> int:
        """Return where to cut a text at `at` or before it, so that no hidden value loses a part to the other piece.

        A value that begins the text is never cut: then it is the place behind the value.

        Args:
            text: as it goes on, for `reach` characters behind `at` at least, or to its end.
            at: where it would be cut without hidden values.

        Example:
            >>> Veil.of(["s3cr3t"]).cut("token=s3cr3t.", 9)
            6
        """
        return next((start or end for start, end in self._spans(text) if start < at < end), at)

    def settled(self, text: str) -> int:
        """Return how many characters of a text that goes on are known not to be the beginning of a hidden value.

        Example:
            >>> Veil.of(["s3cr3t"]).settled("token=s3cr") <= 6
            True
        """
        if not self.marks:
            return len(text)
        first = max(0, len(text) - self.reach)
        classes = text[first:].translate(_classes(self.salt))
        begun = (at for at in range(first, len(text)) if self._may_begin(classes[at - first :]))
        place = next(begun, len(text))
        return next((start for start, end in self._spans(text) if start < place < end), place)

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Return from where to where the hidden values lie, in order; where two overlap, the longer one counts."""
        spans: list[tuple[int, int]] = []
        classes = text.translate(_classes(self.salt)) if self.marks else ""
        for length, marks in groupby(self.marks, key=lambda mark: mark[0]):
            self._find(text, classes, length, tuple(marks), spans)
        return spans

    def _find(
        self, text: str, classes: str, length: int, marks: tuple[Mark, ...], spans: list[tuple[int, int]]
    ) -> None:
        """Add the values of one length that lie between those found."""
        digests = {digest for _, _, digest in marks}
        heads = "|".join(sorted({head for _, head, _ in marks}))
        kept = 0
        for place in re.finditer(f"(?={heads})", classes):
            at = place.start()
            if at < kept:
                continue  # inside a value of this length
            if at + length > len(text):
                break
            if _is_free(spans, at, at + length) and _digest(text[at : at + length], self.salt) in digests:
                insort(spans, (at, at + length))
                kept = at + length

    def _may_begin(self, classes: str) -> bool:
        """Say whether a value may begin with all of these characters, known by their classes, and go on behind."""
        return any(len(classes) < length and head.startswith(classes[:_HEAD]) for length, head, _ in self.marks)

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


def _is_free(spans: list[tuple[int, int]], start: int, end: int) -> bool:
    index = bisect_left(spans, (start,))
    return (index == 0 or spans[index - 1][1] <= start) and (index == len(spans) or spans[index][0] >= end)


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
