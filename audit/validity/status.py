"""Apply the status algorithm of li2026, section 3, exactly as published.

The program's own status comes from `audit.validity.decide`. The paper's conditions are tested in
order, and the first condition that holds decides the status.

The paper names no status for a cell that passes every gate, but whose interval of CSR contains 1.
This module calls such a cell `indeterminate`. This module does no I/O.
"""

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from audit.statistics.selectivity import csr


class Status(StrEnum):
    """Name the statuses of the paper, and one for cells that the paper leaves without a status."""

    INELIGIBLE_F1 = "ineligible-F1"
    FAILED = "failed-G2-G4"
    SCORER_UNVALIDATED = "scorer-unvalidated"
    INELIGIBLE_F5 = "ineligible-F5"
    EXPLORATORY = "exploratory"
    SELECTIVE = "confirmatory-selective"
    NON_SELECTIVE = "confirmatory-non-selective"
    INDETERMINATE = "indeterminate"


# The raw verdict, the bucket and the step of section 3 of each status (Appendix G).
APPENDIX_G: dict[Status, tuple[str, str, int]] = {
    Status.INELIGIBLE_F1: ("not_applicable", "ineligible (F1)", 1),
    Status.FAILED: ("inconclusive", "failed G2–G4", 2),
    Status.SCORER_UNVALIDATED: ("uninterpretable_scorer", "scorer-unvalidated", 3),
    Status.INELIGIBLE_F5: ("attribute_family_mismatch", "ineligible (F5)", 4),
    Status.EXPLORATORY: ("selective or non_selective (G5, G6 proposed)", "exploratory", 5),
    Status.SELECTIVE: ("selective (G5, G6 implemented)", "confirmatory-selective", 6),
    Status.NON_SELECTIVE: ("non_selective (G5, G6 implemented)", "confirmatory-non-selective", 6),
    Status.INDETERMINATE: (
        "none: the interval contains 1",
        "indeterminate (the paper has no status for it)",
        7,
    ),
}


def raw_words(status: Status) -> list[str]:
    """Return the raw verdicts that Appendix G writes for a status.

    Parameters
    ----------
    status : Status
        The status.

    Returns
    -------
    list of str
        One or two raw verdicts.
    """
    return re.split(r" \(|:", APPENDIX_G[status][0])[0].split(" or ")


@dataclass(frozen=True, slots=True)
class PaperThresholds:
    """Define the thresholds of li2026, Table 1 and section 3, which its Appendix E calls
    engineering choices.
    """

    g1_noop: float = 0.20  # largest share of edits that do not change what the scorer reads
    g2_standard_errors: float = 2.0
    g3_denominator: float = 0.02
    epsilon: float = 0.01


PAPER = PaperThresholds()
# The raw columns of cell_validity.csv (Appendix G). The appendix does not say how many items are
# enough, so the 200 items of the paper's design are required.
GATE_COLUMNS = (
    "gate_parseability",
    "gate_above_baseline",
    "gate_denom_not_eps",
    "gate_ci_estimable",
    "gate_n_items_ok",
    "gate_seed_cv_lt_03",
)
N_ITEMS_OK, SEED_CV = 200, 0.3


