"""Define the seven verdicts, the results of a cell and of a run, and their display texts.

The page, the charts, the `audit gate` command and the headline use the same entry for each verdict
and each gate. Rates, accuracies, gains and intervals are 0-1.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from audit.core.json_types import attributes
from audit.judging.document import Cell, Section
from audit.judging.instrument import Indicator, Instrument, Measured
from audit.judging.ladder import Grade
from audit.judging.result import Calibration, Texts
from audit.judging.run import CellResult, Decided, JudgedRun
from audit.judging.vocabulary import (
    ANSWER_GATES,
    ANSWER_LABELS,
    NOT_IDENTIFIED,
    UNDERPOWERED,
    WITHHELD,
    GateWord,
    VerdictWord,
)
from audit.statistics.information import InformationSlope
from audit.sweep.messages import ByRouters
from audit.sweep.texts import TEXTS

if TYPE_CHECKING:  # Commands that import this module must start without loading statistics.
    from audit.statistics.paired import CellOutcomes
    from audit.sweep.evidence import Evidence
    from audit.sweep.record import NoiseFloor


class Verdict(StrEnum):
    """Name the seven verdicts."""

    WITHHELD = "withheld"
    UNDERPOWERED = "underpowered"
    EXCESS = "excess"
    UNCONTROLLED = "gain_uncontrolled"
    EXCESS_EXPLAINED = "excess_explained_by_ensembling"
    NOT_IDENTIFIED = "not_identified"
    NO_EXCESS = "no_excess_detected"


@dataclass(frozen=True)
class Decision(Decided[Verdict]):
    """Hold the verdict on a cell.

    Attributes
    ----------
    routers : tuple of int
        The router counts at which the noisy arm exceeds the clean arm significantly, or seems to
        exceed it.
    gate : str
        The name of a gate that passed but still withholds the verdict, because the gain depends on
        the property that this gate checks. Empty if there is no such gate.
    """

    routers: tuple[int, ...] = ()
    gate: str = ""


@dataclass(frozen=True)
class Effect:
    """Hold the largest gain over r, and the mean gain over r.

    A gain is the noisy accuracy minus the clean accuracy. The interval of the largest gain is
    simultaneous over all router counts r.
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
    """Hold a comparison of two conditions.

    The effect is the accuracy of the first condition minus the accuracy of the second condition.

    Attributes
    ----------
    name : str
        A name of `audit.sweep.contrasts`, such as noisy_vs_clean.
    routers : int or None
        The router count; null for a mean over r.
    n : int
        The number of questions, which are the same in both conditions.
    improve, degrade : float or None
        How many questions are right only under the first condition, and how many only under the
        second condition. The numbers can be fractions if replicates were averaged. They are null
        for a mean over r.
    p : float
        The one-sided p-value for a larger accuracy under the first condition.
    p_adjusted : float or None
        The p-value after correction within its family; null without a correction.
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
    """Hold the change of noisy accuracy per added router (song2026, eq. 5).

    The 95 % interval is null with fewer than five clusters of questions.
    """

    estimate: float
    ci_low: float | None
    ci_high: float | None
    sentence: str


@dataclass(frozen=True)
class SelfTest:
    """Hold the result of one injected fault of the self-test.

    Attributes
    ----------
    expected_gate : str
        The gate that must catch the fault.
    status : str
        caught, missed, already_failing (the gate failed before the fault), or not_showable (these
        data cannot show it).
    caught : bool or None
        Whether the gate caught the fault. Null for already_failing and not_showable.
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
    """Hold the verdict on one model and benchmark, with its figures.

    Attributes
    ----------
    p_value : float or None
        The p-value of the test that the noisy arm exceeds every control at some r
        (`Reading.adjusted`).
    p_adjusted : float or None
        This p-value after Holm's correction over the panel.
    largest_compatible_gain : float or None
        The largest of the one-sided 95 % upper limits of the gain at each r.
    run_sd, run_sd_df : float, int
        The standard deviation of shifts of whole runs, and its degrees of freedom. Every interval
        allows for such shifts. The standard deviation is estimated from run_sd_df comparisons of
        repeated controls. If run_sd_df is 0, it is assumed.
    noisy_run_sd, noisy_run_sd_df : float, int
        The standard deviation and its degrees of freedom for the noisy arm, as the tests use them.
    unparsed_tipping : str or None
        The largest odds ratio (between unparsed answers and their prediction) at which the verdict
        remains the same. "worst case" if the verdict never changes; null if all answers were
        parsed.
    worst_case_gain : float or None
        The largest gain over r if every unparsed noisy answer is right and every other unparsed
        answer is wrong. Null if all answers were parsed.
    by_routers : tuple of ByRouters
        The words that routers deleted, restored and added (song2026, eq. 10-14). No verdict uses
        them.
    information : InformationSlope or None
        How the accuracy depends on the share of words that reached the worker. No verdict uses it.
    score : float or None
        The accuracy of the direct arm if it was run, otherwise of the clean baseline.
    share_beyond_gains : float or None
        The share of the score above chance that remains after the largest compatible gain is
        subtracted. Null if the verdict is withheld.
    credibility : float or None
        The share of the score above chance that remains after the largest compatible gap to
        held-out questions is subtracted. Null without a control benchmark.
    """

    texts: ClassVar[Texts] = TEXTS

    decision: Decision
    evidence: Evidence | None = None  # the source of the figures, which is not in verdict.json
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
    slope: Slope | None = None  # null if the noisy arm was run at one r only
    by_routers: tuple[ByRouters, ...] = ()
    information: InformationSlope | None = None
    noise_floor: NoiseFloor
    score: float | None
    chance: float
    share_beyond_gains: float | None
    credibility: float | None
    credibility_category: str  # high, moderate, low or none
    n_questions: int
    routers: tuple[int, ...]
    reading: str
    draws: str
    sample_sizes: dict[str, int]  # the answered questions by setting ("arm r=R #replicate")
    # the number of rows by state: correct, wrong, unparsed, truncated, error, absent
    states: dict[str, int]


