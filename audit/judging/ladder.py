"""Grade a cell by its contrasts, with the same ordered list of grades in all audits.

A contrast is a comparison that an audit makes. A guard is a check that excludes another cause of a
contrast. The first grade whose condition holds applies (details: `grade`).

| grade | condition | decision, exit code |
|---|---|---|
| `check_failed` | a check of the measurement failed; the check is named | no decision, 5 |
| `not_identified` | the data cannot answer the question; missing data are named | no decision, 5 |
| `found_strong` | a contrast is significant; all its guards exclude another cause | block, 3 |
| `found_suggestive` | a contrast is significant; a stated cause gives the same data | review, 4 |
| `cause_unknown` | a contrast is significant; another cause is not excluded | review, 4 |
| `cleared` | every bounded contrast excludes the smallest effect that matters | pass, 0 |
| `undecided` | no other grade applies | no decision, 5 |

The module does no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Decision(StrEnum):
    """Name the decisions of `audit gate`. Each decision has an exit code for the calling job."""

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
    """Name the grades of a verdict, in the order in which a page shows them.

    Notes
    -----
    The table in the docstring of the module states when each grade applies.
    """

    FOUND_STRONG = "found_strong"
    FOUND_SUGGESTIVE = "found_suggestive"
    CAUSE_UNKNOWN = "cause_unknown"
    CHECK_FAILED = "check_failed"
    NOT_IDENTIFIED = "not_identified"
    UNDECIDED = "undecided"
    CLEARED = "cleared"

    def decision(self, block_at: str = "strong") -> Decision:
        """Return the decision of a gate for this grade.

        Parameters
        ----------
        block_at : {"strong", "suggestive"}
            Weakest kind of finding that blocks.

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
SPEAKING = (*FINDINGS, Grade.CAUSE_UNKNOWN)  # the grades that require a significant contrast
DECIDED = (*SPEAKING, Grade.CLEARED)  # grades that more data of the same kind would not change
NO_ROOM = "no_room"  # code for a score at which no effect that matters is possible


@dataclass(frozen=True)
class Guard:
    """Hold an alternative explanation of a contrast, and whether the data exclude this explanation.

    Attributes
    ----------
    code : str
        Code of the explanation in the audit's texts.
    excluded : bool
        True if the data of this run exclude the explanation.
    stated : bool
        True if the explanation predicts the same data as the effect that the audit tests for. The
        verdict then states the explanation.
    """

    code: str
    excluded: bool
    stated: bool = False


@dataclass(frozen=True)
class Bound:
    """Hold whether the upper limit of a contrast excludes an effect that matters.

    Attributes
    ----------
    excluded : bool
        True if the smallest effect that matters lies above the one-sided 95 % upper limit.
    room : bool
        True if an effect of this size could show at the measured score.
    """

    excluded: bool
    room: bool = True


@dataclass(frozen=True)
class Contrast:
    """Hold the result of one comparison that an audit makes.

    Attributes
    ----------
    name : str
        Name of the contrast.
    speaks : bool
        True if the contrast is significant after correction and its interval lies above zero.
    guards : tuple of Guard
        Alternative explanations of the contrast.
    bound : Bound or None
        Whether the upper limit excludes an effect that matters; None if the contrast cannot clear a
        model.
    failed : tuple of str
        Codes of checks of this contrast that failed.
    missing : tuple of str
        Codes of data that this contrast needs and the run lacks.
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
        """Return the guards whose alternative explanation is not excluded.

        Returns
        -------
        tuple of Guard
            These guards, in the order of `guards`.
        """
        return tuple(guard for guard in self.guards if not guard.excluded)


@dataclass(frozen=True)
class Graded:
    """Hold a grade with the contrasts and codes that explain it.

    Attributes
    ----------
    grade : Grade
        The grade.
    by : tuple of str
        Names of the contrasts that determine the grade.
    codes : tuple of str
        Codes of failed checks, of missing data, or of open guards.
    """

    grade: Grade
    by: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()


def grade(contrasts: Sequence[Contrast], failed: Sequence[str] = ()) -> Graded:
    """Return the grade of a cell: the first grade whose condition holds.

    Parameters
    ----------
    contrasts : sequence of Contrast
        Contrasts of the cell.
    failed : sequence of str
        Codes of failed checks of the whole measurement.

    Returns
    -------
    Graded
        The grade, with the contrasts and codes that explain it.

    Notes
    -----
    A failed check of the whole measurement is considered first, then findings, then failed checks
    of single contrasts, and last whether the model is cleared.

    Examples
    --------
    A significant contrast is a strong finding if no other explanation is open. It is only
    suggestive if a stated explanation is open.

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
    """Return the strongest finding of the significant contrasts; None if no contrast is
    significant."""
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
    """Return the grade of a cell without a finding, from the upper limits of its contrasts.

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
