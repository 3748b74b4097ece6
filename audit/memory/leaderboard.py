"""Judge every model of a panel against the others, and rank it by both scores (pure).

The scores are as measured and without memory. The judge is the memory audit's. A rank is among the
models that could be judged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.core.number_text import listed, percent
from audit.judge.record import Settings, judge_cells
from audit.judging.ladder import Grade
from audit.memory.analyse import JUDGE
from audit.memory.design import MemoryThresholds
from audit.memory.evidence import Name, measure
from audit.memory.gates import readable
from audit.memory.record import MemoryCell
from audit.memory.vocabulary import VERDICTS, MemoryResult, MemoryVerdict
from audit.statistics.chance import Limits
from audit.statistics.order_test import N_RESAMPLES

_NOT_JUDGED = (Grade.CHECK_FAILED, Grade.NOT_IDENTIFIED)
_FOUND = (Grade.FOUND_STRONG, Grade.FOUND_SUGGESTIVE)
# No verdict rests on what `describe` adds, and its cost grows with the square of the number of
# references.
_JUDGE = replace(
    JUDGE,
    measure=lambda cell, s, rng: measure(
        cell, s.thresholds, rng=rng, n_resamples=s.n_resamples, describe=False
    ),
)


@dataclass(frozen=True)
class Row:
    """One model of a leaderboard. Scores are shares (0-1), the gap is in points.

    without: None if the model could not be judged; `why` then states the obstacle. at_most: only
    the upper limit of `without` may be quoted. gap: beyond the references', with its 95 % interval.
    adjusted: its p after Holm over all models; for a gap of unknown cause, p without the guard
    against that cause. rank, rank_without: among the models with both
    scores, 1 the best; ties share the better rank. references: number of models that the model was
    judged against.
    """

    model: str
    score: Limits | None
    without: Limits | None = None
    at_most: bool = False
    gap: tuple[float, float, float] | None = None
    pvalue: float | None = None
    adjusted: float | None = None
    verdict: MemoryVerdict = MemoryVerdict.NOT_IDENTIFIED
    grade: Grade = Grade.NOT_IDENTIFIED
    why: str = ""
    references: int = 0
    is_reference: bool = False
    rank: int | None = None
    rank_without: int | None = None

    @property
    def found(self) -> bool:
        """Return whether the model has a finding."""
        return self.grade in _FOUND

    @property
    def doubtful(self) -> bool:
        """Return whether the gap stands out, and another cause than memory is not excluded."""
        return self.grade == Grade.CAUSE_UNKNOWN

    @property
    def moved(self) -> int | None:
        """Return by how many places the model falls (negative: rises) without memory."""
        return (
            None
            if self.rank is None or self.rank_without is None
            else self.rank_without - self.rank
        )

    @property
    def word(self) -> str:
        """Return the display name of the verdict."""
        return VERDICTS[self.verdict].name


@dataclass(frozen=True)
class Leaderboard:
    """Hold the rows of a leaderboard, the best score first.

    `n` and `n_held_out` count items. `chosen`: whether the user named the references.
    """

    benchmark: str
    n: int
    n_held_out: int
    rows: tuple[Row, ...]
    chosen: bool
    chance: float = 0.0

    @property
    def judged(self) -> tuple[Row, ...]:
        """Return the rows that have a rank."""
        return tuple(row for row in self.rows if row.rank is not None)

    @property
    def found(self) -> tuple[Row, ...]:
        """Return the judged rows with a finding."""
        return tuple(row for row in self.judged if row.found)

    @property
    def doubtful(self) -> tuple[Row, ...]:
        """Return the judged rows whose gap has an unknown cause."""
        return tuple(row for row in self.judged if row.doubtful)

    @property
    def undecided(self) -> tuple[Row, ...]:
        """Return the judged rows whose data neither show a gap nor exclude one."""
        return tuple(row for row in self.judged if row.grade == Grade.UNDECIDED)

    @property
    def spoilt(self) -> tuple[Row, ...]:
        """Return the models with a finding that served as references of others, whose memory they
        may hide.
        """
        return tuple(row for row in (*self.found, *self.doubtful) if row.is_reference)

    @property
    def blind_below(self) -> float | None:
        """Return the gap in points that a gap must exceed to be significant for half of the judged
        models.

        It is the median half-width of the 95 % intervals; None without a gap.
        """
        widths = []
        for row in self.judged:
            if row.gap is not None:
                _, low, high = row.gap
                widths.append((high - low) / 2)
        return float(np.median(widths)) if widths else None


def leaderboard(
    cells: Sequence[MemoryCell],
    *,
    seed: int = 0,
    chosen: bool = False,
    unjudged: Iterable[Row] = (),
) -> Leaderboard:
    """Judge the cells of a panel, one for each model, and rank them.

    Parameters
    ----------
    cells : sequence of MemoryCell
        One for each model, all of the same items; `references` of each are the models it is judged
        against.
    seed : int
        Seed of the permutations.
    chosen : bool
        Whether the user named the references; otherwise every other model is one.
    unjudged : iterable of Row
        Models that lack too many items to be a cell.

    Returns
    -------
    Leaderboard
        The rows, the best score first.
    """
    limits = MemoryThresholds()
    settings = Settings(limits, seed, N_RESAMPLES)
    read = [readable(cell, limits) for cell in cells]
    serving: set[str] = set()
    for cell in read:
        serving.update(reference.model for reference, _ in cell.references)
    results = judge_cells(_JUDGE, read, settings)
    rows = [_row(cell, result, serving) for cell, result in zip(read, results, strict=True)]
    first = read[0]
    rows = sorted([*_ranked(rows), *unjudged], key=_by_score)
    held_out = first.fresh.n if first.fresh else 0
    return Leaderboard(
        first.benchmark, first.published.n, held_out, tuple(rows), chosen, first.published.chance
    )


def _by_score(row: Row) -> tuple[float, str]:
    return (-row.score.estimate if row.score else np.inf, row.model)


def _row(cell: MemoryCell, result: MemoryResult, serving: set[str]) -> Row:
    gap, estimate = result.evidence.indicator(Name.GAP), result.without.found
    refused = result.grade in _NOT_JUDGED or estimate is None
    doubtful = result.grade == Grade.CAUSE_UNKNOWN
    known = gap.estimate is not None and gap.low is not None and gap.high is not None
    return Row(
        model=cell.model,
        score=result.without.score,
        without=None if refused or estimate is None else estimate.without,
        at_most=estimate is not None and estimate.at_most,
        gap=(gap.estimate, gap.low, gap.high) if known else None,  # type: ignore[arg-type]
        pvalue=gap.unguarded if doubtful else gap.pvalue,
        adjusted=gap.unguarded_adjusted if doubtful else gap.adjusted,
        verdict=result.verdict,
        grade=result.grade,
        why=_why(result) if refused else "",
        references=len(cell.references),
        is_reference=cell.model in serving,
    )


def _why(result: MemoryResult) -> str:
    """Return why a model has no score without memory: the checks that failed, or what the data
    lack.
    """
    reasons = result.reasons if result.grade in _NOT_JUDGED else ()
    return " ".join(reasons) or result.without.sentence


def _ranked(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with both ranks of those that have both scores."""
    judged = []
    for row in rows:
        if row.score is not None and row.without is not None:
            judged.append(row)
    by_score = _ranks(judged, lambda row: row.score)
    by_without = _ranks(judged, lambda row: row.without)
    ranked = []
    for row in rows:
        ranked.append(
            replace(row, rank=by_score.get(row.model), rank_without=by_without.get(row.model))
        )
    return ranked


