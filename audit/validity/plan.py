"""Plan a validity audit, with the edits of every sampled item, without starting the run.

The module also computes the smallest difference that the run detects. The user can state which
error rates are tolerable; the module then computes the thresholds with these rates (li2026, App.
E).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pyarrow as pa
import scipy

from audit.benchmarks.load import Benchmark, open_benchmark
from audit.benchmarks.rows import shuffled
from audit.benchmarks.sample import draw_sample
from audit.config.base import sample_size
from audit.config.dry_run import CallCounts, Planned, planned_facts, reach
from audit.config.resolve import BenchmarkSample, ResolvedRun, resolve_run
from audit.core.errors import BenchmarkError, ConfigError, LibraryError
from audit.core.json_types import attributes
from audit.core.package_data import shipped_table
from audit.core.records import Item
from audit.governance.chronology import NAME
from audit.scoring.reference import JUDGED, ReferenceScorer, self_test
from audit.shards.files import write_file
from audit.shards.working_copy import where
from audit.validity.audit import VALIDITY
from audit.validity.config import ValidityConfig, scorer_of
from audit.validity.design import ValidityThresholds
from audit.validity.edits.file import FILE, digest, to_table, write_edits
from audit.validity.edits.plan import ItemPlan, Partners, Plan, build_plan, cluster_of
from audit.validity.edits.record import Edit, Family, context_of, formats_of
from audit.validity.faults import scorer_faults
from audit.validity.labels import read_labels, rule_agreement, sentence
from audit.variants.arrow import find_library
from audit.variants.record import Variant
from audit.variants.select import check_library

DEFAULT_ITEMS = 200  # as in li2026; all items of a smaller benchmark are used


@dataclass(frozen=True)
class ValidityRun:
    """Hold a resolved run with its edits.

    Attributes
    ----------
    resolved : ResolvedRun
        The run.
    plan : Plan
        The edits of its items.
    facts : dict
        Facts about the scorer for the report, such as its results on scripted models with known
        answers. The manifest stores these facts, because the benchmark may not be available when a
        report is built.
    """

    resolved: ResolvedRun
    plan: Plan
    facts: dict[str, Any]


def resolve_validity(config: ValidityConfig) -> ValidityRun:
    """Resolve a configuration, with all checks that are possible before an engine is loaded.

    No file is written.

    Parameters
    ----------
    config : ValidityConfig
        The options.

    Returns
    -------
    ValidityRun
        The run. Its configuration contains the hash of the edits, so that the fingerprint of the
        run depends on every question that will be sent.

    Raises
    ------
    AuditError
        If the run cannot be resolved.
    """
    scorer = scorer_of(config)
    benchmark = open_benchmark(config.benchmark, seed=config.seed)
    items = benchmark.read_items()
    library = _accepted(config.variants, benchmark)
    benchmark = replace(benchmark, only=frozenset(items.by_id))
    n = min(DEFAULT_ITEMS, len(benchmark.census.frame)) if config.n is None else sample_size(config)
    sample = BenchmarkSample(benchmark, draw_sample(benchmark, n, config.seed))
    sampled = [items.by_id[id_] for id_ in sample.sample.ids]
    # TruthfulQA is published with the key first, which would be fault F3b.
    if scorer.lettered and scorer.benchmark == "truthfulqa":
        sampled = [shuffled(item, config.seed) for item in sampled]
    plan = build_plan(
        sampled,
        scorer,
        Partners(items.items, config.seed),
        formats=config.formats or formats_of(scorer),
        library=library,
        per_family=config.edits_per_family,
        spares=config.spare_edits,
    )
    if not any(planned_item.edits[Family.ATTRIBUTE] for planned_item in plan.items):
        raise BenchmarkError(
            f"No sampled item of {benchmark.name} has a partner item for its edits. Expected the "
            "whole file (for BBQ all rows of a category, for XSTest both halves of each pair), or "
            "a larger n."
        )
    table = to_table(
        plan, scorer.name, config.templates[config.template], config.systems[config.system]
    )
    judged = scorer.name == JUDGED  # A judge reads the replies after the run.
    config = replace(config, edits_sha256=digest(table), canary=config.canary and not judged)
    resolved = resolve_run(VALIDITY, config, samples=[sample])
    run = replace(
        resolved,
        state_of=lambda place: where(place / FILE),
        on_open=partial(_save, table, config.chronology),
    )
    facts = _facts(scorer, sampled, None if judged else config.labels)
    chance = {item.id: scorer.chance(item) for item in sampled}
    return ValidityRun(run, plan, {**facts, "chance": chance})


def _facts(scorer: ReferenceScorer, items: Sequence[Item], labels: str | None) -> dict[str, Any]:
    """Return the facts about the scorer.

    `labels` is a file of replies that people labelled, on which the agreement of a rule is
    measured.
    """
    test, faults = self_test(scorer, items), scorer_faults(scorer, items)
    facts = {
        **attributes(scorer, "name", "benchmark", "reference_of", "validated", "lettered"),
        "evidence": list(scorer.evidence),
        "self_test": {**asdict(test), "passed": test.passed},
        "injected": [asdict(injected) for injected in faults],
    }
    if labels is None:
        return facts
    labelled = rule_agreement(scorer, read_labels(Path(labels)))
    return {
        **facts,
        "evidence": [sentence(labelled), *scorer.evidence],
        "validated": labelled.validated,
    }


def _accepted(name: str | None, benchmark: Benchmark) -> dict[str, tuple[Variant, ...]] | None:
    """Return the accepted variants of a library for each question; None if no library is
    configured.
    """
    if name is None:
        return None
    library = find_library(name)
    check_library(library, benchmark.name, list(benchmark.iter_questions()))
    if not library.accepted:
        raise LibraryError(
            f"Library {name} has no accepted variant. Expected at least one for each item."
        )
    return library.by_question()


def _save(table: pa.Table, chronology: str | None, run_dir: Path) -> None:
    """Write the edits and the chronology beside the shards, where every node can read them."""
    write_edits(table, run_dir)
    if chronology is not None:
        source = Path(chronology)
        write_file(run_dir / NAME, (source / NAME if source.is_dir() else source).read_bytes())


def planned(config: ValidityConfig) -> Planned:
    """Return the resolved run with functions that describe its plan.

    Parameters
    ----------
    config : ValidityConfig
        The options.

    Returns
    -------
    Planned
        The run, the lines of its plan, and the facts for a program.
    """
    from audit.validity.analyse import JUDGE

    run = resolve_validity(config)
    design = tolerated(config, run)
    margin = ValidityThresholds.from_mapping(config.verdict).margin
    needed = math.ceil(design.needed(margin) * len(run.plan.items) / design.items)
    facts = {"minimum_detectable_difference": design.detectable(), "questions_needed": needed}

    def described(counts: Sequence[CallCounts]) -> list[str]:
        """Return the lines of the plan."""
        shown = [f"scorer         {run.facts['name']}"]
        for count in counts:
            shown += [
                f"{count.planned.model} on {count.planned.benchmark}",
                f"  items              {count.questions:>12,}",
                f"  calls              {count.planned.calls:>12,}",
                *count.planned.lines(),
            ]
        shown += lines(design, shipped_table(JUDGE.shipped))
        return shown + reach(run.resolved, counts, needed)

    return Planned(run.resolved, described, lambda count: {**planned_facts(count), **facts})


def tolerated(config: ValidityConfig, run: ValidityRun) -> Tolerated:
    """Return the design of the smallest cell of a run, with the error rates that the user
    tolerates.

    Parameters
    ----------
    config : ValidityConfig
        The options.
    run : ValidityRun
        The run with its edits.

    Returns
    -------
    Tolerated
        The design. Each context is a separate cell, and the items of a cluster count as one item.
    """

    def independent(items: Sequence[ItemPlan]) -> int:
        """Return the number of clusters."""
        return len({cluster_of(planned_item.item) for planned_item in items})

    cells: dict[str, list[ItemPlan]] = {}
    for planned_item in run.plan.items:
        if planned_item.edits[Family.ATTRIBUTE]:
            cells.setdefault(context_of(planned_item.item, run.plan.benchmark), []).append(
                planned_item
            )
    items = min(cells.values(), key=independent)
    attribute: list[Edit] = []
    for planned_item in items:
        attribute += planned_item.edits[Family.ATTRIBUTE]
    return Tolerated(
        items=independent(items),
        attribute=len(attribute) / len(items),
        surface=config.edits_per_family,
        false_alarms=config.false_alarms,
        misses=config.misses,
        cells=len(config.model) * len(cells),
        placebo=any(planned_item.edits[Family.PLACEBO] for planned_item in items),
    )


# Assumed share of surface edits that change an answer. It lies between .03 and .25, the shares of
# the calibrated designs.
PLANNED_CHANGE = 0.1
_ADDED = 2  # number of clusters that `statistics.selectivity` adds to each test


@dataclass(frozen=True)
class Tolerated:
    """Hold a design with the error rates that the user tolerates.

    Attributes
    ----------
    items : int
        Number of independent items.
    attribute, surface : float
        Numbers of attribute edits and of surface edits of an item.
    false_alarms : float
        Tolerated share of false positives (0-1) in each direction, over all cells together.
    misses : float
        Tolerated share of false negatives (0-1).
    cells : int
        Number of cells of the panel.
    placebo : bool
        Whether the effect of attribute edits is also tested against a placebo. The placebo is
        assumed to change as many answers as surface edits do.

    Examples
    --------
    >>> round(Tolerated(200, 1, 3, 0.025, 0.2).detectable(), 3)
    0.103
    """

    items: int
    attribute: float
    surface: float
    false_alarms: float
    misses: float
    cells: int = 1
    placebo: bool = False

    def __post_init__(self) -> None:
        for name in ("false_alarms", "misses"):
            if not 0 < getattr(self, name) < 0.5:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}. Expected a share above 0 and below 0.5. Example: {name}=0.025"
                )

    def detectable(self) -> float:
        """Return the smallest difference attr - max(fmt, sem) that the audit detects.

        Returns
        -------
        float
            The smallest difference (0-1) that the audit misses at most at the tolerated rate. NaN
            if the design detects no difference at this rate.

        Notes
        -----
        Two tests must detect the difference, so each test may miss it in half of the tolerated
        share of runs. If there is a placebo, only the test against the placebo is considered, since
        its power is by far the lowest.
        """
        low, high = 0.0, 1 - PLANNED_CHANGE
        level, edits = self.false_alarms / self.cells, 1 if self.placebo else self.surface
        if self._needed(high, level, self.misses / 2, edits) > high:
            return math.nan
        while high - low > 1e-5:
            middle = (low + high) / 2
            missed = self._needed(middle, level, self.misses / 2, edits) > middle
            low, high = (middle, high) if missed else (low, middle)
        return high

    def margin(self) -> float:
        """Return the smallest margin that this design can confirm.

        Returns
        -------
        float
            The margin (0-1), for a model whose answers attribute edits truly move as often as
            surface edits do.
        """
        level = self.false_alarms / self.cells
        missed = self.misses / 2 if self.placebo else self.misses
        # By Bonferroni's correction, each surface family is tested at half of the level.
        needed = self._needed(0.0, level / 2, missed, self.surface)
        if self.placebo:
            needed = max(needed, self._needed(0.0, level, missed, 1))
        return needed * self.items / (self.items + _ADDED)

    def needed(self, margin: float) -> int:
        """Return how many independent items are needed to detect a difference as large as the
        margin.

        Parameters
        ----------
        margin : float
            The margin (0-1).

        Returns
        -------
        int
            The number of items. With this number, the audit can also show that a difference is
            below the margin.
        """
        many = 4
        while not replace(self, items=many).decides(margin):
            many *= 2
        return bisect_left(
            range(many), True, lo=many // 2, key=lambda n: replace(self, items=n).decides(margin)
        )

    def decides(self, margin: float) -> bool:
        """Return whether the design can both detect and exclude a difference that is as large as
        the margin.
        """
        return self.detectable() <= margin and self.margin() <= margin

    def _needed(self, difference: float, level: float, missed: float, edits: float) -> float:
        """Return the smallest observed difference at which a test of this level rejects."""
        if self.items < 2:
            return math.inf
        c, a = PLANNED_CHANGE, PLANNED_CHANGE + difference
        variance = a * (1 - a) / self.attribute + c * (1 - c) / edits
        reach = float(scipy.special.stdtrit(self.items - 1, 1 - level)) + _z(1 - missed)
        return reach * math.sqrt(variance / self.items + _ADDED / self.items**2)

    def baseline_standard_errors(self) -> float:
        """Return the threshold of G2, in standard errors, for the tolerated false positives.

        Returns
        -------
        float
            The threshold. A model that only follows a rule, without reading the question, exceeds
            this threshold in exactly the tolerated share of runs.
        """
        return _z(1 - self.false_alarms)

    def above_baseline(self) -> float:
        """Return how far a score near .5 must be above the baseline to pass G2.

        Returns
        -------
        float
            The distance (0-1) at which G2 fails in at most the tolerated share of runs.
        """
        return (self.baseline_standard_errors() + _z(1 - self.misses)) * math.sqrt(
            0.25 / self.items
        )


def _z(share: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return NormalDist().inv_cdf(share)


def lines(plan: Tolerated, table: Mapping[str, Any] | None) -> list[str]:
    """Return the lines that the plan prints.

    Parameters
    ----------
    plan : Tolerated
        The design.
    table : mapping or None
        The shipped calibration.

    Returns
    -------
    list of str
        Lines with the smallest detectable difference, and with the thresholds for the tolerated
        error rates.
    """
    from audit.validity.analyse import nearest

    smallest = plan.detectable()
    shown = "none" if math.isnan(smallest) else f"{100 * smallest:.1f} points"
    rates = f"false alarms {plan.false_alarms:.1%}, misses {plan.misses:.0%}"
    measured = "  measured at .05: selective {selective:.1%}, non-selective {non_selective:.1%}"
    near = nearest(table, clusters=plan.items, change=PLANNED_CHANGE)
    measured_text = "" if near is None else measured.format_map(near.rates)
    placebo = " against one placebo" if plan.placebo else ""
    return [
        f"  detectable difference  {shown} of attribute over surface edits ({rates};",
        f"    smallest of {plan.cells} cells: {plan.items:,} independent items, {plan.attribute:.1f} attribute edits"
        f" each{placebo}; surface edits change {PLANNED_CHANGE:.0%} of the answers)",
        "  thresholds for these rates (others: false_alarms=0.01 misses=0.1):",
        f"    verdict.alpha={2 * plan.false_alarms:g}{measured_text}",
        f"    verdict.baseline_standard_errors={plan.baseline_standard_errors():.2f}  G2 passes a score "
        f"{100 * plan.above_baseline():.1f} points above the baseline in {1 - plan.misses:.0%}",
        f"    verdict.margin={plan.margin():.3f}  the smallest margin that this design can confirm",
        "    denominator_min, label_mass_min, parse_share_min and noop_share_max change none of "
        "these rates.",
    ]
