"""How often is this audit itself wrong? Models of known truth through the tests of the real verdict.

    audit calibrate audit=memory --out audit/data/calibration_memory.json      # the table that ships, minutes

Items have normal difficulties in logits; a model's logit on an item is its ability less that, with a part of its own
(standard deviation `_OWN_ITEM`). So a gap of equal difficulty for all is neither the same number of points nor the same
share for two models of unlike ability: no world is the null hypothesis of the audit's own tests. The likelihood of a
text, and of each order of a shard or of an item's options, is a normal number, shared by all models but for a part of
their own, times what a model makes of it. CLEAN and WITH_MEMORY have the worlds, and `World` what their numbers mean.
Held-out items of `spread_*` and `guessed_*` are as hard for the average reference; those of `newer` are harder for the
tested model alone, and nobody states the dates (where they are stated, the program refuses such items); those of
`chosen_*` are chosen, out of a pool, by the references' own answers. In gap_5 learnt answers raise the score by the
smallest effect that matters exactly: to clear it is wrong.

Two errors are counted: memory found where there is none, and the clearance (`nothing_seen_by_this_instrument`) of a
model that has memory. Each model is judged by itself, and as one of a panel of twelve, by Bonferroni: Holm's correction
takes no finding away that this leaves. The gates, which look for faults that a simulation does not have, are bypassed,
but for `fresh_matched` and `fresh_drawn`. A design with one reference is judged with references_min=1.
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from audit.memory.decide import decide
from audit.memory.design import MemoryThresholds
from audit.memory.evidence import Evidence, correct, measure, with_adjusted
from audit.memory.gates import fresh_drawn, fresh_matched
from audit.memory.record import TEXT_SCORES, ItemSet, MemoryCell, ModelSet
from audit.memory.vocabulary import Decision
from audit.memory.vocabulary import MemoryVerdict as V
from audit.statistics.paired import FloatArray, IntArray
from audit.verdict.simulated import PANEL, Case, Entries, Entry, Procedure, rates, shown, table_text

N_OPTIONS = 4
ORDERS = 10
OPTION_ORDERS = 5
_OWN_TEXT = 0.3  # share of a likelihood's standard deviation that is a model's own
_OWN_ITEM = 0.7
_POOL = 8  # times as many items as are chosen
_BYTE, _BYTE_SD = -0.7, 0.15  # nats a byte of a text: mean, standard deviation over items
_NORMAL = scipy.stats.norm.ppf((np.arange(401) + 0.5) / 401)
_THETA = np.linspace(-12, 12, 961)


@dataclass(frozen=True)
class MemoryDesign:
    """What is simulated. fresh: held-out items, 0 for none. score_alone: no likelihood is asked, as of imported answers
    and chat endpoints."""

    n: int
    fresh: int = 0
    references: int = 0
    shard_items: int = 5
    score_alone: bool = False


@dataclass(frozen=True, kw_only=True)
class World:
    """Accuracies and points are 0-1, of the benchmark without memory.

    accuracy, others: of the tested model; of the references, evenly between two values. spread, fresh_spread: standard
    deviation of the items' difficulties, in logits. tau: of how models suit the two sets, points. harder: points that
    the held-out set costs every model; newer: the tested model alone; touchy: one reference. answers: share of answers
    that the tested model knows; knowing: how many references know the same. popular: what makes a published text
    likelier than a fresh one, in spreads; uses: what the tested model makes of it; family: half the range of that
    between the references. sequenced: the sense of an order, in spreads; felt: what the tested model makes of that.
    text: what having read the text and its orders is worth, in spreads. unparsed: share of all models' answers, at
    random; hidden: share of the tested model's answers on each set, above 0 those that speak for a gap, below 0 those
    against it. chosen: see above. guess: chance of a right answer that is not known, fresh_guess: on held-out items,
    which have fresh_options; the audit knows the options alone. even: likelihoods spread alike
    over texts whatever a model makes of them.
    """

    accuracy: float = 0.7
    others: tuple[float, float] = (0.65, 0.75)
    spread: float = 1.8
    fresh_spread: float = 1.8
    tau: float = 0.0
    harder: float = 0.0
    newer: float = 0.0
    touchy: float = 0.0
    answers: float = 0.0
    knowing: int = 0
    popular: float = 0.0
    uses: float = 1.0
    family: float = 0.1
    sequenced: float = 0.0
    felt: float = 1.0
    text: float = 0.0
    unparsed: float = 0.0
    hidden: float = 0.0
    chosen: bool = False
    guess: float = 0.0
    fresh_guess: float | None = None
    fresh_options: int = N_OPTIONS
    even: bool = False


def simulate(design: MemoryDesign, world: World, rng: np.random.Generator) -> MemoryCell:
    """One tested model and its references in a world."""
    scores = _scores(design, world, rng)
    uses = np.append(world.uses, 1 + world.family * rng.uniform(-1, 1, design.references))
    felt = np.append(world.felt, 1 + 0.3 * rng.standard_normal(design.references))
    published = _side(design, world, scores[0], uses, felt, rng)
    fresh: list[ModelSet | None] = [None] * len(published)
    if design.fresh:
        fresh[:] = _side(design, world, scores[1], uses, None, rng)
    pairs = list(zip(published, fresh, strict=True))
    fresh_items = _items("fresh", design.fresh, world.fresh_options) if design.fresh else None
    undated = world.newer > 0  # where the dates are stated, such items are refused
    return MemoryCell(_items("simulated", design.n), fresh_items, pairs[0], tuple(pairs[1:]), undated=undated)


def _items(name: str, n: int, options: int = N_OPTIONS) -> ItemSet:
    return ItemSet(name, tuple(map(str, range(n))), np.arange(n), np.full(n, options))


@lru_cache(maxsize=16)
def _accuracies(spread: float) -> FloatArray:
    """Accuracy at each ability of _THETA on items of mean difficulty 0."""
    total = np.hypot(spread, _OWN_ITEM)
    return scipy.special.expit(_THETA[:, None] - total * _NORMAL).mean(axis=1)


def _ability(accuracy: FloatArray, spread: float, guess: float) -> FloatArray:
    return np.interp((accuracy - guess) / (1 - guess), _accuracies(spread), _THETA)


def _accuracy(ability: FloatArray, spread: float, guess: float) -> FloatArray:
    return guess + (1 - guess) * np.interp(ability, _THETA, _accuracies(spread))


def _scores(design: MemoryDesign, world: World, rng: np.random.Generator) -> list[FloatArray]:
    """(models, n) and (models, m) of right answers, NaN where unparsed."""
    accuracy = np.append(world.accuracy, np.linspace(*world.others, design.references))
    ability = _ability(accuracy, world.spread, world.guess)
    theirs = ability[1:] if design.references else ability
    mean = float(_accuracy(theirs, world.spread, world.guess).mean())
    # The held-out set is moved so that the references find it as hard on average.
    moves = np.linspace(-4, 4, 321)
    guesses = world.guess, world.guess if world.fresh_guess is None else world.fresh_guess
    mu = float(np.interp(mean, [_accuracy(theirs + x, world.fresh_spread, guesses[1]).mean() for x in moves], moves))
    there = _accuracy(ability + mu, world.fresh_spread, guesses[1]) - world.harder
    there[0] -= world.newer
    if design.references and world.touchy:
        there[1] -= world.touchy
    published = accuracy + world.tau * rng.standard_normal(accuracy.size)
    abilities = _ability(published, world.spread, guesses[0]), _ability(there, world.fresh_spread, guesses[1])
    sides, like = [], np.zeros(0, dtype=int)
    for side, (n, spread) in enumerate(((design.n, world.spread), (design.fresh, world.fresh_spread))):
        pool = _POOL * n if side and world.chosen else n
        logit = abilities[side][:, None] - spread * rng.standard_normal(pool)
        logit += _OWN_ITEM * rng.standard_normal((accuracy.size, pool))
        right = rng.random((accuracy.size, pool)) < guesses[side] + (1 - guesses[side]) * scipy.special.expit(logit)
        if pool > n:
            right = right[:, _chosen(like, right[1:].sum(axis=0), n)]
        if side == 0:
            like = right[1:].sum(axis=0)
            known = rng.random(n) < world.answers
            right[: 1 + world.knowing] |= known
        scores = right.astype(float)
        if world.unparsed:
            scores[rng.random(scores.shape) < world.unparsed] = np.nan
        if world.hidden:
            kind = float((side == 1) != (world.hidden > 0))
            scores[0, np.flatnonzero(scores[0] == kind)[: round(abs(world.hidden) * n)]] = np.nan  # items have no order
        sides.append(scores)
    return sides


def _chosen(published: IntArray, pool: IntArray, m: int) -> IntArray:
    """(m,) places in a pool, so that each number of right references has its share of the published items."""
    share = np.bincount(published, minlength=pool.max() + 1) / published.size
    quota = np.diff(np.rint(m * np.cumsum(share)), prepend=0).astype(int)
    found = np.concatenate([np.flatnonzero(pool == k)[:some] for k, some in enumerate(quota)])
    return np.append(found, np.setdiff1d(np.arange(pool.size), found))[:m]  # others where a pool has too few


def _side(
    design: MemoryDesign, world: World, scores: FloatArray, uses: FloatArray, felt: FloatArray | None,
    rng: np.random.Generator,
) -> list[ModelSet]:  # fmt: skip
    """Every model on one set of items; felt: None of held-out ones. Where a world is of scores alone, memory of the
    text is still looked for."""
    models, n = scores.shape
    if design.score_alone:
        return [_of_score(f"model {k}", one) for k, one in enumerate(scores)]
    texts = {name: _shared(models, (n,), rng) for name in TEXT_SCORES}
    options = _shared(models, (n, OPTION_ORDERS + 1), rng)
    order = _shared(models, (n // design.shard_items, ORDERS + 1), rng)
    found = []
    for k in range(models):
        read, more, told = world.text if k == 0 else 0.0, 0.0, {}
        if felt is not None:
            more = world.popular * uses[k] + read
            for orders in (order, options):
                orders[k] *= uses[k]
                orders[k, :, 0] += world.sequenced * felt[k] * uses[k] + read
        spread = 1.0 if world.even else uses[k]
        for name, values in texts.items():
            told[name] = _BYTE / (1 + 0.25 * (uses[k] - 1)) + _BYTE_SD * (spread * values[k] + more)
        asked = np.ones(n, dtype=bool)
        found.append(ModelSet(f"model {k}", scores[k], told, {}, np.zeros(n), options[k], order[k], {}, asked=asked))
    return found


def _of_score(name: str, score: FloatArray) -> ModelSet:
    """Return a model of which nothing but answers was asked."""
    n, asked = score.size, np.ones(score.size, dtype=bool)
    texts = {name: np.full(n, np.nan) for name in TEXT_SCORES}
    nothing = np.full((n, 1), np.nan), np.full((0, 1), np.nan)
    return ModelSet(name, score, texts, {}, np.full(n, np.nan), *nothing, {}, asked=asked)


def _shared(models: int, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    own = rng.standard_normal((models, *shape))
    return np.sqrt(1 - _OWN_TEXT**2) * rng.standard_normal(shape) + _OWN_TEXT * own


RESAMPLES = 199  # of a permutation test: its smallest p, .005, is below what Holm asks of six indicators (not of 72)
SIMULATIONS = 300
_OF_MEMORY = 2  # so many times fewer models with memory are drawn

_LEARNT = MemoryThresholds().effect_of_interest / 0.3  # of the answers that are wrong at an accuracy of .7
_OF_15 = MemoryThresholds().effect_of_interest / 0.15  # likewise, of .85
_ABLER, _WEAKER = (0.8, 0.95), (0.45, 0.6)
CLEAN: Mapping[str, World] = {
    "clean": World(),
    "clean_unparsed": World(unparsed=0.04),
    "abler": World(others=_ABLER),
    "weaker": World(others=_WEAKER),
    "spread_wider": World(accuracy=0.85, others=(0.55, 0.65), fresh_spread=3.5),
    "spread_narrower": World(accuracy=0.55, others=(0.7, 0.8), fresh_spread=0.3),
    "tau_2": World(tau=0.02),
    "tau_4": World(tau=0.04),
    "harder": World(harder=0.10),
    "newer": World(newer=0.06),
    "touchy": World(touchy=0.08),
    "larger_1.3": World(popular=0.5, uses=1.3),
    "larger_1.5": World(popular=0.5, uses=1.5),
    "family": World(popular=1.0, uses=1.2, family=0.05),
    "sequenced": World(sequenced=0.3),
    "felt_2": World(sequenced=0.3, felt=2.0),
    "larger_all": World(popular=0.5, sequenced=0.3, uses=1.5, felt=1.5),
    "chosen_harder": World(harder=0.10, chosen=True),
    "larger_even": World(popular=0.5, uses=1.5, even=True),
    "guessed_wider": World(accuracy=0.85, others=(0.55, 0.65), fresh_spread=3.5, guess=0.25),
    "guessed_narrower": World(accuracy=0.85, others=(0.55, 0.65), fresh_spread=0.3, guess=0.25),
}
WITH_MEMORY: Mapping[str, World] = {
    "answers": World(answers=0.3),
    "half": World(answers=0.5),
    "dose_15": World(answers=0.15),
    "half_abler": World(answers=0.5, others=_ABLER),
    "half_contaminated": World(answers=0.5, knowing=1),
    "text": World(text=0.3),
    "gap_5": World(answers=_LEARNT),
    "gap_5_tau_2": World(answers=_LEARNT, tau=0.02),
    "gap_5_unparsed": World(answers=_LEARNT, unparsed=0.04),
    "gap_5_hidden": World(answers=_LEARNT, hidden=0.04),
    "chosen_easier": World(answers=0.15, harder=-0.09, chosen=True),
    "gap_5_guessed": World(accuracy=0.85, others=(0.55, 0.65), fresh_spread=0.3, guess=0.25, answers=_OF_15),
}
WORLDS: Mapping[str, World] = {**CLEAN, **WITH_MEMORY}
HOSTILE = (
    "clean", "spread_wider", "spread_narrower", "larger_1.5", "felt_2", "guessed_wider", "larger_even", "gap_5_guessed",
)  # fmt: skip
FEW = ("clean", "tau_2", "larger_1.5", "felt_2", "answers", "half", "text", "gap_5")
ALONE = ("clean", "sequenced", "text")  # what tells anything without held-out items
QUOTED = (
    "clean", "clean_unparsed", "abler", "weaker", "spread_wider", "spread_narrower", "tau_2", "tau_4", "touchy",
    "larger_1.5", "family", "felt_2", "larger_all", "answers", "half", "dose_15", "text", "gap_5",
)  # fmt: skip
OF_SCORES = (  # what tells anything of a score
    "clean", "clean_unparsed", "abler", "weaker", "spread_wider", "spread_narrower", "tau_2", "tau_4", "harder",
    "touchy", "guessed_wider", "guessed_narrower", "answers", "half", "dose_15", "half_contaminated", "gap_5",
    "gap_5_tau_2",
)  # fmt: skip

# The designs that ship, and their worlds: `analyse.nearest` picks from them.
SHIPPED: Mapping[MemoryDesign, Sequence[str]] = {
    MemoryDesign(1000, 500, 5): tuple(WORLDS),
    **{MemoryDesign(1000, 500, r, score_alone=True): OF_SCORES for r in (5, 3, 8)},
    **{MemoryDesign(1000, 500, r): QUOTED for r in (3, 8)},
    MemoryDesign(208, 208, 3): FEW,
    MemoryDesign(208): ALONE,
    MemoryDesign(1000): ALONE,
    MemoryDesign(3000, 3000, 8): HOSTILE,
}
OUTCOMES = ("", "_text", "_gap", "_unknown", "_cleared", "_panel", "_cleared_panel", "_cleared_10")
_WIDE = 0.10  # another smallest effect that matters, of which a clearance is counted, too


def judge(design: MemoryDesign, world: World, rng: np.random.Generator) -> tuple[bool, ...]:
    """One model, as in OUTCOMES: any finding, of the text, a gap; something of unknown cause; cleared; any finding in a
    panel; cleared in a panel; cleared where 10 points is the smallest effect that matters."""
    limits = MemoryThresholds()
    if design.references:
        limits = replace(limits, references_min=min(limits.references_min, design.references))
    cell = simulate(design, world, rng)
    evidence = measure(cell, limits, rng=rng, n_resamples=RESAMPLES, gammas=(), describe=False)
    (alone,) = correct([evidence])
    verdict = verdict_of(alone, limits)
    panel = verdict_of(in_panel(evidence), limits)
    wide = verdict_of(alone, replace(limits, effect_of_interest=_WIDE))
    finding = (V.MEMORY_OF_TEXT, V.GAP_TO_FRESH)
    cleared = V.NOTHING_SEEN
    return (
        verdict in finding,
        *(verdict == one for one in (*finding, V.CAUSE_UNKNOWN, cleared)),
        panel in finding,
        panel == cleared,
        wide == cleared,
    )


def verdict_of(evidence: Evidence, limits: MemoryThresholds) -> V:
    """Return the verdict of evidence that was corrected."""
    return decided(evidence, limits).verdict


def decided(evidence: Evidence, limits: MemoryThresholds) -> Decision:
    """Return the decision on evidence that was corrected."""
    return decide(evidence, (fresh_matched(evidence, limits), fresh_drawn(evidence, limits)), limits)


def in_panel(evidence: Evidence) -> Evidence:
    """With p-values as in a panel of PANEL models, by Bonferroni: the most that Holm's correction can take."""

    def of(p: float | None, tests: int) -> float | None:
        return None if p is None else min(PANEL * tests * p, 1.0)

    judged = sum(one.judged for one in evidence.indicators)
    unguarded = sum(one.unguarded is not None for one in evidence.indicators)
    adjusted = [of(one.pvalue, judged) for one in evidence.indicators]
    return with_adjusted(evidence, adjusted, [of(one.unguarded, unguarded) for one in evidence.indicators])


