"""Judge every model of a panel against the other models, and rank the models by score.

There are two rankings: by the score on the benchmark, and by the score without memory. Only models
that could be judged are ranked. The code of the memory audit judges the models. This module does no
I/O.
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

NAMED_MAX = 3  # largest number of models that the sentence names
_NOT_JUDGED = (Grade.CHECK_FAILED, Grade.NOT_IDENTIFIED)
_FOUND = (Grade.FOUND_STRONG, Grade.FOUND_SUGGESTIVE)
# A leaderboard omits the statistics of `describe`. No verdict depends on them, and their cost grows
# with the square of the number of references.
_JUDGE = replace(
    JUDGE,
    measure=lambda cell, s, rng: measure(
        cell, s.thresholds, rng=rng, n_resamples=s.n_resamples, describe=False
    ),
)


@dataclass(frozen=True)
class Row:
    """Hold the row of one model. Scores are fractions (0-1), and the gap is in percentage points.

    Attributes
    ----------
    model : str
        Name of the model.
    score : Limits or None
        Accuracy on the benchmark with its 95 % interval.
    without : Limits or None
        The score without memory; None if the model could not be judged.
    at_most : bool
        Whether only the upper limit of the score without memory may be quoted.
    gap : tuple of float or None
        The gap to held-out items minus the gap of the references, with its 95 % interval.
    pvalue : float or None
        p-value of the gap. If the cause of the gap is unknown, the p-value without the guard
        against causes other than memory.
    adjusted : float or None
        `pvalue` after Holm's correction over all models.
    verdict, grade : MemoryVerdict, Grade
        The result of the memory audit.
    why : str
        Why the model could not be judged; empty if it was judged.
    references : int
        Number of models that the model was judged against.
    is_reference : bool
        Whether other models were judged against this model.
    rank, rank_without : int or None
        Ranks by `score` and by `without` among the models with both scores. Rank 1 is the best.
        Models with equal scores share the better rank.
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
        """Return whether the verdict on the model is a finding of memory."""
        return self.grade in _FOUND

    @property
    def doubtful(self) -> bool:
        """Return whether the gap is significant but may have a cause other than memory."""
        return self.grade == Grade.CAUSE_UNKNOWN

    @property
    def moved(self) -> int | None:
        """Return how many places the model loses in the ranking without memory.

        Returns
        -------
        int or None
            The number of places, negative if the model gains places; None if it has no rank.
        """
        if self.rank is None or self.rank_without is None:
            return None
        return self.rank_without - self.rank

    @property
    def word(self) -> str:
        """Return the display name of the verdict."""
        return VERDICTS[self.verdict].name


@dataclass(frozen=True)
class Leaderboard:
    """Hold the rows of a leaderboard, the best score first.

    Attributes
    ----------
    benchmark : str
        Name of the benchmark.
    n, n_held_out : int
        Number of benchmark items, and number of held-out items.
    rows : tuple of Row
        One row for each model.
    chosen : bool
        Whether the user named the references. Otherwise every other model is a reference.
    chance : float
        Accuracy of guessing (0-1).
    dates_missing : tuple of str
        Options that state the missing dates of models whose gap has an unknown cause.
    """

    benchmark: str
    n: int
    n_held_out: int
    rows: tuple[Row, ...]
    chosen: bool
    chance: float = 0.0
    dates_missing: tuple[str, ...] = ()

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
        """Return the judged rows for which the data neither show nor exclude a gap."""
        return tuple(row for row in self.judged if row.grade == Grade.UNDECIDED)

    @property
    def spoilt(self) -> tuple[Row, ...]:
        """Return the models with a finding or a doubtful gap that served as references of other
        models.

        Returns
        -------
        tuple of Row
            The rows of these models. Memory of a reference can hide the memory of models that were
            judged against this reference.
        """
        return tuple(row for row in (*self.found, *self.doubtful) if row.is_reference)

    @property
    def blind_below(self) -> float | None:
        """Return the smallest gap that would be significant in half of the judged models.

        Returns
        -------
        float or None
            The median half-width of the 95 % intervals of the gap, in points; None if no gap was
            measured.
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
    """Judge the cells of a panel and rank the models.

    Parameters
    ----------
    cells : sequence of MemoryCell
        One cell for each model, all with the same items. A cell's model is judged against the
        cell's `references`.
    seed : int
        Seed of the permutations.
    chosen : bool
        Whether the user named the references. Otherwise every other model is a reference.
    unjudged : iterable of Row
        Models that answered too few items to be judged.

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
        serving.update(cell.reference_names)
    results = judge_cells(_JUDGE, read, settings)
    rows = [_row(cell, result, serving) for cell, result in zip(read, results, strict=True)]
    first = read[0]
    rows = sorted([*_ranked(rows), *unjudged], key=_by_score)
    missing = dict[str, None]()
    for cell, result in zip(read, results, strict=True):
        if result.grade == Grade.CAUSE_UNKNOWN:
            missing |= dict.fromkeys(cell.undated)
    return Leaderboard(
        first.benchmark,
        first.published.n,
        first.fresh.n if first.fresh else 0,
        tuple(rows),
        chosen,
        first.published.chance,
        tuple(missing),
    )


def _by_score(row: Row) -> tuple[float, str]:
    """Return a sort key that puts the best score first, and models without a score last."""
    return (-row.score.estimate if row.score else np.inf, row.model)


