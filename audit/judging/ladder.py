"""Grade the contrasts of a cell: the one ladder of every audit, its decisions and exit codes (pure).

| grade | when | decision, exit |
|---|---|---|
| `check_failed` | a check of the measurement failed; it is named | no decision, 5 |
| `not_identified` | these data cannot answer the question; what is missing is named | no decision, 5 |
| `found_strong` | a contrast and all its guards speak | block, 3 |
| `found_suggestive` | a contrast speaks, and a stated other explanation makes the same data | review, 4 |
| `cause_unknown` | a contrast speaks, and another explanation is not excluded | review, 4 |
| `cleared` | every bounded contrast excludes the smallest effect that matters | pass, 0 |
| `undecided` | neither | no decision, 5 |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Decision(StrEnum):
    """What a gate decides. Its exit code tells a job."""

    PASS = "pass"  # noqa: S105 - a decision, not a password
    REVIEW = "review"
    BLOCK = "block"
    NO_DECISION = "no decision"

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self]


_EXIT_CODES = {Decision.PASS: 0, Decision.BLOCK: 3, Decision.REVIEW: 4, Decision.NO_DECISION: 5}


class Grade(StrEnum):
    """What a verdict comes to, in the order of a page."""

    FOUND_STRONG = "found_strong"
    FOUND_SUGGESTIVE = "found_suggestive"
    CAUSE_UNKNOWN = "cause_unknown"
    CHECK_FAILED = "check_failed"
    NOT_IDENTIFIED = "not_identified"
    UNDECIDED = "undecided"
    CLEARED = "cleared"

    def decision(self, block_at: str = "strong") -> Decision:
        """Return what a gate decides. block_at: the weakest finding that blocks, strong or suggestive."""
        if self is Grade.FOUND_SUGGESTIVE and block_at == "suggestive":
            return Decision.BLOCK
        return _DECISIONS[self]


_DECISIONS = {
    Grade.FOUND_STRONG: Decision.BLOCK,
    Grade.FOUND_SUGGESTIVE: Decision.REVIEW,
    Grade.CAUSE_UNKNOWN: Decision.REVIEW,
    Grade.CHECK_FAILED: Decision.NO_DECISION,
    Grade.NOT_IDENTIFIED: Decision.NO_DECISION,
    Grade.UNDECIDED: Decision.NO_DECISION,
    Grade.CLEARED: Decision.PASS,
}
BLOCK_AT = ("strong", "suggestive")
FINDINGS = (Grade.FOUND_STRONG, Grade.FOUND_SUGGESTIVE)
NO_ROOM = "no_room"  # code of what is missing if the score leaves no room for an effect that matters


@dataclass(frozen=True)
class Guard:
    """Another explanation of a contrast.

    code: of the audit's texts. excluded: by the data of this run. stated: it makes the same data as what is looked
    for, and the verdict states it.
    """

    code: str
    excluded: bool
    stated: bool = False


@dataclass(frozen=True)
class Bound:
    """A limit of a contrast. excluded: the smallest effect that matters lies above the one-sided 95 % upper limit.
    room: whether a score like this one leaves room for such an effect at all."""

    excluded: bool
    room: bool = True


@dataclass(frozen=True)
class Contrast:
    """What an audit compares, measured.

    failed: codes of checks of this contrast that failed. missing: codes of what this run lacks for it. speaks: it is
    more than chance after correction, with an interval above zero. bound: None if the contrast can clear nobody.
    """

    name: str
    speaks: bool = False
    guards: tuple[Guard, ...] = ()
    bound: Bound | None = None
    failed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def judged(self) -> bool:
        return not self.failed and not self.missing

    @property
    def open(self) -> tuple[Guard, ...]:
        """The guards that are not excluded."""
        return tuple(guard for guard in self.guards if not guard.excluded)


@dataclass(frozen=True)
class Graded:
    """A grade. by: the contrasts that it rests on. codes: of checks, of what is missing, or of open guards."""

    grade: Grade
    by: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()


def grade(contrasts: Sequence[Contrast], failed: Sequence[str] = ()) -> Graded:
    """Return the first grade of the ladder that applies. failed: codes of checks of the whole measurement."""
    if failed:
        return Graded(Grade.CHECK_FAILED, codes=tuple(failed))
    judged = [one for one in contrasts if one.judged]
    own_failed = tuple(code for one in contrasts for code in one.failed)
    missing = tuple(code for one in contrasts for code in one.missing)
    if not judged and not own_failed:
        return Graded(Grade.NOT_IDENTIFIED, codes=missing)
    found = _finding([one for one in judged if one.speaks])
    if found is not None:
        return found
    if own_failed:
        return Graded(Grade.CHECK_FAILED, codes=own_failed)
    return _bounded(judged, missing)


def _finding(speaking: Sequence[Contrast]) -> Graded | None:
    """Return the strongest finding of the contrasts that speak; None if none speaks."""
    strong = tuple(one.name for one in speaking if not one.open)
    if strong:
        return Graded(Grade.FOUND_STRONG, strong)
    stated = [one for one in speaking if all(guard.stated for guard in one.open)]
    chosen = stated or speaking
    if not chosen:
        return None
    codes = tuple(guard.code for one in chosen for guard in one.open)
    which = Grade.FOUND_SUGGESTIVE if stated else Grade.CAUSE_UNKNOWN
    return Graded(which, tuple(one.name for one in chosen), codes)


def _bounded(judged: Sequence[Contrast], missing: tuple[str, ...]) -> Graded:
    """Return what limits come to if no contrast speaks. missing: codes of contrasts that were not judged."""
    bounds = [(one.name, one.bound) for one in judged if one.bound is not None]
    if not bounds:
        return Graded(Grade.NOT_IDENTIFIED, codes=missing)
    open_ = tuple(name for name, bound in bounds if not bound.excluded)
    if open_:
        return Graded(Grade.UNDECIDED, open_)
    names = tuple(name for name, _ in bounds)
    if not all(bound.room for _, bound in bounds):
        return Graded(Grade.NOT_IDENTIFIED, names, (NO_ROOM,))
    return Graded(Grade.CLEARED, names)