@dataclass(frozen=True)
class Hypothesis:
    """Hold one of the paper's hypotheses H1 to H3, with its p-value and a sentence."""

    name: str
    pvalue: float | None
    effect: float | None
    sentence: str


_SHARED = {field.name for field in fields(CellResult)} | {"evidence"}
_EXTRA = {f.name for f in fields(SweepResult) if f.name not in _SHARED} | {"sensitivity"}


@dataclass(frozen=True, kw_only=True)
class RunVerdict(JudgedRun["CellOutcomes", SweepResult]):
    """Hold all judged cells of one panel.

    Attributes
    ----------
    paper : dict
        The paper's tables over all replicates (model_summary, router_summary, cells).
    hypotheses : tuple of Hypothesis
        The paper's hypotheses H1 to H3.
    calibration : Calibration or None
        The error rates of the design of the cell with the fewest questions.
    self_test : tuple of SelfTest
        The injected faults of all cells.
    """

    audit = "sweep"
    schema_version = "2.4"

    paper: dict[str, list[Any]]
    hypotheses: tuple[Hypothesis, ...]
    calibration: Calibration | None
    self_test: tuple[SelfTest, ...]

    def extra_fields(self) -> dict[str, Any]:
        """Return the fields that a sweep adds to a run in verdict.json."""
        return attributes(self, "paper", "hypotheses", "calibration", "self_test")

    def extra_cell_fields(self, cell: CellOutcomes, result: SweepResult) -> dict[str, Any]:
        """Return the fields that a sweep adds to a cell in verdict.json."""
        return attributes(result, *_EXTRA)


# Charts and counts keep this order, which begins with the worst verdict.
VERDICTS: dict[Verdict, VerdictWord] = {
    Verdict.EXCESS: VerdictWord(
        "Excess",
        "▲",
        "^",
        "The model scores higher on damaged questions. Chance, the original question and "
        "repetition do not explain this gain. The score may rest on memory of the exam.",
        Grade.FOUND_STRONG,
        plain="Scores higher on damaged questions",
    ),
    Verdict.UNCONTROLLED: VerdictWord(
        "Gain, uncontrolled",
        "◆",
        "D",
        "The score rose under noise beyond chance, but a control that could explain the gain was "
        "not run, or is not shown to gain less. The controls are the original question, as many routers that "
        "delete nothing, a second noisy run, another model that reads the same messages, and "
        "held-out questions.",
        Grade.CAUSE_UNKNOWN,
        plain="Scores higher on damaged questions; another cause is possible",
    ),
    Verdict.WITHHELD: WITHHELD,
    Verdict.NOT_IDENTIFIED: replace(
        NOT_IDENTIFIED, plain="This run cannot show a gain that matters"
    ),
    Verdict.UNDERPOWERED: UNDERPOWERED,
    Verdict.EXCESS_EXPLAINED: VerdictWord(
        "Excess explained by ensembling",
        "■",
        "s",
        "The score rose under noise, and as many intact messages help about as much. Repetition "
        "explains the gain without memory.",
        Grade.CLEARED,
        plain="Gains from repetition, not from damage",
    ),
    Verdict.NO_EXCESS: VerdictWord(
        "No excess detected",
        "●",
        "o",
        "Damage raises the score by less than the smallest effect that matters (limit stated). "
        "This test cannot see memory that helps intact and damaged questions alike.",
        Grade.CLEARED,
        plain="Damage does not raise the score",
    ),
}

