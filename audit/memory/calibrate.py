"""How often is this audit itself wrong? Models of known truth through the tests of the real
verdict.

    audit calibrate audit=memory --out audit/data/calibration_memory.json      # the table that ships, minutes

The models are those of `audit.memory.worlds`. Two errors are counted: memory found where there is
none, and the clearance (`nothing_seen_by_this_instrument`) of a model that has memory. Each model
is judged by itself, and as one of a panel of twelve, by Bonferroni: Holm's correction takes no
finding away that this leaves. The gates, which look for faults that a simulation does not have, are
bypassed, but for `fresh_matched` and `fresh_drawn`. A design with one reference is judged with
references_min=1."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from audit.judging.simulated import (
    PANEL,
    Case,
    Entries,
    Procedure,
    by_world,
    shown,
    streams,
    table_text,
)
from audit.judging.world import World
from audit.memory.analyse import DIFFER
from audit.memory.decide import decide
from audit.memory.design import MemoryThresholds
from audit.memory.evidence import Evidence, correct, measure, with_adjusted
from audit.memory.gates import fresh_drawn, fresh_matched
from audit.memory.record import MemoryCell
from audit.memory.vocabulary import Decision
from audit.memory.vocabulary import MemoryVerdict as V
from audit.memory.worlds import CLEAN, WITH_MEMORY, WORLDS, MemoryDesign, simulate

# Permutations of a test: the smallest p, .005, is below Holm's limit for six indicators (not for
# 72).
RESAMPLES = 199
SIMULATIONS = 300
_OF_MEMORY = 2  # divisor of the number of simulations for models with memory

HOSTILE = (
    "clean",
    "spread_wider",
    "spread_narrower",
    "larger_1.5",
    "felt_2",
    "guessed_wider",
    "larger_even",
    "gap_5_guessed",
)
FEW = ("clean", "tau_2", "larger_1.5", "felt_2", "answers", "half", "text", "gap_5")
ALONE = ("clean", "sequenced", "text")  # worlds that tell something without held-out items
QUOTED = (
    "clean",
    "clean_unparsed",
    *DIFFER,
    "answers",
    "half",
    "dose_15",
    "text",
    "gap_5",
)
OF_SCORES = (  # worlds that tell something of a score
    "clean",
    "clean_unparsed",
    "abler",
    "weaker",
    "spread_wider",
    "spread_narrower",
    "tau_2",
    "tau_4",
    "harder",
    "touchy",
    "guessed_wider",
    "guessed_narrower",
    "answers",
    "half",
    "dose_15",
    "half_contaminated",
    "gap_5",
    "gap_5_tau_2",
)

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
_WIDE = 0.10  # another smallest effect that matters, for which clearances are counted too


def judge(design: MemoryDesign, world: World, rng: np.random.Generator) -> tuple[bool, ...]:
    """Return what is counted of one simulated model, in the order of OUTCOMES.

    The counts are: any finding; memory of the text; a gap; a gap of unknown cause; cleared; any
    finding in a panel; cleared in a panel; cleared if 10 points is the smallest effect of interest.
    """
    limits = MemoryThresholds()
    if design.references:
        limits = replace(limits, references_min=min(limits.references_min, design.references))
    evidence = measured(simulate(design, world, rng), limits, rng)
    (alone,) = correct([evidence])
    verdict = decided(alone, limits).verdict
    panel = decided(in_panel(evidence), limits).verdict
    wide = decided(alone, replace(limits, effect_of_interest=_WIDE)).verdict
    finding = (V.MEMORY_OF_TEXT, V.GAP_TO_FRESH)
    cleared = V.NOTHING_SEEN
    return (
        verdict in finding,
        *(verdict == one for one in (*finding, V.CAUSE_UNKNOWN, cleared)),
        panel in finding,
        panel == cleared,
        wide == cleared,
    )


def measured(cell: MemoryCell, limits: MemoryThresholds, rng: np.random.Generator) -> Evidence:
    """Return the evidence of one simulated cell, not yet corrected."""
    return measure(cell, limits, rng=rng, n_resamples=RESAMPLES, gammas=(), describe=False)


def decided(evidence: Evidence, limits: MemoryThresholds) -> Decision:
    """Return the decision on evidence that was corrected."""
    return decide(
        evidence, (fresh_matched(evidence, limits), fresh_drawn(evidence, limits)), limits
    )


def decision_of(cell: MemoryCell, rng: np.random.Generator) -> Decision:
    """Return the decision on one simulated cell by itself."""
    limits = MemoryThresholds()
    (evidence,) = correct([measured(cell, limits, rng)])
    return decided(evidence, limits)


def in_panel(evidence: Evidence) -> Evidence:
    """Return evidence with the p-values of a panel of PANEL models, by Bonferroni: the largest
    correction that Holm's method can make.
    """

    def of(p: float | None, tests: int) -> float | None:
        return None if p is None else min(PANEL * tests * p, 1.0)

    judged = sum(one.judged for one in evidence.indicators)
    unguarded = sum(one.unguarded is not None for one in evidence.indicators)
    adjusted = [of(one.pvalue, judged) for one in evidence.indicators]
    return with_adjusted(
        evidence, adjusted, [of(one.unguarded, unguarded) for one in evidence.indicators]
    )


def procedures(
    options: Namespace, designs: Mapping[MemoryDesign, Sequence[str]] = SHIPPED
) -> tuple[Procedure, ...]:
    """Return the sections of the calibration table.

    The rate W is the share (0-1) of models in world W in which memory is found. W with another of
    OUTCOMES is the share with that outcome, and W_se a Monte-Carlo standard error.
    """
    clean = options.simulations or SIMULATIONS

    def case(design: MemoryDesign, name: str) -> Case:
        count = clean if name in CLEAN else max(clean // _OF_MEMORY, 1)
        return Case(design, name, WORLDS[name], streams(options.seed, design, name, count))

    procedure = Procedure(
        cases=[case(design, name) for design, names in designs.items() for name in names],
        judge=judge,
        entries=by_world(OUTCOMES),
        table=lambda done: markdown(done, [name for name in WORLDS if name in done[0]["rates"]]),
        closing=(lambda done: "\n".join(tables(done)),),
        head={"thresholds": asdict(MemoryThresholds())},
    )
    return (procedure,)


def markdown(entries: Entries, names: Sequence[str] = tuple(CLEAN), label: str = "") -> str:
    """Return a table of one outcome in per cent of models: a row for each world, a column for each
    design.

    `label` is one of OUTCOMES; "" stands for any finding.
    """
    columns = [e["design"] for e in entries]
    alone = [", score alone" if d["score_alone"] else "" for d in columns]
    head = []
    for d, end in zip(columns, alone, strict=True):
        head.append(f"{d['n']} / {d['fresh']}, R={d['references']}{end}")
    rows = []
    for name in names:
        rates = [shown(e["rates"], f"{name}{label}") for e in entries]
        rows.append([name.replace("_", " "), *rates])
    return table_text(["world", *head], rows)


def tables(entries: Entries) -> tuple[str, ...]:
    """Return the tables of the documentation: found without memory, unknown cause, found with
    memory, cleared of 5 points, cleared of 10 points.
    """
    return (
        markdown(entries),
        markdown(entries, label="_unknown"),
        markdown(entries, tuple(WITH_MEMORY)),
        *(markdown(entries, tuple(WORLDS), label) for label in ("_cleared", "_cleared_10")),
    )