def procedures(options: Namespace, designs: Mapping[MemoryDesign, Sequence[str]] = SHIPPED) -> tuple[Procedure, ...]:
    """The rates of each world W: the share (0-1) of models in which memory is found (W), and W with the other OUTCOMES,
    each with its Monte-Carlo standard error (..._se)."""
    simulations = options.simulations or SIMULATIONS
    # The seed of a world. Those of chosen items came later, then guessed and even ones: the others keep theirs.
    later = sorted(WORLDS, key=lambda name: (WORLDS[name].even, WORLDS[name].guess, WORLDS[name].chosen))
    places = {name: place for place, name in enumerate(later)}

    def case(design: MemoryDesign, name: str) -> Case:
        count = simulations if name in CLEAN else max(simulations // _OF_MEMORY, 1)
        key = (options.seed, design.n, design.fresh, design.references, places[name])
        return Case(design, name, WORLDS[name], [(key, count)])

    def entries(case: Case, found: Sequence[Sequence[Any]]) -> list[Entry]:
        of_world = rates([f"{case.name}{outcome}" for outcome in OUTCOMES], found)
        design = asdict(case.design) | {"accuracy": World().accuracy}
        return [{"design": design, "rates": {"simulations": simulations, **of_world}}]

    procedure = Procedure(
        cases=[case(design, name) for design, names in designs.items() for name in names],
        judge=judge,
        entries=entries,
        table=lambda done: markdown(done, [name for name in WORLDS if name in done[0]["rates"]]),
        closing=(lambda done: "\n".join(tables(done)),),
        head={"thresholds": asdict(MemoryThresholds())},
    )
    return (procedure,)


def markdown(entries: Entries, names: Sequence[str] = tuple(CLEAN), label: str = "") -> str:
    """Per cent of models, one row a world and one column a design: found (label ""), or another of OUTCOMES."""
    columns = [e["design"] for e in entries]
    alone = [", score alone" if d["score_alone"] else "" for d in columns]
    head = [f"{d['n']} / {d['fresh']}, R={d['references']}{end}" for d, end in zip(columns, alone, strict=True)]
    rows = [[name.replace("_", " "), *(shown(e["rates"], f"{name}{label}") for e in entries)] for name in names]
    return table_text(["world", *head], rows)


def tables(entries: Entries) -> tuple[str, ...]:
    """Of the documentation: found without memory; of unknown cause; found with memory; cleared of 5 points; of 10."""
    return (
        markdown(entries),
        markdown(entries, label="_unknown"),
        markdown(entries, tuple(WITH_MEMORY)),
        *(markdown(entries, tuple(WORLDS), label) for label in ("_cleared", "_cleared_10")),
    )
