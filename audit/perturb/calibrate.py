"""How often is this audit itself wrong? Models of known truth through the tests of the real verdict.

    python -m audit.calibrate audit=perturb --out audit/data/calibration_perturb.json      # the table that ships
    python -m audit.calibrate audit=perturb --control      # with fresh items as a control, in worlds of their own

A simulated benchmark has n items. Each model answers item i right with a chance of its own: Beta distributed over items
(`audit.statistics.difficulty`), correlated between models (easy items are easy for most), references of accuracies
around the tested model's. The worlds:

- clean: nothing is special about the original wordings;
- harder: variants cost every model about 5 points (the same share of its accuracy);
- uneven: the same, but what it costs differs between models with a standard deviation of 2 points;
- stronger: the same as harder, with references whose mean accuracy is 15 points below the tested model's;
- broken_2, broken_5: 2 % or 5 % of the variants lost their answer, and every model guesses at these;
- memorised: the tested model is right on 15 % of the originals because it remembers them;
- memorised_harder, memorised_broken_2: both at once;
- memorised_5: right on a sixth of the originals, so that its drop is 5 points, the effect of interest: to clear it is
  wrong, and so it is in the world harder, where its drop is 5 points too;
- memorised_5_groups: the same, but items are in groups of ten, known to the run, and remembered by whole groups;
- memorised_5_unread: the same, and 4 % of its variants' answers, all of them wrong, are not read;
- harder_unread: harder, and 4 % of the tested model's answers to variants, all of them right, are not read;
- harder_references_unread: harder, and 4 % of every reference's, all of them wrong, are not read.

Two errors are counted: a finding where there is none, and the clearance (`no_drop_detected`) of a model whose true drop
is the effect of interest. Each model is judged by itself, and as one of a panel of twelve, by Bonferroni: Holm's
correction takes no finding away that this leaves.

With a control the same models answer fresh items, too, whose variants cost what the benchmark's do, but for two worlds:

- fresh_easier: the benchmark's variants cost 5 points and the fresh items' nothing, which breaks the control;
- memorised_fresh_harder: memory, and fresh items whose variants cost 5 points where the benchmark's cost nothing.

A person has read `checked` variants of each library, and the verdict knows only what was found there. The gates, which
look for faults that a simulation does not have, are bypassed, but for `enough_data`.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from audit.perturb.decide import decide, finding, standing
from audit.perturb.evidence import Grounds, Tests, grounds, run_tests
from audit.perturb.gates import enough_data
from audit.perturb.record import BrokenShare, PerturbCell, Wordings
from audit.perturb.result import PerturbVerdict
from audit.perturb.thresholds import PerturbThresholds
from audit.statistics.contamination_score import article_result
from audit.statistics.difficulty import beta_shape, draw_latent, shift
from audit.statistics.paired import BoolArray, FloatArray
from audit.verdict.simulated import PANEL, SEEDS, keep, make_parser, rate, shown, table_text

N_OPTIONS = 4
INTERVAL_DRAWS = 50  # of the drop's interval, which a verdict's reasons quote and nothing rests on
CURVE_DRAWS = 100  # of ConStat's curve; a run draws more, on which its level does not depend
SIMULATIONS = 300
_GRID = np.linspace(0, 1, 4001)


@dataclass(frozen=True)
class PerturbDesign:
    """What is simulated. checked: variants a person read. replicates: of every model's originals, sampled. accuracy,
    flip (two wordings disagree), item_correlation (of latent difficulties between models) and reference_spread (half
    the range of the references' accuracies): 0-1. control: fresh items; not in the name that a design's random numbers
    come from, so that its models are the same with and without."""

    n: int
    variants: int
    references: int
    checked: int = 150
    replicates: int = 1
    accuracy: float = 0.7
    flip: float = 0.2
    item_correlation: float = 0.7
    reference_spread: float = 0.1
    control: int = field(default=0, repr=False)


@dataclass(frozen=True)
class World:
    """harder: points lost under the variants by a model of the design's accuracy; uneven: standard deviation of that
    between models; broken: share of variants without their answer; memorised: share of originals remembered; weaker:
    how far the references' mean accuracy is below the tested model's; fresh_easier: points that the variants of fresh
    items cost less than the benchmark's; group: items that are remembered together; unread, unread_right: share of the
    tested model's variants that are wrong, or right, and not read; references_unread: of the references' that are
    wrong and not read."""

    harder: float = 0.0
    uneven: float = 0.0
    broken: float = 0.0
    memorised: float = 0.0
    weaker: float = 0.0
    fresh_easier: float = 0.0
    group: int = 1
    unread: float = 0.0
    unread_right: float = 0.0
    references_unread: float = 0.0


_OF_INTEREST = PerturbThresholds().effect_of_interest / (1 - PerturbDesign.accuracy)  # of the wrong, remembered
WORLDS: Mapping[str, World] = {
    "clean": World(),
    "harder": World(harder=0.05),
    "uneven": World(harder=0.05, uneven=0.02),
    "stronger": World(harder=0.05, weaker=0.15),
    "broken_2": World(broken=0.02),
    "broken_5": World(broken=0.05),
    "memorised": World(memorised=0.15),
    "memorised_harder": World(memorised=0.15, harder=0.05),
    "memorised_broken_2": World(memorised=0.15, broken=0.02),
    "memorised_5": World(memorised=_OF_INTEREST),
    "memorised_5_groups": World(memorised=_OF_INTEREST, group=10),
    "memorised_5_unread": World(memorised=_OF_INTEREST, unread=0.04),
    "harder_unread": World(harder=0.05, unread_right=0.04),
    "harder_references_unread": World(harder=0.05, references_unread=0.04),
}
# Where clearances are counted: in the clean world, in those with a drop of about the effect of interest, with less.
CLEARED = ("clean", "harder", "uneven", "memorised_5", "memorised_5_groups", "memorised_5_unread", "memorised")

CONTROL_WORLDS: Mapping[str, World] = {
    **{name: WORLDS[name] for name in ("clean", "harder", "uneven", "broken_5", "memorised", "memorised_harder")},
    "fresh_easier": World(harder=0.05, fresh_easier=0.05),
    "memorised_fresh_harder": World(memorised=0.15, fresh_easier=-0.05),
}
WITH_CONTROL = (
    *(PerturbDesign(1000, 3, r, control=1000) for r in (0, 1, 5)),
    PerturbDesign(1000, 3, 5, control=300),
)

# The designs that ship: `calibrated.nearest` picks from them.
SHIPPED = (
    *(PerturbDesign(1000, 3, r, checked) for checked in (150, 300) for r in (0, 1, 5)),
    *(PerturbDesign(n, 3, r) for n in (500, 200) for r in (0, 5)),
    *(PerturbDesign(1000, v, 5) for v in (1, 9)),
    PerturbDesign(1000, 3, 5, replicates=2),
    *(PerturbDesign(1000, 3, r) for r in (3, 8)),
    *(PerturbDesign(1000, 3, r) for r in (10, 20)),  # from ten references on, ConStat's curve must agree
)
RATES = (
    "beyond", "brittle", "article_triggered", "article_blocked", "curve", "control", "uncontrolled", "cleared",
    "cleared_panel",
)  # fmt: skip


def simulate(design: PerturbDesign, world: World, rng: np.random.Generator) -> PerturbCell:
    """One tested model and its references in a world."""
    n, r = design.n, design.references
    means = design.accuracy - world.weaker + design.reference_spread * np.linspace(-1, 1, r) if r > 1 else None
    accuracies = [design.accuracy, *(means if means is not None else [design.accuracy - world.weaker] * r)]
    latent = draw_latent((r + 1, n), design.item_correlation, rng)
    broken = rng.random((design.variants, n)) < world.broken
    models, costs = [], []
    for k, accuracy in enumerate(accuracies):
        costs.append(world.harder + world.uneven * rng.standard_normal())
        memorised = world.memorised if k == 0 else None
        models.append(
            _answers(design, f"model {k}", accuracy, costs[k], memorised, latent[k], broken, rng, world.group)
        )
    found = int(rng.binomial(design.checked, world.broken))
    models[0] = _unread(_unread(models[0], world.unread, rng), world.unread_right, rng, answer=1)
    models[1:] = [_unread(one, world.references_unread, rng) for one in models[1:]]
    cell = _cell(models, broken, BrokenShare(design.checked, found), group=world.group)
    if not design.control:
        return cell
    rng = rng.spawn(1)[0]  # a stream of its own: with and without a control the models are the same
    latent = draw_latent((1, design.control), design.item_correlation, rng)
    broken = rng.random((design.variants, design.control)) < world.broken
    cost = costs[0] - world.fresh_easier
    fresh = _answers(design, "model 0", accuracies[0], cost, None, latent[0], broken, rng)
    return replace(cell, control=_cell([fresh], broken, None, "fresh"))


def _answers(
    design: PerturbDesign, name: str, accuracy: float, cost: float, memorised: float | None, latent: FloatArray,
    broken: BoolArray, rng: np.random.Generator, group: int = 1,
) -> Wordings:  # fmt: skip
    """One model on n items. cost: points that variants cost a model of the design's accuracy; memorised: share of the
    originals, None where nothing can be; latent: (n,); broken: (N, n)."""
    share = design.flip / (2 * design.accuracy * (1 - design.accuracy))
    a, b = beta_shape(accuracy, share * 2 * accuracy * (1 - accuracy))
    theta = np.interp(latent, _GRID, _quantiles(a, b))
    reworded = np.where(
        broken, 1 / N_OPTIONS, shift(theta, -min(cost * accuracy / design.accuracy, accuracy), accuracy)
    )
    original = rng.random((design.replicates, latent.size)) < theta
    if memorised is not None:
        original |= np.repeat(rng.random(-(-latent.size // group)) < memorised, group)[: latent.size]
    answers = rng.random(broken.shape) < reworded
    return Wordings(name, original.astype(float), answers.astype(float))


def _unread(one: Wordings, share: float, rng: np.random.Generator, answer: int = 0) -> Wordings:
    """The same with that share of its variants, all of them wrong ones (answer 0) or right ones (1), not read."""
    if not share:
        return one
    such = one.variants == answer
    lost = such & (rng.random(such.shape) < share / max(float(such.mean()), share))
    return replace(one, variants=np.where(lost, np.nan, one.variants))


def _cell(
    models: Sequence[Wordings], broken: BoolArray, checked: BrokenShare | None, benchmark: str = "simulated",
    group: int = 1,
) -> PerturbCell:  # fmt: skip
    n = broken.shape[1]
    return PerturbCell(
        benchmark=benchmark,
        question_ids=tuple(map(str, range(n))),
        cluster=np.arange(n) // group,
        n_options=np.full(n, N_OPTIONS),
        tested=models[0],
        references=tuple(models[1:]),
        broken=checked,
    )


def judge(
    design: PerturbDesign,
    world: World,
    thresholds: PerturbThresholds,
    rng: np.random.Generator,
    *,
    clearing: bool = True,
) -> tuple[float, ...]:
    """One model, 1 or 0 for each of RATES: beyond reference, brittle, the article's CS > .10 and p < .05, its block at
    over 5 % of items, and whether ConStat's curve alone rejects at alpha (NaN where too few references give no curve),
    whether fresh items alone do, and whether it is beyond reference but for them (both NaN without); whether it is
    cleared, by itself and in a panel (NaN unless clearing).
    """
    cell = simulate(design, world, rng)
    tests = run_tests(cell, thresholds, rng=rng, n_draws=CURVE_DRAWS)
    found = held(tests, thresholds.alpha)
    article = article_result(*cell.tested.pair)
    control = alone = np.nan
    if tests.control is not None:
        control = tests.control.pvalue <= thresholds.alpha
        alone = held(replace(tests, control=None), thresholds.alpha) == PerturbVerdict.DROP_BEYOND_REFERENCE
    clear = (np.nan, np.nan)
    if clearing:
        interval = np.random.default_rng(0)  # of its own: what is found does not depend on clearing
        ground = grounds(cell, tests, thresholds, rng=interval, n_resamples=INTERVAL_DRAWS)
        clear = cleared(ground, thresholds)
    return (
        found == PerturbVerdict.DROP_BEYOND_REFERENCE,
        found == PerturbVerdict.BRITTLE_CAUSE_UNKNOWN,
        article.triggered,
        article.blocked,
        np.nan if tests.curve is None else tests.curve.pvalue <= thresholds.alpha,
        control,
        alone,
        *clear,
    )


def held(tests: Tests, alpha: float) -> PerturbVerdict | None:
    """The finding that the verdict states: one that is not withheld for unread answers."""
    found = finding(tests, alpha)
    return found if found == standing(tests, alpha) else None


def cleared(found: Grounds, thresholds: PerturbThresholds) -> tuple[float, float]:
    """Whether the verdict says `no_drop_detected`, of the model by itself and as one of a panel of PANEL."""
    gates = (enough_data(found.detectable, thresholds),)
    alone = decide(found, gates, thresholds).verdict
    p = [None if one is None else min(PANEL * one, 1.0) for one in (found.tests.found_p, found.tests.beyond_p)]
    panel = decide(found, gates, thresholds, *p).verdict
    return alone == PerturbVerdict.NO_DROP_DETECTED, panel == PerturbVerdict.NO_DROP_DETECTED


def calibrate(
    design: PerturbDesign,
    *,
    simulations: int = SIMULATIONS,
    worlds: Mapping[str, World] = WORLDS,
    thresholds: PerturbThresholds | None = None,
    seeds: Sequence[int] = SEEDS,
) -> dict[str, Any]:
    """{"design", "rates", "by_seed", "seeds"}: for each world W and each R of RATES the share (0-1) of models W_R
    with its Monte-Carlo standard error W_R_se; by_seed: W_beyond of each seed by itself.

    simulations: clean models, the same number from every seed; two thirds as many of each world with memory.
    """
    thresholds = thresholds or PerturbThresholds()
    rates: dict[str, float | None] = {}
    by_seed: dict[str, list[float]] = {}
    for name, world in worlds.items():
        if (world.weaker or world.references_unread) and not design.references:
            continue
        count = -(-(2 * simulations // 3 if world.memorised else simulations) // len(seeds))
        rates["power_simulations" if world.memorised else "simulations"] = float(count * len(seeds))
        parts = []
        for seed in seeds:
            rng = np.random.default_rng([seed, zlib.crc32(repr((design, name)).encode())])
            judged = [judge(design, world, thresholds, rng, clearing=name in CLEARED) for _ in range(count)]
            parts.append(np.array(judged, dtype=float))
        by_seed[name] = [round(float(part[:, 0].mean()), 6) for part in parts]
        for label, values in zip(RATES, np.concatenate(parts).T, strict=True):
            if not np.isnan(values).any():
                rates |= rate(f"{name}_{label}", values)
    return {"design": asdict(design), "rates": rates, "by_seed": by_seed, "seeds": list(seeds)}


def markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """The table of the documentation: per cent, one row a design; beyond reference, or brittle without references."""
    names = [name.replace("_", " ") for name in WORLDS]
    head = ["n", "variants", "references", "read", "runs of the original", *names, "article blocks a clean model"]
    rows = []
    for entry in entries:
        d, r = entry["design"], entry["rates"]
        label = "beyond" if d["references"] else "brittle"
        row = [str(d[k]) for k in ("n", "variants", "references", "checked", "replicates")]
        rows.append([*row, *(shown(r, f"{name}_{label}") for name in WORLDS), shown(r, "clean_article_blocked")])
    return table_text(head, rows)


def curve_markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """The second table of the documentation: of the designs with a curve, what it rejects by itself."""
    rows = [
        [str(entry["design"]["references"]), *(shown(entry["rates"], f"{name}_curve") for name in WORLDS)]
        for entry in entries
        if "clean_curve" in entry["rates"]
    ]
    return table_text(["references", *(name.replace("_", " ") for name in WORLDS)], rows)


def cleared_markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """The table of clearances: per cent of models for which no drop is detected; of a panel those with a drop."""
    head = ["n", "variants", "references", "read", "runs of the original"]
    head += [name.replace("_", " ") for name in CLEARED] + ["harder, panel", "memorised 5, panel"]
    columns = [f"{name}_cleared" for name in CLEARED] + ["harder_cleared_panel", "memorised_5_cleared_panel"]
    rows = [
        [
            *(str(e["design"][k]) for k in ("n", "variants", "references", "checked", "replicates")),
            *(shown(e["rates"], name) for name in columns),
        ]
        for e in entries
    ]
    return table_text(head, rows)


def control_markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """The table of designs with fresh items: per cent called beyond reference by both, by the references without fresh
    items, and what fresh items alone would call so."""
    head = ["n", "references", "fresh items", "called by", *(name.replace("_", " ") for name in CONTROL_WORLDS)]
    rows = []
    for entry in entries:
        design = [str(entry["design"][k]) for k in ("n", "references", "control")]
        for label, by in (("beyond", "both"), ("uncontrolled", "references"), ("control", "fresh items")):
            rows.append([*design, by, *(shown(entry["rates"], f"{w}_{label}") for w in CONTROL_WORLDS)])
    return table_text(head, rows)


@lru_cache(maxsize=64)
def _quantiles(a: float, b: float) -> FloatArray:
    """Quantiles of a Beta distribution at _GRID: exact ones take longer than all the rest of a simulation."""
    found: FloatArray = scipy.stats.beta.ppf(_GRID, a, b)
    return found


def main(arguments: Sequence[str] | None = None, designs: Sequence[PerturbDesign] | None = None) -> int:
    """Simulate what ships (or with --control what has fresh items), print one row a design, and write the table where
    asked. designs: in their place."""
    parser = make_parser("perturb", __doc__)
    parser.add_argument("--control", action="store_true", help="designs and worlds with fresh items as a control")
    asked = parser.parse_args(arguments)
    table: dict[str, Any] = {"thresholds": asdict(PerturbThresholds()), "designs": []}
    worlds, text, rows = (CONTROL_WORLDS, control_markdown, 3) if asked.control else (WORLDS, markdown, 1)
    for design in designs or (WITH_CONTROL if asked.control else SHIPPED):
        table["designs"].append(calibrate(design, simulations=asked.simulations or SIMULATIONS, worlds=worlds))
        keep(text(table["designs"]), asked.out, table, rows)
    if not asked.control:
        print(f"\n{cleared_markdown(table['designs'])}", end="", flush=True)
    if any("clean_curve" in entry["rates"] for entry in table["designs"]):
        print(f"\n{curve_markdown(table['designs'])}", end="", flush=True)
    return 0