GATES: dict[str, GateWord] = {
    **ANSWER_GATES,
    "pairing": GateWord("Same questions everywhere", "the questions do not match between the arms"),
    "noise_floor": GateWord(
        "Repeated runs agree", "repeated clean runs differ by more than chance"
    ),
    "clean_fidelity": GateWord(
        "Faithful clean relay", "the clean routers do not transmit the whole question"
    ),
    "manipulation_reached_worker": GateWord(
        "Noise reaches the model", "the noisy messages did not reach the model"
    ),
    "answer_leak": GateWord("Messages free of the answer", "the routers stated the answers"),
}

# These are the display names of the arms in tables, lists and filters.
ARMS = {
    "direct": "direct",
    "forward_full": "clean",
    "noisy_rewrite": "noisy",
    "deleted": "words deleted",
}

# These are the display names of the thresholds.
LABELS = {
    **ANSWER_LABELS,
    "alpha": "Error rate of an excess, family-wise",
    "power": "Power at which a detectable gain is stated",
    "effect_of_interest": "Smallest effect that matters",
    "clean_loss_max": "Faithful clean relay: largest loss against direct",
    "lossy_share_max": "Faithful clean relay: largest share of messages that drop a part",
    "noop_share_max": "Noise reaches the model: largest share of unchanged prompts",
    "leak_share_max": "Messages free of the answer: largest share that states the answer",
    "run_sd_plausible": "Largest plausible shift of a whole run, standard deviation",
    "finding_questions_min": "Least number of questions for a finding",
    "pairing_z_min": "Same questions everywhere: standard errors needed",
    "pairing_questions_min": "Same questions everywhere: fewest questions",
    "fall_noted": "Mean fall under noise from which a note is added",
    "credibility_high": "Credibility called high from",
    "credibility_moderate": "Credibility called moderate from",
}


def severity(verdict: Verdict, gain: float, name: str) -> tuple[int, float, str]:
    """Return the sort key of a model in charts and tables.

    Parameters
    ----------
    verdict : Verdict
        The verdict. The worst verdict comes first.
    gain : float
        The gain. Within a verdict, the largest gain comes first.
    name : str
        The model's name, which breaks ties.

    Returns
    -------
    tuple
        The key, for ascending order.
    """
    return list(VERDICTS).index(verdict), -gain, name


class LargestGain(Section):
    """Hold the fields of `Effect` that other programs read."""

    gain: float | None
    ci_low: float | None
    ci_high: float | None
    mean_gain: float | None
    mean_ci_low: float | None
    mean_ci_high: float | None


class SweepCell(Cell):
    """Hold a cell of the sweep's verdict.json. The score is 0-1."""

    score: float | None
    effect: LargestGain | None


def measured(cell: SweepCell) -> Measured:
    """Return the main number of a cell: the largest gain under noise, with its simultaneous
    interval.

    Parameters
    ----------
    cell : SweepCell
        A cell of verdict.json.

    Returns
    -------
    Measured
        The gain, and the rate of false positives of its design.
    """
    name = "largest gain under noise"
    alarms = cell.rates.get("clean_any_excess", cell.rates.get("clean_excess"))
    if cell.effect is None:
        return Measured(name, None, None, None, alarms)
    return Measured(name, cell.effect.gain, cell.effect.ci_low, cell.effect.ci_high, alarms)


def tracked(cell: SweepCell) -> tuple[Indicator, ...]:
    """Return the metrics that the registry compares between runs: the score, and the mean gain as
    the excess.

    Parameters
    ----------
    cell : SweepCell
        A cell of verdict.json.

    Returns
    -------
    tuple of Indicator
        The metrics. The gain at the best router count is not tracked, since that count may differ
        between runs.
    """
    effect, excess = cell.effect, Indicator("excess", None)
    if effect is not None:
        excess = Indicator("excess", effect.mean_gain, effect.mean_ci_low, effect.mean_ci_high)
    return (Indicator("score", cell.score), excess)


INSTRUMENT = Instrument(
    "sweep", "the router-worker sweep", frozenset({"noise"}), measured, tracked, cell=SweepCell
)
