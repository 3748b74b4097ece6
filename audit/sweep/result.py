"""The sweep's verdict on one model and benchmark, with its evidence (plain data).

The report renders it, the gate turns it into an exit code, and nothing else decides.
Rates, accuracies, gains and intervals are on the 0-1 scale.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from audit.json_types import attributes
from audit.statistics.information import InformationSlope
from audit.sweep.messages import ByRouters
from audit.sweep.texts import TEXTS
from audit.verdict.result import Calibration, Texts
from audit.verdict.run import CellResult, Decided, JudgedRun

if TYPE_CHECKING:  # the vocabulary is read by commands that have no statistics to load
    from audit.statistics.paired import CellOutcomes
    from audit.sweep.evidence import Evidence


class Verdict(StrEnum):
    """The seven verdicts, in the words of the report."""

    WITHHELD = "withheld"
    UNDERPOWERED = "underpowered"
    EXCESS = "excess"
    UNCONTROLLED = "gain_uncontrolled"
    EXCESS_EXPLAINED = "excess_explained_by_ensembling"
    BRITTLE = "brittle"
    NO_EXCESS = "no_excess_detected"


@dataclass(frozen=True)
class Decision(Decided[Verdict]):
    """routers: those at which noisy beats clean, or seems to. gate: the gate whose matter withholds it, where all gates
    passed."""

    routers: tuple[int, ...] = ()
    gate: str = ""


@dataclass(frozen=True)
class Effect:
    """The setting with the largest gain, and the mean over settings.

    gain: noisy - clean accuracy at `routers`. ci_low, ci_high: 95 % simultaneous interval over all r (it stays honest
    although the largest was picked). mean_*: the mean over r with its own 95 % interval.
    """

    routers: int
    gain: float
    ci_low: float
    ci_high: float
    mean_gain: float
    mean_ci_low: float
    mean_ci_high: float


@dataclass(frozen=True)
class Contrast:
    """One comparison of two settings: estimate = accuracy(first) - accuracy(second), paired by question.

    name: noisy_vs_clean, noisy_vs_direct, noisy_vs_ensemble, clean_vs_direct, these noisy ones with _without_leak,
    the same with _adverse and with _favourable, noisy_vs_clean_with_leak, noisy_vs_clean_unparsed_right,
    noisy_vs_clean_unparsed_wrong, ensemble_vs_clean, score_gap, difference_in_differences (and with _log_odds and
    _log_wrong).
    routers is null for a mean over r.
    p: one-sided for first > second. p_adjusted: after correction within its family; null where none was made.
    improve, degrade: questions that only the first, only the second answers right; whole numbers, or expected ones
    (fractions) where replicates were averaged; null for a mean over r.
    """

    name: str
    label: str
    routers: int | None
    n: int
    estimate: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    improve: float | None = None
    degrade: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Slope:
    """The paper's sensitivity (song2026, eq. 5): change of noisy accuracy per added router, with its 95 % interval.

    Limits are null with fewer than five clusters of questions.
    """

    estimate: float
    ci_low: float | None
    ci_high: float | None
    sentence: str


@dataclass(frozen=True)
class NoiseFloor:
    """Clean against clean through the same test, over every ordered pair of clean replicates.

    available is False with fewer than two, or none that share an answered question. rejection_rate: of the comparisons,
    one-sided. mean_absolute_gain: mean |gain| over the pairs (0-1).
    """

    available: bool
    replicates: int
    comparisons: int
    rejection_rate: float | None
    mean_absolute_gain: float | None
    sentence: str


@dataclass(frozen=True)
class SelfTest:
    """One fault injected into a copy of the run's outcomes.

    status: caught, missed, already_failing (the gate failed before the fault) or not_showable (these data cannot show
    this fault). caught is null for the last two.
    """

    model: str
    benchmark: str
    fault: str
    expected_gate: str
    status: str
    caught: bool | None
    detail: str


@dataclass(frozen=True, kw_only=True)
class SweepResult(CellResult):
    """The verdict on one model and benchmark, with its evidence.

    p_value: of "noisy beats every control at
    some r" (`Reading.adjusted`); p_adjusted: after Holm over the cells of the panel. largest_compatible_gain: 97.5 %
    upper limit of the gain, the largest over r. score: clean accuracy (the direct accuracy where it was run).
    share_beyond_gains: share of the score above chance that stays if the largest compatible gain is taken off; it says
    nothing of memory that helps intact and damaged questions alike; null when withheld or brittle. credibility: the
    same with the largest compatible score gap to held-out questions; null without a control benchmark.
    run_sd: standard deviation of a whole run's shift that every interval reckons with (its estimate and one standard
    error), of the controls, from run_sd_df comparisons of repeated runs; with 0 it is assumed. noisy_run_sd: the same
    of the noisy arm, as the tests of a gain reckon with it. unparsed_tipping: the largest odds ratio between unparsed
    answers and what the question's other answers predict up to which the verdict stands, "worst case" where any does;
    null without unparsed answers, or where nothing is found or cleared. worst_case_gain: largest gain over r with every
    unparsed noisy answer right and every other wrong; null where all were parsed. by_routers: what routers deleted,
    restored and added (song2026, eq. 10-14); information: whether a question is answered right more often where more of
    it arrives; both explore, and no verdict rests on them.
    """

    texts: ClassVar[Texts] = TEXTS

    decision: Decision
    evidence: Evidence | None = None  # of all figures; not in verdict.json
    effect: Effect | None = None
    p_value: float | None = None
    p_adjusted: float | None
    largest_compatible_gain: float | None = None
    run_sd: float = 0.0
    run_sd_df: int = 0
    noisy_run_sd: float = 0.0
    noisy_run_sd_df: int = 0
    unparsed_tipping: str | None
    worst_case_gain: float | None = None
    contrasts: tuple[Contrast, ...]
    controls_missing: tuple[str, ...]
    slope: Slope | None = None  # null where noisy was run at one r
    by_routers: tuple[ByRouters, ...] = ()
    information: InformationSlope | None = None
    noise_floor: NoiseFloor
    score: float | None
    chance: float
    share_beyond_gains: float | None
    credibility: float | None
    credibility_category: str  # high, moderate, low, none
    n_questions: int
    routers: tuple[int, ...]
    reading: str
    draws: str
    sample_sizes: dict[str, int]  # "arm r=R #replicate" -> answered questions
    states: dict[str, int]  # correct, wrong, unparsed, truncated, error, absent -> rows over all settings


@dataclass(frozen=True)
class Hypothesis:
    """H1 to H3 of the paper, each with one p-value and a plain sentence."""

    name: str
    pvalue: float | None
    effect: float | None
    sentence: str


_OWN = {f.name for f in fields(SweepResult)} - {f.name for f in fields(CellResult)} - {"evidence"} | {"sensitivity"}


@dataclass(frozen=True, kw_only=True)
class RunVerdict(JudgedRun["CellOutcomes", SweepResult]):
    """All judged cells of a run, or of several runs merged into one panel.

    paper: as the paper counts, over all replicates (model_summary, router_summary, cells). calibration: of the cell
    with the fewest questions.
    """

    audit = "sweep"
    schema_version = "2.3"

    paper: dict[str, list[dict[str, Any]]]
    hypotheses: tuple[Hypothesis, ...]
    calibration: Calibration | None
    self_test: tuple[SelfTest, ...]

    def own(self) -> dict[str, Any]:
        return attributes(self, "paper", "hypotheses", "calibration", "self_test")

    def own_of_cell(self, cell: CellOutcomes, result: SweepResult) -> dict[str, Any]:
        return attributes(result, *_OWN)
