"""What a decision looks at, in one cell: the tests, and what they rest on."""

from dataclasses import dataclass

from audit.perturb.control import FreshControl
from audit.perturb.record import ItemLevel
from audit.statistics.contamination_score import ArticleResult, FalseAlarms
from audit.statistics.drop_profile import DropProfile
from audit.statistics.exchange import ExchangeResult
from audit.statistics.performance_curve import CurveResult
from audit.statistics.priors import TauPrior
from audit.statistics.references import BeyondReference
from audit.statistics.wording_drop import Equivalence, RunNoise, WordingDrop
from audit.verdict.reason import Reason

# Errors of the difference in differences, above which a further test is not asked: a curve through bunched references
# tells nothing, and neither do a few held-out items.
SE_MAX = 2.0


@dataclass(frozen=True)
class Adverse:
    """`found_p` and `beyond_p` of the tests with unparsed answers held against the finding (`unread.against_drop`).

    beyond_p: None where nothing is beyond reference as parsed.
    """

    found_p: float
    beyond_p: float | None


@dataclass(frozen=True)
class Bracket:
    """Accuracies (0-1) on the reworded items: of the tested model, and the lowest and highest of its references.

    A drop is compared across models of another accuracy only by way of a scale, and no scale is known to be the right
    one. Where some reference is no better than the tested model and some is no worse, all scales say nearly the same.
    margin: by how much the references may miss it.
    """

    own: float
    lowest: float
    highest: float
    margin: float

    @property
    def holds(self) -> bool:
        return self.lowest <= self.own + self.margin and self.highest >= self.own - self.margin


@dataclass(frozen=True)
class Tests:
    """The p-values that decide, all one-sided.

    exchange: is the original right more often than its other wordings? broken_p: is the drop larger than the upper
    share of broken variants makes (`margin`, 0-1)? None where no person read a sample. broken_se: its standard error.
    beyond: difference in differences on three scales, empty without references; bracket: of these references; family:
    the one that all of them are from, where the tested model is not, else empty; prior: of how much models differ, None
    where it was set to 0; curve: from ten references on. adverse: the same tests with
    unparsed answers held against what was found; None where all were parsed, or nothing is found. left_out: why
    reference models are not compared with. control: the same model on held-out items; None where none were run.
    profile: on which items the drop lies; None with fewer than two references, or where nothing is lost beyond them.
    """

    exchange: ExchangeResult
    margin: float | None
    broken_p: float | None
    drop_se: float
    beyond: tuple[BeyondReference, ...]
    bracket: Bracket | None
    family: str
    prior: TauPrior | None
    curve: CurveResult | None
    references: tuple[str, ...]
    left_out: tuple[Reason, ...]
    control: FreshControl | None = None
    adverse: Adverse | None = None
    profile: DropProfile | None = None

    @property
    def found_p(self) -> float:
        """For a drop that counts: the permutation test, and above what broken variants could make where that is
        known."""
        return max(self.exchange.pvalue, self.broken_p or 0.0)

    @property
    def curve_counts(self) -> bool:
        """Whether the curve is known well enough to be asked: its error is at most twice that of the difference in
        differences. It is not where the reference models are all about equally good."""
        return self.curve is not None and bool(self.curve.delta_se <= SE_MAX * self.beyond[0].se)

    @property
    def beyond_p(self) -> float | None:
        """For a drop beyond reference: every test must speak for it (intersection-union, so no correction is needed),
        that against held-out items too where they were run and asked. 1 where the drop lies where memory would not.

        None without references, with references that do not bracket the tested model or are all of one other family,
        or where the share of broken variants is not known.
        """
        return max(self.reference_p, self._own_p) if self._asked else None

    @property
    def plain_p(self) -> float | None:
        """`beyond_p` by what the run's own references show of how models differ: without the prior."""
        return max(self._reference_p([b.plain.pvalue for b in self.beyond]), self._own_p) if self._asked else None

    @property
    def reference_p(self) -> float:
        """The same without the held-out items, whether or not the references are fit for it."""
        return self._reference_p([b.pvalue for b in self.beyond])

    @property
    def _asked(self) -> bool:
        return self.bracket is not None and self.bracket.holds and not self.family and self.broken_p is not None

    @property
    def unlike_memory(self) -> bool:
        """Whether the drop lies where memory would not, and no held-out items tell whether the model is touchy."""
        return self.profile is not None and not self.profile.holds and self._held_out is None

    @property
    def _own_p(self) -> float:
        """By what the tested model shows beside its drop: on held-out items, or by where the drop lies."""
        return float(self.unlike_memory) if self._held_out is None else self._held_out.pvalue

    @property
    def _held_out(self) -> FreshControl | None:
        return self.control if self.control is not None and self.control.asked else None

    def _reference_p(self, beyond: list[float]) -> float:
        curve = self.curve.pvalue if self.curve is not None and self.curve_counts else 0.0
        return max(self.found_p, *beyond, curve)


@dataclass(frozen=True)
class Grounds:
    """What `decide` looks at, apart from the gates. Accuracies and drops are 0-1.

    equivalence and the largest drop hold with unparsed answers held for a drop too (odds of `unparsed_gamma`).
    largest_worst: the largest drop if every unparsed variant was wrong and every unparsed original right; None where
    all were parsed. detectable: the smallest drop above broken variants that this design finds; NaN where nothing
    varies.
    """

    tests: Tests
    drop: WordingDrop
    equivalence: Equivalence
    largest_worst: float | None
    detectable: float


@dataclass(frozen=True)
class Evidence(Grounds):
    """The same, and what the report shows besides. flips: chance that two wordings of an item disagree. alarms: the
    article's rules on clean models like this one; None where no such model can be simulated.
    """

    noise: RunNoise
    flips: float
    article: ArticleResult
    alarms: FalseAlarms | None
    items: ItemLevel
    chance: float
