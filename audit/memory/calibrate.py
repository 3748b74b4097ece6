"""Measure how often the memory audit is wrong, on simulated models of known truth.

    audit calibrate audit=memory --out audit/data/calibration_memory.json --force

The command writes the calibration table that ships with the package. It takes some minutes.

`audit.memory.worlds` simulates the models, which are judged like real models. Two errors are
counted:

- a finding for a model without memory;
- a clearance (`nothing_seen_by_this_instrument`) of a model with memory.

Each model is judged alone, and as one of twelve models with Bonferroni's correction. A finding that
is significant after this correction is also significant after Holm's correction.

Most gates look for faults that a simulation does not have. Only the gates `fresh_matched` and
`fresh_drawn` are therefore applied. A design with one reference is judged with references_min=1.
"""

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

# Number of permutations of a test, which gives p-values of .005 or more. This is below Holm's limit
# for the six indicators of one model, but not for the 72 indicators of a panel.
RESAMPLES = 199
SIMULATIONS = 300  # simulated models of each world without memory
_OF_MEMORY = 2  # For worlds with memory, the number of simulations is divided by this number.

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
ALONE = ("clean", "sequenced", "text")  # worlds of designs without held-out items
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
OF_SCORES = (  # worlds of designs in which only the score is measured
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

# The designs of the table that ships, with their worlds. `analyse.nearest` chooses among them.
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
# A second value of the smallest effect that matters, for which clearances are counted too.
_WIDE = 0.10


def judge(design: MemoryDesign, world: World, rng: np.random.Generator) -> tuple[bool, ...]:
    """Simulate and judge one model, and return which outcomes the model has.

    Parameters
    ----------
    design : MemoryDesign
        Numbers of items and references to simulate.
    world : World
        What is true of the simulated models and items.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    tuple of bool
        True or False for each of OUTCOMES, in this order:

        - any finding;
        - memory of the text;
        - a gap;
        - a gap of unknown cause;
        - cleared;
        - any finding, in a panel;
        - cleared, in a panel;
        - cleared if 10 points is the smallest effect that matters.
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
        verdict == V.MEMORY_OF_TEXT,
        verdict == V.GAP_TO_FRESH,
        verdict == V.CAUSE_UNKNOWN,
        verdict == cleared,
        panel in finding,
        panel == cleared,
        wide == cleared,
    )


def measured(cell: MemoryCell, limits: MemoryThresholds, rng: np.random.Generator) -> Evidence:
    """Return the evidence of one simulated cell, before p-values are corrected over a panel.

    Parameters
    ----------
    cell : MemoryCell
        The simulated cell.
    limits : MemoryThresholds
        Thresholds of the memory audit.
    rng : numpy.random.Generator
        Source of the permutations.

    Returns
    -------
    Evidence
        The statistics on which a verdict depends.
    """
    return measure(cell, limits, rng=rng, n_resamples=RESAMPLES, gammas=(), describe=False)


def decided(evidence: Evidence, limits: MemoryThresholds) -> Decision:
    """Return the decision on one cell.

    Parameters
    ----------
    evidence : Evidence
        The evidence with adjusted p-values.
    limits : MemoryThresholds
        Thresholds of the memory audit.

    Returns
    -------
    Decision
        The verdict and its grade.
    """
    return decide(
        evidence, (fresh_matched(evidence, limits), fresh_drawn(evidence, limits)), limits
    )


def decision_of(cell: MemoryCell, rng: np.random.Generator) -> Decision:
    """Return the decision on one simulated cell that is judged alone.

    Parameters
    ----------
    cell : MemoryCell
        The simulated cell.
    rng : numpy.random.Generator
        Source of the permutations.

    Returns
    -------
    Decision
        The verdict and its grade.
    """
    limits = MemoryThresholds()
    (evidence,) = correct([measured(cell, limits, rng)])
    return decided(evidence, limits)


def in_panel(evidence: Evidence) -> Evidence:
    """Return evidence with p-values corrected as in a panel of PANEL models.

    Parameters
    ----------
    evidence : Evidence
        The evidence of one model.

    Returns
    -------
    Evidence
        The evidence with p-values corrected by Bonferroni's method. Holm's method never makes a
        larger correction.
    """

    pvalues, unguarded = [], []
    for indicator in evidence.indicators:
        pvalues.append(indicator.pvalue)
        unguarded.append(indicator.unguarded)
    return with_adjusted(evidence, _bonferroni(pvalues), _bonferroni(unguarded))


def _bonferroni(pvalues: Sequence[float | None]) -> list[float | None]:
    """Multiply p-values by the number of p-values in a panel, and limit the products to 1. None
    stays None.
    """
    tests = PANEL * sum(p is not None for p in pvalues)
    return [None if p is None else min(tests * p, 1.0) for p in pvalues]


def procedures(
    options: Namespace, designs: Mapping[MemoryDesign, Sequence[str]] = SHIPPED
) -> tuple[Procedure, ...]:
    """Return the sections of the calibration table.

    Parameters
    ----------
    options : Namespace
        Seed and number of simulations.
    designs : mapping
        The worlds of each design.

    Returns
    -------
    tuple of Procedure
        One section with several rates for each world W. The rate W is the share (0-1) of models
        with any finding. The rate W + OUTCOME is the share with another of OUTCOMES. The name of a
        Monte-Carlo standard error ends with "_se".
    """
    clean = options.simulations or SIMULATIONS
    cases = []
    for design, names in designs.items():
        for name in names:
            count = clean if name in CLEAN else max(clean // _OF_MEMORY, 1)
            models = streams(options.seed, design, name, count)
            cases.append(Case(design, name, WORLDS[name], models))
    procedure = Procedure(
        cases=cases,
        judge=judge,
        entries=by_world(OUTCOMES),
        table=lambda done: markdown(done, [name for name in WORLDS if name in done[0]["rates"]]),
        closing=(lambda done: "\n".join(tables(done)),),
        head={"thresholds": asdict(MemoryThresholds())},
    )
    return (procedure,)


def markdown(entries: Entries, names: Sequence[str] = tuple(CLEAN), label: str = "") -> str:
    """Return a table of one outcome in per cent of models.

    Parameters
    ----------
    entries : sequence of mapping
        Entries of the calibration table.
    names : sequence of str
        The worlds.
    label : str
        One of OUTCOMES; "" means any finding.

    Returns
    -------
    str
        A row for each world, and a column for each design.
    """
    head = []
    for entry in entries:
        design = entry["design"]
        alone = ", score alone" if design["score_alone"] else ""
        head.append(f"{design['n']} / {design['fresh']}, R={design['references']}{alone}")
    rows = []
    for name in names:
        rates = [shown(e["rates"], f"{name}{label}") for e in entries]
        rows.append([name.replace("_", " "), *rates])
    return table_text(["world", *head], rows)


def tables(entries: Entries) -> tuple[str, ...]:
    """Return the tables of rates that the documentation shows.

    Parameters
    ----------
    entries : sequence of mapping
        Entries of the calibration table.

    Returns
    -------
    tuple of str
        Tables of findings without memory, of gaps of unknown cause, of findings with memory, and of
        clearances. Clearances are shown for two values of the smallest effect that matters: 5 and
        10 points.
    """
    return (
        markdown(entries),
        markdown(entries, label="_unknown"),
        markdown(entries, tuple(WITH_MEMORY)),
        markdown(entries, tuple(WORLDS), "_cleared"),
        markdown(entries, tuple(WORLDS), "_cleared_10"),
    )