def _row(cell: MemoryCell, result: MemoryResult, serving: set[str]) -> Row:
    """Return the row of a judged cell, without ranks. `serving` holds the names of the reference
    models.
    """
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
    """Return why a model has no score without memory: failed checks, or missing data."""
    reasons = result.reasons if result.grade in _NOT_JUDGED else ()
    return " ".join(reasons) or result.without.sentence


def _ranked(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with ranks for the models that have both scores."""
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


def _ranks(rows: Sequence[Row], score_of: Callable[[Row], Limits | None]) -> Mapping[str, int]:
    """Return the rank of each model by one of its scores."""
    values = {}
    for row in rows:
        score = score_of(row)
        if score is not None:
            values[row.model] = score.estimate
    ordered = sorted(values.values(), reverse=True)
    return {model: 1 + ordered.index(value) for model, value in values.items()}


def sentence(board: Leaderboard) -> str:
    """Return the result of the leaderboard in at most three sentences with numbers.

    Parameters
    ----------
    board : Leaderboard
        The ranked rows.

    Returns
    -------
    str
        The number of models with a gap, and their scores. If more than NAMED_MAX models have a gap,
        only the model that loses most places without memory is named. If every model is a reference
        of every other model and most models have no decision, the text first says so.
    """
    n, on = len(board.judged), board.benchmark
    if not n:
        return f"None of {len(board.rows)} models could be judged on {on}."
    findings, open_gaps, unsure = len(board.found), len(board.doubtful), len(board.undecided)
    no_decisions = ""
    if not board.chosen and board.blind_below is not None and 2 * unsure > n:
        no_decisions = (
            f"No decision for {unsure} of {n} judged models on {on}: every model is a reference of the others, "
            f"so gaps below {board.blind_below:.1f} points are hidden in half of them. "
            "--references names clean models. "
        )
    if not findings and not open_gaps:
        no_gap = f"No gap shows in {n} judged models on {on} beyond what the references explain."
        if no_decisions or not unsure:
            return f"{no_decisions}{no_gap}"
        return f"{no_gap} For {unsure} of them the data are too few to exclude one."
    verb = "scores" if findings == 1 else "score"
    counts = f"Of {n} judged models {findings} {verb} higher on {on} than the references explain"
    if open_gaps:
        counts += f"; in {open_gaps} a gap stands out whose cause is unknown"
    few = ""
    if unsure and not no_decisions:
        few = f" For {unsure} of {n} the data are too few to exclude a gap."
    return f"{no_decisions}{counts}. {_named(board.found or board.doubtful)}{few}"


def _named(rows: Sequence[Row]) -> str:
    """Return the scores of these models as text.

    If there are many models, the text names only the model that loses most places.
    """
    if len(rows) <= NAMED_MAX:
        return " ".join(_figures(row, row.model) for row in rows)
    row = max(rows, key=lambda candidate: (candidate.moved or 0, candidate.gap or (0.0,)))
    most = "loses most places" if (row.moved or 0) > 0 else "has the largest gap"
    return f"{row.model} {most}. {_figures(row, 'It')}"


def _figures(row: Row, subject: str) -> str:
    """Return a text with a model's score and its score without memory. If the model loses places,
    the ranks are added.
    """
    if row.score is None or row.without is None:
        return f"{subject} has no score without memory."
    without = row.without
    known = f"{percent(without.estimate)} ({percent(without.low)} to {percent(without.high)})"
    if row.at_most:
        known = f"at most {percent(without.high)}"
    falls = ""
    if row.moved is not None and row.moved > 0:
        falls = f" and fall from rank {row.rank} to {row.rank_without}"
    score = f"{subject} scores {percent(row.score.estimate)}."
    return f"{score} Without memory it would score {known}{falls}."


def cautions(board: Leaderboard) -> tuple[str, ...]:
    """Return sentences on what the leaderboard cannot show.

    Parameters
    ----------
    board : Leaderboard
        The ranked rows.

    Returns
    -------
    tuple of str
        The sentences, beginning with the sentence on the references.
    """
    spoilt = listed(row.model for row in board.spoilt)
    first = (
        "Every other model served as a reference. Contaminated references hide memory in the other models. "
        "--references names clean ones."
    )
    if board.blind_below is not None:
        first = (
            f"Low power: in half of the models, a gap below {board.blind_below:.1f} points does not stand out, "
            f"even before the correction over all models. {first}"
        )
    if board.chosen:
        first = "The named references are assumed to be clean. A contaminated reference hides memory in other models."
    if spoilt:
        first += (
            f" These references have a gap too: {spoilt}. Name clean references, and judge again."
        )
    why: tuple[str, ...] = ()
    if board.doubtful:
        why = (
            "A gap has an unknown cause if the held-out items may be newer, and so harder for this model alone. The "
            f"p-value then shows only that the gap is not chance.{_dates(board.dates_missing)}",
        )
    return (
        first,
        *why,
        "A gap can have another cause than memory, such as training on items of the benchmark's kind.",
        "Ranks compare estimates. If two intervals overlap, the order of the two models is not known.",
        "A model without a finding may still have memory: its interval shows how much is possible.",
    )


def _dates(missing: Sequence[str]) -> str:
    """Return a sentence with the options that state the missing dates; empty without such
    options."""
    if not missing:
        return ""
    more = len(missing) - NAMED_MAX
    others = f" and {more} more (--facts CSV states all)" if more > 0 else ""
    return (
        f" Stated dates can exclude newer items. Missing: {' '.join(missing[:NAMED_MAX])}{others}."
    )
