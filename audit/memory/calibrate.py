"""How often is this audit itself wrong? Models of known truth through the tests of the real verdict.

    python -m audit.calibrate audit=memory --out audit/data/calibration_memory.json      # the table that ships, minutes

A simulated benchmark has n items, a fresh set m. Each model answers item i right with a chance of its own: Beta
distributed over items (`audit.statistics.difficulty`), correlated between models (easy items are easy for most). The
likelihood of a text, and of each order of a shard or of an item's options, is a normal number, shared by all models but
for a part of their own. The worlds:

- clean: nothing is special about the published items and their order;
- uneven: models differ in how well they suit the two sets (standard deviations of 2 points of accuracy, and of a tenth
  of an item's spread of likelihood, between models);
- harder: the fresh items are 10 points harder for every model;
- sequenced: the published order has a sense that words do not show: it is likelier to every model, by .3 of the spread
  between orders on average, to each by more or less of that (standard deviation .3 of it);
- answers: the tested model knows the answers of 30 % of the published items, whatever their words;
- text: the published text and its orders are likelier to the tested model by .3 of their spread;
- gap_10: the tested model knows the answers of a third of the published items, so that its score is 10 points above
  that on fresh ones, the effect of interest: to clear it is wrong;
- gap_10_uneven: the same, where models differ as in uneven;
- gap_10_unread: as gap_10, and 4 % of the tested model's answers on each set are unread, right ones on the published
  set and wrong ones on the fresh set;
- clean_unread: as clean, and as many are unread, wrong ones on the published set and right ones on the fresh set.

Two errors are counted: memory found where there is none, and the clearance (`nothing_seen_by_this_instrument`) of a
model that has memory. Each model is judged by itself, and as one of a panel of twelve, by Bonferroni: Holm's correction
takes no finding away that this leaves.

The gates, which look for faults that a simulation does not have, are bypassed, but for `fresh_matched`, which takes
indicators away, and `enough_data`. A design with one reference is judged with references_min=1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy

from audit.memory.decide import decide, finding
from audit.memory.evidence import Evidence, Name, correct, measure
from audit.memory.gates import enough_data, fresh_matched
from audit.memory.record import TEXTS, ItemSet, MemoryCell, ModelSet
from audit.memory.result import MemoryVerdict
from audit.memory.thresholds import MemoryThresholds
from audit.statistics.difficulty import beta_shape, draw_latent, shift
from audit.statistics.paired import FloatArray
from audit.verdict.simulated import PANEL, keep, make_parser, rate, shown, table_text

N_OPTIONS = 4
ORDERS = 10
OPTION_ORDERS = 5
RESAMPLES = 199  # of a permutation test: its smallest p, .005, is below what Holm asks of six indicators (not of 72)
SIMULATIONS, SEED = 200, 42
_GRID = np.linspace(0, 1, 2001)
_OWN = 0.3  # share of a likelihood's standard deviation that is a model's own


@dataclass(frozen=True)
class MemoryDesign:
    """What is simulated. fresh: items of the fresh set, 0 for none. accuracy, flip (two askings of an item disagree)
    and item_correlation (of latent difficulties between models): 0-1."""

    n: int
    fresh: int = 0
    references: int = 0
    shard_items: int = 5
    accuracy: float = 0.7
    flip: float = 0.2
    item_correlation: float = 0.7


@dataclass(frozen=True)
class World:
    """uneven: standard deviation between models of what suits them in the published set (accuracy; five times as much
    in spreads of likelihood). harder: accuracy that the fresh set costs all. sequenced, text: of the published order
    and text, in spreads, for all models and for the tested one. answers: share of answers known. unread: share of the
    tested model's answers on each set that are unread, as many as there are of the kind: above 0 those that speak for
    a gap (right on the published set, wrong on the fresh one), below 0 those against it."""

    uneven: float = 0.0
    harder: float = 0.0
    sequenced: float = 0.0
    text: float = 0.0
    answers: float = 0.0
    unread: float = 0.0


_OF_INTEREST = MemoryThresholds().effect_of_interest / (1 - MemoryDesign.accuracy)  # of the wrong answers, known
WORLDS: Mapping[str, World] = {
    "clean": World(),
    "uneven": World(uneven=0.02),
    "harder": World(harder=0.10),
    "sequenced": World(sequenced=0.3),
    "answers": World(answers=0.3),
    "text": World(text=0.3),
    "gap_10": World(answers=_OF_INTEREST),
    "gap_10_uneven": World(answers=_OF_INTEREST, uneven=0.02),
    "gap_10_unread": World(answers=_OF_INTEREST, unread=0.04),
    "clean_unread": World(unread=-0.04),
}
# Worlds that tell nothing without fresh items.
_WITH_FRESH = ("uneven", "harder", "answers", "gap_10", "gap_10_uneven", "gap_10_unread", "clean_unread")
_FOUND = (
    "clean",
    "uneven",
    "harder",
    "sequenced",
    "answers",
    "text",
    "clean_unread",
)  # columns of the table of findings

# The designs that ship: `calibrated.nearest` picks from them.
SHIPPED = (
    MemoryDesign(208),
    MemoryDesign(1000),
    MemoryDesign(104, 104, 1),
    MemoryDesign(208, 208, 3),
    MemoryDesign(1000, 500, 3),
    MemoryDesign(1000, 500, 5),
    MemoryDesign(1000, 500, 8),
)


def simulate(design: MemoryDesign, world: World, rng: np.random.Generator) -> MemoryCell:
    """One tested model and its references in a world."""
    models = 1 + design.references
    suits = world.uneven * rng.standard_normal(models)  # the same for score and text
    sides = []
    for fresh, n in ((False, design.n), (True, design.fresh)):
        if n:
            sides.append(_side(design, world, n, suits, fresh, rng))
    pairs = [(sides[0][k], sides[1][k] if design.fresh else None) for k in range(models)]
    fresh_items = _items("fresh", design.fresh) if design.fresh else None
    return MemoryCell(_items("simulated", design.n), fresh_items, pairs[0], tuple(pairs[1:]))


def _items(name: str, n: int) -> ItemSet:
    return ItemSet(name, tuple(map(str, range(n))), np.arange(n), np.full(n, N_OPTIONS))


def _side(
    design: MemoryDesign, world: World, n: int, suits: FloatArray, fresh: bool, rng: np.random.Generator
) -> list[ModelSet]:
    """Every model on one set of n items."""
    models, shards = suits.size, n // design.shard_items
    share = design.flip / (2 * design.accuracy * (1 - design.accuracy))
    a, b = beta_shape(design.accuracy, share * 2 * design.accuracy * (1 - design.accuracy))
    quantiles = scipy.stats.beta.ppf(_GRID, a, b)
    theta = np.interp(draw_latent((models, n), design.item_correlation, rng), _GRID, quantiles)
    texts = {name: _shared(models, (n,), rng) for name in TEXTS}
    sense = 1 + 0.3 * rng.standard_normal(models)
    options, order = _shared(models, (n, OPTION_ORDERS + 1), rng), _shared(models, (shards, ORDERS + 1), rng)
    found = []
    for k in range(models):
        costs = -world.harder if fresh else float(suits[k])
        right = rng.random(n) < (shift(theta[k], costs, design.accuracy) if costs else theta[k])
        told = {name: values[k] + (0.0 if fresh else 5 * suits[k]) for name, values in texts.items()}
        if not fresh:
            order[k, :, 0] += world.sequenced * sense[k]
        if k == 0 and not fresh:
            right |= rng.random(n) < world.answers
            told = {name: values + world.text for name, values in told.items()}
            options[k, :, 0] += world.text
            order[k, :, 0] += world.text
        score = right.astype(float)
        if k == 0 and world.unread:
            kind = float(fresh != (world.unread > 0))
            score[np.flatnonzero(score == kind)[: round(abs(world.unread) * n)]] = np.nan  # items have no order here
        found.append(ModelSet(f"model {k}", score, told, {}, np.zeros(n), options[k], order[k], {}))
    return found


def _shared(models: int, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    """Standard normal numbers (models, *shape), of which a part is each model's own."""
    own = rng.standard_normal((models, *shape))
    found: FloatArray = np.sqrt(1 - _OWN**2) * rng.standard_normal(shape) + _OWN * own
    return found


