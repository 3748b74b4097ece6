"""Apply the status algorithm of li2026, section 3, exactly (pure). Ours is in
`audit.validity.decide`.

Conditions are tested from the top, and the first that holds decides. The paper's list is not total:
a cell that passes every gate and whose interval of CSR holds 1 has no status; here it is
`indeterminate`.
"""

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from audit.statistics.selectivity import csr


class Status(StrEnum):
    """Name the paper's statuses, and the one that it leaves out."""

    INELIGIBLE_F1 = "ineligible-F1"
    FAILED = "failed-G2-G4"
    SCORER_UNVALIDATED = "scorer-unvalidated"
    INELIGIBLE_F5 = "ineligible-F5"
    EXPLORATORY = "exploratory"
    SELECTIVE = "confirmatory-selective"
    NON_SELECTIVE = "confirmatory-non-selective"
    INDETERMINATE = "indeterminate"


# Appendix G: status -> raw verdict, bucket, step of section 3.
APPENDIX_G: dict[Status, tuple[str, str, int]] = {
    Status.INELIGIBLE_F1: ("not_applicable", "ineligible (F1)", 1),
    Status.FAILED: ("inconclusive", "failed G2–G4", 2),
    Status.SCORER_UNVALIDATED: ("uninterpretable_scorer", "scorer-unvalidated", 3),
    Status.INELIGIBLE_F5: ("attribute_family_mismatch", "ineligible (F5)", 4),
    Status.EXPLORATORY: ("selective or non_selective (G5, G6 proposed)", "exploratory", 5),
    Status.SELECTIVE: ("selective (G5, G6 implemented)", "confirmatory-selective", 6),
    Status.NON_SELECTIVE: ("non_selective (G5, G6 implemented)", "confirmatory-non-selective", 6),
    Status.INDETERMINATE: (
        "none: the interval holds 1",
        "indeterminate (the paper has no status for it)",
        7,
    ),
}


def raw_words(status: Status) -> list[str]:
    """Return the raw verdicts that Appendix G writes for a status."""
    return re.split(r" \(|:", APPENDIX_G[status][0])[0].split(" or ")


@dataclass(frozen=True, slots=True)
class PaperThresholds:
    """Define the thresholds of Table 1 and section 3. All are engineering choices (Appendix E)."""

    g1_noop: float = 0.20  # share of edits that change nothing the scorer reads must stay below
    g2_standard_errors: float = 2.0
    g3_denominator: float = 0.02
    epsilon: float = 0.01


PAPER = PaperThresholds()
# Appendix G: the raw columns of cell_validity.csv. It prints no figure for enough items: 200 is
# what it asked.
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
    """Hold what the algorithm reads of one cell. Scores and deltas in 0-1, over n items.

    Attributes
    ----------
    model, benchmark : str
        Names.
    score, n, baseline : float, int, float
        Score of the originals, number of items, and the trivial score of G2.
    delta_fmt, delta_sem, delta_attr : float
        Changes of score by family.
    ci_low, ci_high : float
        Interval of CSR.
    instrumented : bool
        True if G1 can be evaluated on what the scorer consumes.
    noop : float or None
        Share of format edits that change nothing there, None if not measured.
    paired : bool
        True if items were resampled with all their edits (G4).
    scorer_validated, archetype_aligned, g5, g6 : bool
        As disclosed; archetype_aligned means not F5.
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
        """Return sqrt(s (1 - s) / n), as the paper takes it (of the model, not of a guesser)."""
        return math.sqrt(self.score * (1 - self.score) / self.n)

    @property
    def z(self) -> float:
        """Return (score - baseline) / standard error; for a score of 0 or 1, infinite with its
        sign."""
        gap = self.score - self.baseline
        return gap / self.standard_error if self.standard_error else math.copysign(math.inf, gap)

    @property
    def denominator(self) -> float:
        return max(self.delta_fmt, self.delta_sem)

    def g2(self, t: PaperThresholds = PAPER) -> bool:
        return self.score >= self.baseline + t.g2_standard_errors * self.standard_error

    def g3(self, t: PaperThresholds = PAPER) -> bool:
        return self.denominator >= t.g3_denominator

    def csr(self, epsilon: float = PAPER.epsilon) -> float:
        return csr(self.delta_attr, self.delta_fmt, self.delta_sem, epsilon)


@dataclass(frozen=True, slots=True)
class PaperStatus:
    """Hold a status of the paper.

    Attributes
    ----------
    status : Status
        The status.
    step : int
        Step (1-6) that decided; 7 stands for the case that no step covers.
    flags : tuple of str
        Conditions of later steps that hold as well, which the paper names in prose.
    """

    status: Status
    step: int
    flags: tuple[str, ...]


def paper_status(cell: PaperCell, thresholds: PaperThresholds = PAPER) -> PaperStatus:
    """Return the status of the first condition that holds, top to bottom.

    Parameters
    ----------
    cell : PaperCell
        The cell.
    thresholds : PaperThresholds
        Thresholds.

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
    flags = [
        *["scorer-unvalidated"] * (step < 3 and not cell.scorer_validated),
        *["F5"] * (step < 4 and not cell.archetype_aligned),
    ]
    return PaperStatus(status, step, tuple(flags))


def gate_columns(
    cell: PaperCell, parseable: bool | None, seed_cv: float | None
) -> tuple[bool | None, ...]:
    """Return whether each of GATE_COLUMNS passes.

    Parameters
    ----------
    cell : PaperCell
        The cell.
    parseable : bool or None
        Whether answers were readable.
    seed_cv : float or None
        sd / mean of CSR over seeds.

    Returns
    -------
    tuple of bool or None
        None if it is not known.
    """
    stable = None if seed_cv is None else seed_cv < SEED_CV
    return parseable, cell.g2(), cell.g3(), cell.ci_low < cell.ci_high, cell.n >= N_ITEMS_OK, stable
