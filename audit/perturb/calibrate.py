"""How often is this audit itself wrong? Models of known truth through the tests of the real
verdict.

    audit calibrate audit=perturb --out audit/data/calibration_perturb.json --force      # the table that ships
    audit calibrate audit=perturb --control      # with held-out items as a control, in worlds of their own

The models are those of `audit.perturb.worlds`. Two errors are counted: a finding where there is
none, and the clearance (`no_drop_detected`) of a model whose true drop is the smallest effect that
matters. Each model is judged by itself, and as one of a panel of twelve, by Bonferroni: Holm's
correction takes no finding away that this leaves.

A person has read `checked` variants of each library, and the verdict knows only what was found
there. The gates, which look for faults that a simulation does not have, are bypassed, but for
`enough_data`."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from audit.judging.simulated import (
    PANEL,
    Case,
    Entries,
    Procedure,
    by_world,
    seed_of,
    shown,
    table_text,
)
from audit.judging.world import World
from audit.perturb.decide import BEYOND, COUNTED, decide
from audit.perturb.design import PerturbThresholds
from audit.perturb.evidence import Grounds, Tests, grounds, run_tests
from audit.perturb.gates import enough_data
from audit.perturb.record import PerturbCell
from audit.perturb.vocabulary import Decision
from audit.perturb.vocabulary import PerturbVerdict as V
from audit.perturb.worlds import (
    CONTROL_WORLDS,
    LIKE_MEMORY,
    OTHERS,
    WORLDS,
    PerturbDesign,
    simulate,
)
from audit.statistics.contamination_score import article_result

INTERVAL_DRAWS = 100  # draws for the interval of the drop, which must exclude zero
# Draws for ConStat's curve; a run makes more, and its level does not depend on them.
CURVE_DRAWS = 40
SIMULATIONS = 300
SEEDS = 3  # number of seeds from --seed on, each with as many simulated models
EVERY: Mapping[str, World] = {**WORLDS, **OTHERS, **LIKE_MEMORY}
# Where clearances are shown: clean worlds, those with a drop of the smallest effect that matters,
# and memory.
CLEARED = (
    "clean",
    "clean_unparsed",
    "harder",
    "memorised_5",
    "memorised_5_unparsed",
    "memorised_5_groups",
    "memorised_5_unread",
    "memorised",
    "memorised_half",
    "softer",
    "softer_memorised",
)
CORE = (
    "clean",
    "clean_unparsed",
    "harder",
    "uneven",
    "memorised",
    "memorised_harder",
    "memorised_half",
    "memorised_5",
)

WITH_CONTROL = (
    *(PerturbDesign(1000, 3, r, control=1000) for r in (0, 1, 5)),
    PerturbDesign(1000, 3, 5, control=300),
)

# The designs that ship: `analyse.nearest` picks from them. The first are simulated in every world,
# the others in CORE with half as many models.
EVERYWHERE = (*(PerturbDesign(1000, 3, r) for r in (3, 5, 8)), PerturbDesign(3000, 3, 8))
SHIPPED = (
    *EVERYWHERE,
    *(PerturbDesign(1000, 3, r) for r in (0, 1)),
    *(PerturbDesign(n, 3, r) for n in (500, 200) for r in (0, 5)),
    PerturbDesign(1000, 1, 5),
    PerturbDesign(1000, 3, 5, replicates=2),
    PerturbDesign(1000, 3, 10),  # from ten references on, ConStat's curve must agree
)
RATES = (
    "beyond",
    "unknown",
    "cleared",
    "withheld",
    "underpowered",
    "panel",
    "cleared_panel",
    "plain",
    "article_blocked",
    "curve",
    "control",
    "uncontrolled",
    "strong",
)


def judge(design: PerturbDesign, world: World, rng: np.random.Generator) -> tuple[float, ...]:
    """Return what is counted of one simulated model, for each of RATES.

    The values are 1 or 0: the verdict of the model alone and as one of a panel; the verdict by the
    rule without a prior; the article's block at over 5 % of items (NaN but for clean models);
    whether ConStat's curve alone rejects (NaN with too few references); whether held-out items
    alone reject, and whether the references alone do (both NaN without held-out items).
    """
    limits = PerturbThresholds()
    cell = simulate(design, world, rng)
    found = measured(cell, limits, rng)
    tests = found.tests

    def verdict(factor: float = 1.0, of: Grounds = found) -> V:
        p = []
        for alone_p in (of.tests.found_p, of.tests.beyond_p):
            p.append(None if alone_p is None else min(factor * alone_p, 1.0))
        return decide(of, (enough_data(cell, limits),), limits, *p).verdict

    alone, panel = verdict(), verdict(PANEL)
    control = uncontrolled = np.nan
    if tests.control is not None:
        control = tests.control.pvalue <= limits.alpha
        uncontrolled = verdict(of=_grounds(cell, replace(tests, control=None), limits)) in BEYOND
    return (
        alone in BEYOND,
        alone == V.CAUSE_UNKNOWN,
        alone == V.NO_DROP_DETECTED,
        alone == V.WITHHELD,
        alone == V.UNDERPOWERED,
        panel in BEYOND,
        panel == V.NO_DROP_DETECTED,
        alone in COUNTED and (tests.plain_p or np.nan) <= limits.alpha,
        article_result(*cell.tested.pair).blocked if world == World() else np.nan,
        np.nan if tests.curve is None else tests.curve.pvalue <= limits.alpha,
        control,
        uncontrolled,
        alone == V.DROP_BEYOND_REFERENCE,
    )


def measured(cell: PerturbCell, limits: PerturbThresholds, rng: np.random.Generator) -> Grounds:
    """Return what the tests of one simulated cell give."""
    return _grounds(cell, run_tests(cell, limits, rng=rng, n_draws=CURVE_DRAWS), limits)


def _grounds(cell: PerturbCell, tests: Tests, limits: PerturbThresholds) -> Grounds:
    return grounds(cell, tests, limits, rng=np.random.default_rng(0), n_resamples=INTERVAL_DRAWS)


def decision_of(cell: PerturbCell, rng: np.random.Generator) -> Decision:
    """Return the decision on one simulated cell by itself."""
    limits = PerturbThresholds()
    return decide(measured(cell, limits, rng), (enough_data(cell, limits),), limits)


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--control", action="store_true", help="designs and worlds with held-out items as a control"
    )


def procedures(
    options: Namespace,
    designs: Sequence[PerturbDesign] | None = None,
    worlds: Mapping[str, World] | None = None,
) -> tuple[Procedure, ...]:
    """Return the section of the rates of each world W.

    For each R of RATES, W_R is a share (0-1) of models and W_R_se its Monte-Carlo standard error.
    Clean models are drawn in the same number from every seed, and two thirds as many of each world
    with memory. By default `worlds` are all worlds in the designs of EVERYWHERE, and CORE with half
    as many models in the others. Worlds about references are left out if a design has none.
    """
    shipped, table = (WITH_CONTROL, control_markdown) if options.control else (SHIPPED, markdown)
    own = CONTROL_WORLDS if options.control and worlds is None else worlds
    seeds = [options.seed + k for k in range(SEEDS)]
    cases = [
        Case(design, name, world, [(seed_of(seed, (design, name)), count) for seed in seeds])
        for design in designs or shipped
        for name, world, count in _worlds_of(design, own, options.simulations or SIMULATIONS)
    ]

    procedure = Procedure(
        cases=cases,
        judge=judge,
        entries=by_world([f"_{name}" for name in RATES]),
        table=table,
        closing=() if options.control else (worlds_markdown, cleared_markdown),
        head={"thresholds": asdict(PerturbThresholds())},
    )
    return (procedure,)


def _worlds_of(
    design: PerturbDesign, worlds: Mapping[str, World] | None, clean: int
) -> Iterator[tuple[str, World, int]]:
    whole = bool(worlds) or design in EVERYWHERE
    every, clean = worlds or EVERY, clean if whole else max(clean // 2, 2)
    for name in every if whole else CORE:
        world = every[name]
        if design.references or not (world.references_unparsed or world.tainted):
            yield name, world, -(-(2 * clean // 3 if world.wording else clean) // SEEDS)


_DESIGN = ("n", "variants", "references", "replicates")


def markdown(entries: Entries) -> str:
    """Return the first table of the documentation.

    It has the worlds of CORE by design, in per cent called beyond reference, or of unknown cause
    without references.
    """
    head = [
        "n",
        "variants",
        "references",
        "runs of the original",
        *(name.replace("_", " ") for name in CORE),
    ]
    rows = []
    for entry in entries:
        d, r = entry["design"], entry["rates"]
        label = "beyond" if d["references"] else "unknown"
        rates = [shown(r, f"{name}_{label}") for name in CORE]
        rows.append([*map(str, map(d.get, _DESIGN)), *rates])
    return table_text(head, rows)


def worlds_markdown(entries: Entries) -> str:
    """Return the second table of the documentation.

    It has every world in the designs of EVERYWHERE, in per cent called beyond reference. In
    brackets are the per cent of strong findings, and the per cent as one of a panel of twelve.
    """
    found = [e for e in entries if "logit_beyond" in e["rates"]]
    head = ["world", *("{n} items, {references} references".format(**e["design"]) for e in found)]
    rows = []
    for name in EVERY:
        cells = []
        for e in found:
            strong, panel = (
                100 * (e["rates"].get(f"{name}_{one}") or 0) for one in ("strong", "panel")
            )
            cells.append(f"{shown(e['rates'], f'{name}_beyond')} ({strong:.1f}; {panel:.1f})")
        rows.append([name.replace("_", " "), *cells])
    return table_text(head, rows)


def cleared_markdown(entries: Entries) -> str:
    """Return the table of clearances: the per cent of models for which no drop is detected, and for
    models with a drop also as one of a panel.
    """
    head = ["n", "variants", "references", "runs of the original"]
    head += [name.replace("_", " ") for name in CLEARED] + ["harder, panel", "memorised 5, panel"]
    columns = [f"{name}_cleared" for name in CLEARED] + [
        "harder_cleared_panel",
        "memorised_5_cleared_panel",
    ]
    rows = []
    for e in entries:
        rates = [shown(e["rates"], name) for name in columns]
        rows.append([*map(str, map(e["design"].get, _DESIGN)), *rates])
    return table_text(head, rows)


def control_markdown(entries: Entries) -> str:
    """Return the table of designs with held-out items.

    It has the per cent called beyond reference by both controls, by the references alone, and by
    the held-out items alone.
    """
    head = [
        "n",
        "references",
        "held-out items",
        "called by",
        *(name.replace("_", " ") for name in CONTROL_WORLDS),
    ]
    rows = []
    for entry in entries:
        design = [str(entry["design"][k]) for k in ("n", "references", "control")]
        for label, by in (
            ("beyond", "both"),
            ("uncontrolled", "references"),
            ("control", "held-out items"),
        ):
            rows.append(
                [*design, by, *(shown(entry["rates"], f"{w}_{label}") for w in CONTROL_WORLDS)]
            )
    return table_text(head, rows)