def judge(
    design: MemoryDesign, world: World, thresholds: MemoryThresholds, rng: np.random.Generator
) -> tuple[bool, ...]:
    """One model: memory of the text found, gap to fresh items found; cleared, by itself and in a panel."""
    evidence = measure(simulate(design, world, rng), thresholds, rng=rng, n_resamples=RESAMPLES)
    (corrected,) = correct([evidence])
    found = finding(corrected.indicators, thresholds.alpha)
    return (
        found == MemoryVerdict.MEMORY_OF_TEXT,
        found == MemoryVerdict.GAP_TO_FRESH,
        *(cleared(one, thresholds) for one in (corrected, in_panel(evidence))),
    )


def cleared(evidence: Evidence, thresholds: MemoryThresholds) -> bool:
    """Whether the verdict says `nothing_seen_by_this_instrument`. evidence: corrected."""
    gates = (fresh_matched(evidence, thresholds), enough_data(evidence, thresholds))
    return decide(evidence, gates, thresholds).verdict == MemoryVerdict.NOTHING_SEEN


def in_panel(evidence: Evidence) -> Evidence:
    """With p-values as in a panel of PANEL models, by Bonferroni: the most that Holm's correction can take."""
    tests = PANEL * sum(one.judged for one in evidence.indicators)
    indicators = tuple(
        one if one.pvalue is None else replace(one, adjusted=min(tests * one.pvalue, 1.0))
        for one in evidence.indicators
    )
    as_read = None
    if evidence.gap is not None and evidence.gap_adverse is not None and evidence.indicator(Name.GAP).judged:
        as_read = min(tests * evidence.gap.pvalue, 1.0)
    return replace(evidence, indicators=indicators, gap_as_read=as_read)


