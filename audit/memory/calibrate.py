"""How often is this audit itself wrong? Models of known truth through the tests of the real verdict.

    python -m audit.calibrate audit=memory --out audit/data/calibration_memory.json      # the table that ships, minutes

`audit.memory.worlds` describes how a world is made. The worlds here, of models without memory unless said:

- clean: references are as able as the tested model; clean_unparsed: 4 % of all answers are unparsed, at random;
- abler, weaker: the tested model is 20 points below its references, or above them;
- spread_wider: .85 against references of .60, and the held-out items' difficulties spread twice as wide;
  spread_narrower: .55 against .75, and they spread a sixth as wide; both are as hard for the average reference;
- guessed_wider, guessed_narrower: .85 against .60, spreads as above, and what is not known is guessed at .25;
- tau_2, tau_4: models differ in how the two sets suit them, by 2 or 4 points (standard deviation);
- harder: the held-out items are 10 points harder for every model, in points; newer: 6 for the tested model
  alone, and nobody states the dates (where they are stated, the program refuses such items);
- touchy: one reference loses 8 points on the held-out items;
- larger_1.3, larger_1.5: the published text is .5 spreads more popular, and the tested model makes 1.3 or 1.5 times as
  much of it as its references; family: 1 spread, 1.2 times, and references alike within .05; larger_even: as
  larger_1.5, and likelihoods spread alike over texts;
- sequenced: orders of items and options have a sense of .3 spreads; felt_2: the tested model feels it twice as much;
  larger_all: text, orders and options all 1.5 times;
- chosen_harder: the held-out items are chosen, out of some 10 points harder, by the references' own answers;
- contaminated: one reference has learnt half of the answers.

And of models with memory: answers (30 % of the answers are learnt), half (50 %), dose_15 (15 %), half_abler (50 %,
with abler references), half_contaminated (one reference has learnt the same), text (published text and orders are
likelier by .3 spreads), gap_5 (learnt answers raise the score by the smallest effect that matters exactly: to clear it
is wrong), gap_5_tau_2 (where models differ), gap_5_unparsed (4 % of all answers are unparsed, at random), gap_5_hidden
(4 % of the tested model's answers on each set are unparsed, and all speak for it), gap_5_guessed (as
guessed_narrower), chosen_easier (15 %; the held-out items are chosen, out of some 9 points easier, by the references'
own answers).

Two errors are counted: memory found where there is none, and the clearance (`nothing_seen_by_this_instrument`) of a
model that has memory. Each model is judged by itself, and as one of a panel of twelve, by Bonferroni: Holm's correction
takes no finding away that this leaves. The gates, which look for faults that a simulation does not have, are bypassed,
but for `fresh_matched` and `fresh_drawn`. A design with one reference is judged with references_min=1.
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from audit.memory.decide import decide
from audit.memory.design import MemoryThresholds
from audit.memory.evidence import Evidence, correct
from audit.memory.gates import fresh_drawn, fresh_matched
from audit.memory.measure import measure
from audit.memory.vocabulary import MemoryVerdict
from audit.memory.worlds import MemoryDesign, World, simulate
from audit.verdict.simulated import PANEL, Case, Entries, Entry, Procedure, rates, shown, table_text

RESAMPLES = 199  # of a permutation test: its smallest p, .005, is below what Holm asks of six indicators (not of 72)
SIMULATIONS = 300
_OF_MEMORY = 3  # so many times fewer models with memory are drawn

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

# The designs that ship, and their worlds: `analyse.nearest` picks from them.
SHIPPED: Mapping[MemoryDesign, Sequence[str]] = {
    MemoryDesign(1000, 500, 8): tuple(WORLDS),
    MemoryDesign(1000, 500, 5): tuple(WORLDS),
    MemoryDesign(1000, 500, 3): tuple(WORLDS),
    MemoryDesign(3000, 3000, 8): HOSTILE,
    MemoryDesign(208, 208, 3): FEW,
    MemoryDesign(208): ALONE,
    MemoryDesign(1000): ALONE,
}
OUTCOMES = ("", "_text", "_gap", "_unknown", "_cleared", "_panel", "_cleared_panel", "_cleared_10")
_WIDE = 0.10  # another smallest effect that matters, of which a clearance is counted, too


def judge(design: MemoryDesign, world: World, rng: np.random.Generator) -> tuple[bool, ...]:
    """One model, as in OUTCOMES: any finding, of the text, a gap; something of unknown cause; cleared; any finding in a
    panel; cleared in a panel; cleared where 10 points is the smallest effect that matters."""
    thresholds = MemoryThresholds()
    if design.references:
        thresholds = replace(thresholds, references_min=min(thresholds.references_min, design.references))
    evidence = measure(
        simulate(design, world, rng), thresholds, rng=rng, n_resamples=RESAMPLES, gammas=(), describe=False
    )
    (alone,) = correct([evidence])
    verdict, panel = verdict_of(alone, thresholds), verdict_of(in_panel(evidence), thresholds)
    finding = (MemoryVerdict.MEMORY_OF_TEXT, MemoryVerdict.GAP_TO_FRESH)
    return (
        verdict in finding,
        *(verdict == one for one in (*finding, MemoryVerdict.CAUSE_UNKNOWN, MemoryVerdict.NOTHING_SEEN)),
        panel in finding,
        panel == MemoryVerdict.NOTHING_SEEN,
        verdict_of(alone, replace(thresholds, effect_of_interest=_WIDE)) == MemoryVerdict.NOTHING_SEEN,
    )


def verdict_of(evidence: Evidence, thresholds: MemoryThresholds) -> MemoryVerdict:
    """evidence: corrected."""
    gates = fresh_matched(evidence, thresholds), fresh_drawn(evidence, thresholds)
    return decide(evidence, gates, thresholds).verdict


def in_panel(evidence: Evidence) -> Evidence:
    """With p-values as in a panel of PANEL models, by Bonferroni: the most that Holm's correction can take."""

    def of(p: float | None, tests: int) -> float | None:
        return None if p is None else min(PANEL * tests * p, 1.0)

    judged = sum(one.judged for one in evidence.indicators)
    unguarded = sum(one.unguarded is not None for one in evidence.indicators)
    indicators = tuple(
        replace(one, adjusted=of(one.pvalue, judged), unguarded_adjusted=of(one.unguarded, unguarded))
        for one in evidence.indicators
    )
    return replace(evidence, indicators=indicators)


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
        return [{"design": asdict(case.design), "rates": {"simulations": simulations, **of_world}}]

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
    head = [f"{d['n']} / {d['fresh']}, R={d['references']}" for d in columns]
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
