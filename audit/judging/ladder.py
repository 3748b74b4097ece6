"""Grade the contrasts of a cell: the ladder of every audit, its decisions and exit codes (pure).

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
    """Name the decisions of a gate. The exit code of a decision tells a job."""

    PASS = "pass"  # noqa: S105 - a decision, not a password
    REVIEW = "review"
    BLOCK = "block"
    NO_DECISION = "no decision"

    @property
    def exit_code(self) -> int:
        """Return the exit code of the decision.

        Returns
        -------
        int
            0 pass, 3 block, 4 review, 5 no decision.
        """
        return _EXIT_CODES[self]


_EXIT_CODES = {Decision.PASS: 0, Decision.BLOCK: 3, Decision.REVIEW: 4, Decision.NO_DECISION: 5}


class Grade(StrEnum):
    """Name the grades of a verdict, in the order of a page.

    Notes
    -----
    The module's table states when each grade applies.
    """

    FOUND_STRONG = "found_strong"
    FOUND_SUGGESTIVE = "found_suggestive"
    CAUSE_UNKNOWN = "cause_unknown"
    CHECK_FAILED = "check_failed"
    NOT_IDENTIFIED = "not_identified"
    UNDECIDED = "undecided"
    CLEARED = "cleared"

    def decision(self, block_at: str = "strong") -> Decision:
        """Return the decision of a gate on this grade.

        Parameters
        ----------
        block_at : {"strong", "suggestive"}
            The weakest finding that blocks.

        Returns
        -------
        Decision
            Pass, review, block or no decision.

        Examples
        --------
        >>> Grade.FOUND_SUGGESTIVE.decision().exit_code
        4
        >>> Grade.FOUND_SUGGESTIVE.decision(block_at="suggestive").exit_code
        3
        """
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
SPEAKING = (*FINDINGS, Grade.CAUSE_UNKNOWN)  # a contrast speaks
DECIDED = (*SPEAKING, Grade.CLEARED)  # more of the same data would not change the answer
NO_ROOM = "no_room"  # code for a score that leaves no room for an effect that matters


@dataclass(frozen=True)
class Guard:
    """Hold another explanation of a contrast.

    Attributes
    ----------
    code : str
        Code of the explanation in the audit's texts.
    excluded : bool
        True if the data of this run exclude it.
    stated : bool
        True if it makes the same data as the effect that the audit tests for, and the verdict
        states it.
    """

    code: str
    excluded: bool
    stated: bool = False


@dataclass(frozen=True)
class Bound:
    """Hold the upper limit of a contrast.

    Attributes
    ----------
    excluded : bool
        True if the smallest effect that matters lies above the one-sided 95 % upper limit.
    room : bool
        True if a score like this one leaves room for such an effect at all.
    """

    excluded: bool
    room: bool = True


@dataclass(frozen=True)
class Contrast:
    """Hold a comparison that an audit makes, measured.

    Attributes
    ----------
    name : str
        Name of the contrast.
    speaks : bool
        True if it is more than chance after correction, with an interval above zero.
    guards : tuple of Guard
        Other explanations.
    bound : Bound or None
        Upper limit; None if the contrast can clear nobody.
    failed : tuple of str
        Codes of checks of this contrast that failed.
    missing : tuple of str
        Codes of what this run lacks for it.
    """

    name: str
    speaks: bool = False
    guards: tuple[Guard, ...] = ()
    bound: Bound | None = None
    failed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def judged(self) -> bool:
        """Return whether the contrast can be judged.

        Returns
        -------
        bool
            True if no check failed and nothing is missing.
        """
        return not self.failed and not self.missing

    @property
    def open(self) -> tuple[Guard, ...]:
        """Return the guards that are not excluded.

        Returns
        -------
        tuple of Guard
            In the order of `guards`.
        """
        return tuple(guard for guard in self.guards if not guard.excluded)


@dataclass(frozen=True)
class Graded:
    """Hold a grade and its reasons.

    Attributes
    ----------
    grade : Grade
        The grade.
    by : tuple of str
        Names of the contrasts that it rests on.
    codes : tuple of str
        Codes of failed checks, of what is missing, or of open guards.
    """

    grade: Grade
    by: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()


def grade(contrasts: Sequence[Contrast], failed: Sequence[str] = ()) -> Graded:
    """Return the first grade of the ladder that applies.

    Parameters
    ----------
    contrasts : sequence of Contrast
        Contrasts of one cell.
    failed : sequence of str
        Codes of checks of the whole measurement that failed.

    Returns
    -------
    Graded
        The grade and its reasons.

    Notes
    -----
    A failed check of the whole measurement comes first. Findings come before the failed check of
    one contrast, and that before clearing.

    Examples
    --------
    A contrast that speaks is a strong finding if nothing else explains it, and only suggestive if a
    stated explanation is open.

    >>> open_guard = Guard("harder_wordings", excluded=False, stated=True)
    >>> grade([Contrast("gap", speaks=True)]).grade.value
    'found_strong'
    >>> grade([Contrast("gap", speaks=True, guards=(open_guard,))]).grade.value
    'found_suggestive'
    >>> grade([Contrast("gap", bound=Bound(excluded=True))]).grade.value
    'cleared'
    """
    if failed:
        return Graded(Grade.CHECK_FAILED, codes=tuple(failed))
    judged, speaking = [], []
    failed_codes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    for contrast in contrasts:
        failed_codes += contrast.failed
        missing += contrast.missing
        if contrast.judged:
            judged.append(contrast)
            if contrast.speaks:
                speaking.append(contrast)
    if not judged and not failed_codes:
        return Graded(Grade.NOT_IDENTIFIED, codes=missing)
    finding = _finding(speaking)
    if finding is not None:
        return finding
    if failed_codes:
        return Graded(Grade.CHECK_FAILED, codes=failed_codes)
    return _bounded(judged, missing)


def _finding(speaking: Sequence[Contrast]) -> Graded | None:
    """Return the strongest finding of the contrasts that speak; None if none speaks."""
    strong = tuple(contrast.name for contrast in speaking if not contrast.open)
    if strong:
        return Graded(Grade.FOUND_STRONG, strong)
    stated = []
    for contrast in speaking:
        if all(guard.stated for guard in contrast.open):
            stated.append(contrast)
    chosen = stated or speaking
    if not chosen:
        return None
    open_codes = []
    for contrast in chosen:
        for guard in contrast.open:
            open_codes.append(guard.code)
    codes = tuple(open_codes)
    which = Grade.FOUND_SUGGESTIVE if stated else Grade.CAUSE_UNKNOWN
    return Graded(which, tuple(contrast.name for contrast in chosen), codes)


def _bounded(judged: Sequence[Contrast], missing: tuple[str, ...]) -> Graded:
    """Return the grade that limits support if no contrast is a finding.

    `missing` holds the codes of contrasts that were not judged.
    """
    bounds = []
    for contrast in judged:
        if contrast.bound is not None:
            bounds.append((contrast.name, contrast.bound))
    if not bounds:
        return Graded(Grade.NOT_IDENTIFIED, codes=missing)
    open_ = tuple(name for name, bound in bounds if not bound.excluded)
    if open_:
        return Graded(Grade.UNDECIDED, open_)
    names = tuple(name for name, _ in bounds)
    if not all(bound.room for _, bound in bounds):
        return Graded(Grade.NOT_IDENTIFIED, names, (NO_ROOM,))
    return Graded(Grade.CLEARED, names)