def calibrate(
    design: MemoryDesign,
    *,
    simulations: int = SIMULATIONS,
    worlds: Mapping[str, World] = WORLDS,
    thresholds: MemoryThresholds | None = None,
    seed: int = SEED,
) -> dict[str, Any]:
    """{"design": ..., "rates": ...}: for each world W the share (0-1) of models in which memory is found, and W_text,
    W_gap of either verdict, W_cleared and W_cleared_panel, each with its Monte-Carlo standard error (..._se)."""
    thresholds = thresholds or MemoryThresholds()
    if design.references:
        thresholds = replace(thresholds, references_min=min(thresholds.references_min, design.references))
    rates: dict[str, float | None] = {"simulations": simulations}
    for k, (name, world) in enumerate(worlds.items()):
        if name in _WITH_FRESH and not design.fresh:
            continue
        rng = np.random.default_rng([seed, design.n, design.fresh, design.references, k])
        outcomes = np.array([judge(design, world, thresholds, rng) for _ in range(simulations)], dtype=float)
        rates |= rate(name, outcomes[:, :2].max(axis=1))
        for label, values in zip(("text", "gap", "cleared", "cleared_panel"), outcomes.T, strict=True):
            rates |= rate(f"{name}_{label}", values)
    return {"design": asdict(design), "rates": rates}


def markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """The table of the documentation: per cent in which memory is found, one row a design."""
    rows = [
        [*(str(e["design"][k]) for k in ("n", "fresh", "references")), *(shown(e["rates"], name) for name in _FOUND)]
        for e in entries
    ]
    return table_text(["items", "fresh", "references", *(name.replace("_", " ") for name in _FOUND)], rows)


def cleared_markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """The table of clearances: per cent of models in which nothing is seen; of a panel with a gap of 10 points."""
    names = [*(f"{name}_cleared" for name in WORLDS), "gap_10_cleared_panel"]
    head = [*(name.replace("_", " ") for name in WORLDS), "gap 10, panel"]
    rows = [
        [*(str(e["design"][k]) for k in ("n", "fresh", "references")), *(shown(e["rates"], name) for name in names)]
        for e in entries
    ]
    return table_text(["items", "fresh", "references", *head], rows)


def main(arguments: Sequence[str] | None = None, designs: Sequence[MemoryDesign] = SHIPPED) -> int:
    """Simulate what ships, print one row a design, and write the table where asked."""
    asked = make_parser("memory", __doc__).parse_args(arguments)
    table: dict[str, Any] = {"seed": SEED, "thresholds": asdict(MemoryThresholds()), "designs": []}
    for design in designs:
        table["designs"].append(calibrate(design, simulations=asked.simulations or SIMULATIONS))
        keep(markdown(table["designs"]), asked.out, table)
    print(f"\n{cleared_markdown(table['designs'])}", end="", flush=True)
    return 0
