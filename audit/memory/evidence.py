"""The statistics that a verdict rests on, for one cell, as plain results. `audit.memory.measure` makes them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from audit.judge.record import holm_rows
from audit.memory.design import MemoryThresholds
from audit.memory.record import TEXT_SCORES
from audit.statistics.completion import Auc
from audit.statistics.fresh_gap import FreshGap
from audit.statistics.multiplicity import holm
from audit.statistics.order_test import OrderTest
from audit.statistics.rasch import RaschGap
from audit.statistics.set_difference import SetDifference
from audit.statistics.unparsed import DECIDE_AT
from audit.verdict.result import Reason


class Name(StrEnum):
    """The indicators; the first five are of the text, the last of the score."""

    ORDER = "order"
    OPTIONS = "options"
    ITEM = "completion_item"
    HALF = "completion_half"
    WRONG = "completion_wrong"
    GAP = "gap"


COMPLETION = dict(zip((Name.ITEM, Name.HALF, Name.WRONG), TEXT_SCORES, strict=True))


@dataclass(frozen=True)
class Indicator:
    """One indicator of one cell.

    pvalue: one-sided, at its own level, on every scale and against every control that it has; adjusted: after Holm over
    the indicators of the panel. Both None where it was not judged; why says then what is missing. unguarded,
    unguarded_adjusted: p without what guards it against another cause than memory (references, a second scale,
    unparsed answers); doubt names that cause: where only this p is small, the cause is unknown. estimate, low, high:
    what the published items have more, in `unit`, with a 95 % interval.
    """

    name: Name
    pvalue: float | None = None
    adjusted: float | None = None
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    why: Reason | None = None
    unguarded: float | None = None
    unguarded_adjusted: float | None = None
    doubt: Reason | None = None

    @property
    def judged(self) -> bool:
        return self.pvalue is not None

    def seen(self, alpha: float) -> bool:
        """Whether it speaks for memory after the panel's correction, with an interval above zero."""
        return self.adjusted is not None and self.adjusted <= alpha and self.low is not None and self.low > 0

    def open(self, alpha: float) -> bool:
        """Whether it would speak, were it not for another cause that is not excluded (`doubt`)."""
        alone = self.unguarded_adjusted
        return alone is not None and alone <= alpha and self.doubt is not None and not self.seen(alpha)


@dataclass(frozen=True)
class Ordered:
    """An order test of the tested model, of what it has beyond its references' mean, and of each reference.

    spread: from two references on, the mean gain beyond theirs with their spread in its error, as they may differ in
    what the sense of an order is worth to them. own_spread: the same with each model's gains in units of its own spread
    over the other orders. twice: the gain beyond twice the references' mean, in that unit: a larger model may feel an
    order's sense that much more. outside: how the references do not bracket the tested model, None where they do.
    """

    own: OrderTest
    beyond: OrderTest | None
    spread: SetDifference | None
    own_spread: SetDifference | None
    twice: SetDifference | None
    references: tuple[OrderTest, ...]
    outside: Reason | None = None

    @property
    def unguarded(self) -> float:
        """Both must speak where there are references (intersection-union): a published order that any model finds
        likelier is told by its content. A model that does not differ from its references at all has nothing beyond."""
        if self.beyond is None:
            return self.own.pvalue
        if np.isnan(self.beyond.pvalue):
            return 1.0
        return max(self.own.pvalue, self.beyond.pvalue, self.spread.pvalue if self.spread else 0.0)

    @property
    def pvalue(self) -> float | None:
        """On both scales, and beyond twice the references' gain; 1 where they do not bracket the tested model. None
        without references: an order with a sense of its own is likelier to any model."""
        if self.beyond is None:
            return None
        guards = [one.pvalue for one in (self.own_spread, self.twice) if one is not None]
        return 1.0 if self.outside else max([self.unguarded, *guards])

    @property
    def shown(self) -> OrderTest:
        """The test whose gain is quoted: what is beyond the references, where there are some and anything is."""
        return self.own if self.beyond is None or np.isnan(self.beyond.pvalue) else self.beyond


@dataclass(frozen=True)
class Text:
    """A likelihood's difference in differences on two scales: nats a byte, and units of each model's own spread over
    the held-out items. A model that uses what makes any text likely more than its references has more nats, and not
    more of its spread; both must speak."""

    nats: SetDifference
    own_spread: SetDifference

    @property
    def pvalue(self) -> float:
        return max(self.nats.pvalue, self.own_spread.pvalue)


@dataclass(frozen=True)
class Held:
    """The gap with unparsed answers held at gamma (`fresh_gap.unparsed_held`): p and lower limit against a gap, upper
    limit for one."""

    gamma: float
    pvalue: float
    low: float
    high: float