def _ranks(rows: Sequence[Row], of: Callable[[Row], Limits | None]) -> Mapping[str, int]:
    values = {}
    for row in rows:
        score = of(row)
        if score is not None:
            values[row.model] = score.estimate
    ordered = sorted(values.values(), reverse=True)
    return {model: 1 + ordered.index(value) for model, value in values.items()}


def sentence(board: Leaderboard) -> str:
    """Return the result of the leaderboard in a few sentences with their numbers.

    Parameters
    ----------
    board : Leaderboard
        The ranked rows.

    Returns
    -------
    str
        Names the model that falls furthest without memory if its gap stands out. If every other
        model is a reference and most models have no decision, their number and its cause come
        first.
    """
    n, on = len(board.judged), board.benchmark
    if not n:
        return f"None of {len(board.rows)} models could be judged on {on}."
    findings, open_gaps, unsure = len(board.found), len(board.doubtful), len(board.undecided)
    first = ""
    if not board.chosen and board.blind_below is not None and 2 * unsure > n:
        first = (
            f"No decision for {unsure} of {n} judged models on {on}: every model is a reference of the others, "
            f"so gaps below {board.blind_below:.1f} points are hidden in half of them. --references names clean ones. "
        )
    if not findings and not open_gaps:
        rest = f" For {unsure} of them the data are too few to exclude one." if unsure else ""
        none = f"No gap shows in {n} judged models on {on} beyond what the references explain."
        return f"{first}{none}" if first else f"{none}{rest}"
    counts = [f"Of {n} judged models {findings} score higher on {on} than the references explain"]
    if open_gaps:
        counts.append(f"in {open_gaps} a gap stands out whose cause is unknown")
    summary = f"{first}{'; '.join(counts)}."
    row = max(
        board.found or board.doubtful,
        key=lambda candidate: (candidate.moved or 0, candidate.gap or (0.0,)),
    )
    if row.score is None or row.without is None:
        return summary
    falls = f" and fall from rank {row.rank} to {row.rank_without}" if (row.moved or 0) > 0 else ""
    known = f"{percent(row.without.estimate)} ({percent(row.without.low)} to {percent(row.without.high)})"
    if row.at_most:
        known = f"at most {percent(row.without.high)}"
    score = f"{row.model} scores {percent(row.score.estimate)}."
    return f"{summary} {score} Without memory it would score {known}{falls}."


def cautions(board: Leaderboard) -> tuple[str, ...]:
    """Return what the leaderboard cannot show; the first sentence is about its references."""
    spoilt = listed(row.model for row in board.spoilt)
    first = (
        "Every other model served as a reference. A contaminated reference hides the memory of "
        "other models; --references names clean ones."
    )
    if board.blind_below is not None:
        first = f"Low power: a gap below {board.blind_below:.1f} points does not stand out in half of the "
        first += (
            "models, before the correction for the number of models. Every other model served as a "
            "reference, and a contaminated reference hides the memory of other models. "
            "--references names clean ones."
        )
    if board.chosen:
        first = (
            "The named references are assumed to be clean. A contaminated reference hides the "
            "memory of other models."
        )
    if spoilt:
        first += f" References with a gap of their own: {spoilt}. Name clean references, and judge again."
    why: tuple[str, ...] = ()
    if board.doubtful:
        why = (
            "A gap of unknown cause may come from held-out items that are newer, and so harder for "
            "this model alone. Its p is the p of the gap. Dates can exclude this cause. Example: "
            "--held-out-date 2026-05 --released MODEL=2025-12",
        )
    return (
        first,
        *why,
        "A gap can have another cause than memory, such as training on items of the benchmark's kind.",
        "Ranks compare the estimates. If the intervals of two models overlap, the order of these "
        "models is not known.",
        "A model without a finding may still have memory: its interval shows how much.",
    )