@dataclass(frozen=True, slots=True)
class PaperCell:
    """Hold the numbers of one cell that the paper's algorithm uses.

    Scores and changes are means over n items, 0-1.

    Attributes
    ----------
    model, benchmark : str
        The names.
    score : float
        Score of the originals.
    n : int
        Number of items.
    baseline : float
        Score of a rule that does not read the question (G2).
    delta_fmt, delta_sem, delta_attr : float
        Changes of the score under format, semantic and attribute edits.
    ci_low, ci_high : float
        Limits of the interval of CSR.
    instrumented : bool
        Whether G1 can be evaluated on the text that the scorer reads.
    noop : float or None
        Share of format edits that do not change the text that the scorer reads; None if not
        measured.
    paired : bool
        Whether resampling kept each item together with all its edits (G4).
    scorer_validated, g5, g6 : bool
        Whether the scorer is validated, and whether G5 and G6 pass.
    archetype_aligned : bool
        Whether F5 is absent.
    """

    model: str
    benchmark: str
    score: float
    n: int
    baseline: float
    delta_fmt: float
    delta_sem: float
    delta_attr: float
    ci_low: float
    ci_high: float
    instrumented: bool = True
    noop: float | None = None
    paired: bool = True
    scorer_validated: bool = True
    archetype_aligned: bool = True
    g5: bool = False
    g6: bool = False

    @property
    def standard_error(self) -> float:
        """Return the standard error of the score as in the paper, sqrt(s (1 - s) / n)."""
        return math.sqrt(self.score * (1 - self.score) / self.n)

    @property
    def z(self) -> float:
        """Return the score minus the baseline, in standard errors.

        Returns
        -------
        float
            The distance. It is infinite (positive or negative) if the score is 0 or 1.
        """
        gap = self.score - self.baseline
        return gap / self.standard_error if self.standard_error else math.copysign(math.inf, gap)

    @property
    def denominator(self) -> float:
        """Return the denominator of CSR: the larger of the changes under format and semantic
        edits.
        """
        return max(self.delta_fmt, self.delta_sem)

    def g2(self, t: PaperThresholds = PAPER) -> bool:
        """Return whether the score is above the baseline (gate G2)."""
        return self.score >= self.baseline + t.g2_standard_errors * self.standard_error

    def g3(self, t: PaperThresholds = PAPER) -> bool:
        """Return whether the denominator of CSR is large enough (gate G3)."""
        return self.denominator >= t.g3_denominator

    def csr(self, epsilon: float = PAPER.epsilon) -> float:
        """Return the ratio CSR. A denominator below epsilon is replaced by epsilon."""
        return csr(self.delta_attr, self.delta_fmt, self.delta_sem, epsilon)


@dataclass(frozen=True, slots=True)
class PaperStatus:
    """Hold a status of the paper.

    Attributes
    ----------
    status : Status
        The status.
    step : int
        The step that decided, 1 to 6; 7 if no step applies.
    flags : tuple of str
        Conditions of later steps that also hold. The paper's text names these conditions.
    """

    status: Status
    step: int
    flags: tuple[str, ...]


def paper_status(cell: PaperCell, thresholds: PaperThresholds = PAPER) -> PaperStatus:
    """Return the status by the paper's algorithm: the first condition that holds decides.

    Parameters
    ----------
    cell : PaperCell
        The numbers of the cell.
    thresholds : PaperThresholds
        The thresholds.

    Returns
    -------
    PaperStatus
        Status, step and flags.
    """
    g1 = cell.instrumented and (cell.noop is None or cell.noop < thresholds.g1_noop)
    steps = (
        (1, Status.INELIGIBLE_F1, not g1),
        (2, Status.FAILED, not (cell.g2(thresholds) and cell.g3(thresholds) and cell.paired)),
        (3, Status.SCORER_UNVALIDATED, not cell.scorer_validated),
        (4, Status.INELIGIBLE_F5, not cell.archetype_aligned),
        (5, Status.EXPLORATORY, not (cell.g5 and cell.g6)),
        (6, Status.SELECTIVE, cell.ci_low > 1),
        (6, Status.NON_SELECTIVE, cell.ci_high < 1),
        (7, Status.INDETERMINATE, True),
    )
    step, status, _ = next(condition for condition in steps if condition[2])
    flags = []
    if step < 3 and not cell.scorer_validated:
        flags.append("scorer-unvalidated")
    if step < 4 and not cell.archetype_aligned:
        flags.append("F5")
    return PaperStatus(status, step, tuple(flags))


def gate_columns(
    cell: PaperCell, parseable: bool | None, seed_cv: float | None
) -> tuple[bool | None, ...]:
    """Return, for each of GATE_COLUMNS, whether its gate passes.

    Parameters
    ----------
    cell : PaperCell
        The numbers of the cell.
    parseable : bool or None
        Whether answers could be parsed.
    seed_cv : float or None
        Standard deviation of CSR over seeds, divided by the mean of CSR.

    Returns
    -------
    tuple of bool or None
        One value for each column; None for a gate whose result is not known.
    """
    stable = None if seed_cv is None else seed_cv < SEED_CV
    return parseable, cell.g2(), cell.g3(), cell.ci_low < cell.ci_high, cell.n >= N_ITEMS_OK, stable