@dataclass(frozen=True)
class Apart:
    """A reference's own gap beyond that of the other references; pvalue is two-sided."""

    model: str
    difference: float
    low: float
    high: float
    pvalue: float


@dataclass(frozen=True)
class Evidence:
    """Everything that gates, `decide` and the report look at.

    exchangeable: p of each measure by which neighbours' words tell the published order. completion: by text; None
    without references or held-out items. aucs: of each token score, published against held-out items, of the tested
    model and, where there are references, of what it has beyond their mean; descriptive. left_out: references of the
    score that are not above chance. fresh_order: the order test of the held-out items, whose order cannot have been
    learnt. gap: as parsed; abilities: the same as `ability_gaps`; held: with unparsed answers, by gamma, none where
    all were parsed. kind: how well words alone part the two sets. apart: each reference's own gap against the rest.
    alike: `fresh_gap.agreement` of the references' answers to both sets; None without them. outside: as in `Ordered`.
    """

    order: Ordered | None
    options: Ordered | None
    fresh_order: Ordered | None
    exchangeable: dict[str, float]
    completion: dict[Name, Text]
    aucs: dict[str, tuple[Auc, Auc | None]]
    gap: FreshGap | None
    abilities: tuple[RaschGap, ...]
    left_out: tuple[str, ...]
    indicators: tuple[Indicator, ...]
    held: tuple[Held, ...] = ()
    kind: Auc | None = None
    apart: tuple[Apart, ...] = ()
    alike: float | None = None
    outside: Reason | None = None

    def indicator(self, name: Name) -> Indicator:
        return next(one for one in self.indicators if one.name == name)

    def limits(self, gamma: float = DECIDE_AT) -> tuple[float, float, float]:
        """p, lower and upper limit (95 %) of the gap on all scales: with unparsed answers held at gamma, which has
        those that are missing at random between its bounds, or as parsed where it was not held there. NaN without a
        gap."""
        if self.gap is None:
            return float("nan"), float("nan"), float("nan")
        held = next((one for one in self.held if one.gamma == gamma), None)
        return on_all_scales(self.gap, self.abilities) if held is None else (held.pvalue, held.low, held.high)


def correct(panel: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """The same with p-values after Holm over every indicator of every cell that was judged."""
    adjusted = holm_rows([[one.pvalue for one in e.indicators] for e in panel])
    unguarded = holm_rows([[one.unguarded for one in e.indicators] for e in panel])
    return tuple(
        replace(
            e,
            indicators=tuple(
                replace(one, adjusted=p, unguarded_adjusted=q)
                for one, p, q in zip(e.indicators, own, loose, strict=True)
            ),
        )
        for e, own, loose in zip(panel, adjusted, unguarded, strict=True)
    )


def unmatched(gap: FreshGap | None, thresholds: MemoryThresholds) -> bool:
    """Whether the held-out set is not as hard as the benchmark, as the references see it."""
    return (
        gap is not None
        and gap.matched is not None
        and gap.reference_pvalue is not None
        and (gap.reference_pvalue <= thresholds.matched_alpha or gap.matched.share < thresholds.matched_share_min)
    )


def selected(alike: float | None, thresholds: MemoryThresholds) -> bool:
    """Whether the references' answers to both sets agree too well for held-out items that were drawn without them."""
    return alike is not None and alike <= thresholds.drawn_alpha


def of_another_kind(kind: Auc | None, thresholds: MemoryThresholds) -> bool:
    """Whether words alone part the two sets so well that more than memory differs between them."""
    return kind is not None and kind.low > thresholds.kind_auc_max


def on_all_scales(points: FreshGap, abilities: Sequence[RaschGap]) -> tuple[float, float, float]:
    """p, lower and upper limit of a gap: the largest p, and the hull of the intervals, in points."""
    parts = [(points.pvalue, points.low, points.high), *((one.pvalue, one.gap_low, one.gap_high) for one in abilities)]
    p, low, high = np.array(parts).T  # NaN where any is: it clears nobody
    return float(p.max()), float(low.min()), float(high.max())


def contaminated(evidence: Evidence, alpha: float) -> tuple[Apart, ...]:
    """References whose own gap is beyond the rest's: they may have learnt the benchmark (Holm over the references)."""
    adjusted = holm([one.pvalue for one in evidence.apart]).tolist() if evidence.apart else []
    return tuple(one for one, p in zip(evidence.apart, adjusted, strict=True) if p <= alpha and one.difference > 0)


def told_by_words(evidence: Evidence, thresholds: MemoryThresholds) -> bool:
    """Whether neighbours' words or lengths tell the published order (Bonferroni over the measures)."""
    found = [p for p in evidence.exchangeable.values() if not np.isnan(p)]
    return bool(found) and min(found) * len(found) <= thresholds.exchangeable_alpha
