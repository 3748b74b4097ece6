"""What the verdict is made of, and its one JSON form (`verdict.schema.json` describes it).

Everything is plain data: the report renders it, the gate turns it into an exit code, and nothing else decides.
Rates, accuracies, gains and intervals are on the 0-1 scale. A number that could not be computed is null, never 0.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from audit.records import CellRows

SCHEMA_VERSION = "2.0"
SIGNIFICANT_DIGITS = 6  # of every float in verdict.json: fixed, so that the same shards give the same bytes
MAX_ITEMS = 50  # ids listed behind a gate; `item_count` is the full number


class Verdict(StrEnum):
    """The seven verdicts, in the words of the report."""

    WITHHELD = "withheld"
    UNDERPOWERED = "underpowered"
    EXCESS = "excess"
    UNCONTROLLED = "gain_uncontrolled"
    EXCESS_EXPLAINED = "excess_explained_by_ensembling"
    BRITTLE = "brittle"
    NO_EXCESS = "no_excess_detected"


class Status(StrEnum):
    """What a gate says."""

    PASS = "pass"  # noqa: S105 - a gate's status, not a password
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True)
class Gate:
    """One check of whether the measurement can carry a verdict.

    number is compared with threshold; detail says in one sentence what was found; advice what to do when it fails.
    withholds: a failure withholds the verdict (an alarm that does not withhold is still printed).
    items: ids of the questions behind it (the first MAX_ITEMS, sorted); item_count: how many there are in all.
    numbers: the further figures that the gate measured, by name.
    """

    name: str
    status: Status
    number: float | None
    threshold: float | None
    source: str
    detail: str
    advice: str = ""
    withholds: bool = True
    items: tuple[str, ...] = ()
    item_count: int = 0
    numbers: dict[str, float | None] = field(default_factory=dict)


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
    the same with _adverse, noisy_vs_clean_favourable, noisy_vs_clean_with_leak, noisy_vs_clean_unparsed_right,
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
    estimate: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
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
    """Clean against clean through the same tests. available is False with fewer than two clean replicates."""

    available: bool
    replicates: int
    comparisons: int
    rejection_rate: float | None
    mean_absolute_gain: float | None
    sentence: str


@dataclass(frozen=True)
class Calibration:
    """The nearest calibrated design and how often this very procedure was wrong there."""

    design: dict[str, float | int | str]
    rates: dict[str, float | None]
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


@dataclass(frozen=True)
class CellVerdict:
    """The verdict on one model and benchmark, with its evidence.

    headline: one plain sentence. reasons: why this verdict and not another. p_value: smallest over r of the largest
    max-statistic p over the controls; p_adjusted: after Holm over the cells of the panel. largest_compatible_gain:
    97.5 % upper limit of the gain, the largest over r. score: clean accuracy (the direct accuracy where it was run).
    share_beyond_gains: share of the score above chance that stays if the largest compatible gain is taken off; it says
    nothing of memory that helps intact and damaged questions alike; null when withheld or brittle. credibility: the
    same with the largest compatible score gap to fresh questions; null without a control benchmark.
    run_sd: standard deviation of a whole run's shift that every test and interval reckons with (its estimate and one
    standard error), from run_sd_df comparisons of repeated runs; with 0 it is assumed to be 0.
    """

    model: str
    benchmark: str
    verdict: Verdict
    headline: str
    reasons: tuple[str, ...]
    what_to_do: tuple[str, ...]
    effect: Effect | None
    p_value: float | None
    p_adjusted: float | None
    largest_compatible_gain: float | None
    run_sd: float
    run_sd_df: int
    gates: tuple[Gate, ...]
    contrasts: tuple[Contrast, ...]
    controls_missing: tuple[str, ...]
    cannot_exclude: tuple[str, ...]
    slope: Slope | None  # null where noisy was run at one r
    noise_floor: NoiseFloor
    calibration: Calibration | None
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
    watermark: str = ""  # "incomplete, 512 of 1,000 answers": the verdict is over what is there


@dataclass(frozen=True)
class Hypothesis:
    """H1 to H3 of the paper, each with one p-value and a plain sentence."""

    name: str
    pvalue: float | None
    effect: float | None
    sentence: str


@dataclass(frozen=True)
class RunVerdict:
    """All cells of a run or of several runs merged into one panel; `to_json` is verdict.json."""

    seed: int
    n_resamples: int
    runs: tuple[dict[str, Any], ...]  # fingerprint and models of each run, as the caller gives them
    thresholds: dict[str, float]
    cells: tuple[CellVerdict, ...]
    paper: dict[str, list[dict[str, Any]]]  # as the paper counts, replicate 0: model_summary, router_summary, cells
    hypotheses: tuple[Hypothesis, ...]
    calibration: Calibration | None  # of the cell with the fewest questions
    self_test: tuple[SelfTest, ...]
    schema_version: str = SCHEMA_VERSION
    rows: tuple[CellRows, ...] = ()  # of every model and benchmark that the runs asked for, those without a row too

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: enums as strings, tuples as lists, floats rounded, NaN and infinities as null."""
        plain = json_ready(self)
        assert isinstance(plain, dict)  # noqa: S101 - narrows the type for mypy
        return plain

    def to_json(self) -> str:
        """The bytes of verdict.json; no clock, no paths."""
        return json_text(self.to_dict())


def points(share: float) -> str:
    """0.051 -> "5.1 points"."""
    value = f"{100 * share:.1f}"
    return f"{value} point{'' if value == '1.0' else 's'}"


def rounded(value: float) -> float | None:
    """A float as verdict.json prints it: SIGNIFICANT_DIGITS digits, no negative zero; None for NaN or infinity."""
    if not math.isfinite(value):
        return None
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") + 0.0


def json_text(value: Any) -> str:
    """What `json_ready` gave as the bytes of a file: sorted keys, two spaces, a final newline."""
    return json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def json_ready(value: Any) -> Any:
    """JSON types only: enums by value, dataclasses and arrays by content, floats rounded, NaN and infinities null."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, str):
        return value
    if hasattr(value, "__dataclass_fields__"):
        return {name: json_ready(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {str(k): json_ready(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        return [json_ready(v) for v in items]
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a numpy scalar
        return json_ready(value.item())
    if hasattr(value, "tolist"):
        return json_ready(value.tolist())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return rounded(value)
    raise TypeError(f"verdict.json cannot hold a {type(value).__name__}: {value!r}.")
