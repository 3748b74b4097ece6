"""Measure how often the perturbation audit is wrong, on simulated models of known truth.

    audit calibrate audit=perturb --out audit/data/calibration_perturb.json --force
    audit calibrate audit=perturb --control

The first command writes the calibration table that ships with the package. The second command
simulates designs and worlds with held-out items as a control.

`audit.perturb.worlds` simulates the models, which are judged like real models. Two errors are
counted:

- a finding for a model without memory;
- a clearance (`no_drop_detected`) of a model whose true drop is the smallest effect that matters.

Each model is judged alone, and as one of twelve models with Bonferroni's correction. A finding that
is significant after this correction is also significant after Holm's correction.

In each simulation, a person reads `checked` variants and finds which of these are broken. Nothing
else about broken variants is used for the verdict. Most gates look for faults that a simulation
does not have, so only the gate `enough_data` is applied.
"""

import math
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
# Draws for ConStat's curve. A run makes more draws, but the level of the test does not depend on
# their number.
CURVE_DRAWS = 40
SIMULATIONS = 300  # simulated models of each world without memory
SEEDS = 3  # number of consecutive seeds, from --seed on, with equal numbers of simulated models
EVERY: Mapping[str, World] = {**WORLDS, **OTHERS, **LIKE_MEMORY}
# The worlds of the table of clearances: worlds without memory, worlds in which the drop is the
# smallest effect that matters, and worlds with memory.
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

# The designs of the table that ships. `analyse.nearest` chooses among these designs. The designs of
# EVERYWHERE are simulated in every world. The other designs are simulated in the worlds of CORE,
# with half as many models.
EVERYWHERE = (*(PerturbDesign(1000, 3, r) for r in (3, 5, 8)), PerturbDesign(3000, 3, 8))
SHIPPED = (
    *EVERYWHERE,
    *(PerturbDesign(1000, 3, r) for r in (0, 1)),
    *(PerturbDesign(n, 3, r) for n in (500, 200) for r in (0, 5)),
    PerturbDesign(1000, 1, 5),
    PerturbDesign(1000, 3, 5, replicates=2),
    PerturbDesign(1000, 3, 10),  # With ten references or more, ConStat's curve must agree.
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
    """Simulate and judge one model, and return which outcomes the model has.

    Parameters
    ----------
    design : PerturbDesign
        Numbers of items, variants and references to simulate.
    world : World
        What is true of the simulated models and items.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    tuple of float
        1 or 0 for each of RATES; NaN if an outcome is not defined. The first outcomes are the
        verdicts of the model alone and in a panel. The others are:

        - `plain`: a drop beyond the references, without the prior;
        - `article_blocked`: a block by the article's rule, more than 5 % of items (NaN except for
          models without memory);
        - `curve`: the test against ConStat's curve rejects (NaN with too few references);
        - `control`: the comparison with the held-out items alone rejects (NaN without held-out
          items);
        - `uncontrolled`: the comparison with the references alone rejects (NaN without held-out
          items);
        - `strong`: a strong finding.
    """
    limits = PerturbThresholds()
    cell = simulate(design, world, rng)
    statistics = measured(cell, limits, rng)
    tests = statistics.tests

    def verdict(grounds: Grounds, factor: float = 1.0) -> V:
        """Return the verdict that results if all p-values are multiplied by this factor, as in a
        panel.
        """
        pvalues = []
        for p in (grounds.tests.found_p, grounds.tests.beyond_p):
            pvalues.append(None if p is None else min(factor * p, 1.0))
        return decide(grounds, (enough_data(cell, limits),), limits, *pvalues).verdict

    alone, panel = verdict(statistics), verdict(statistics, PANEL)
    control = uncontrolled = np.nan
    if tests.control is not None:
        control = tests.control.pvalue <= limits.alpha
        without_control = _grounds(cell, replace(tests, control=None), limits)
        uncontrolled = verdict(without_control) in BEYOND
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
    """Return the statistics of one simulated cell.

    Parameters
    ----------
    cell : PerturbCell
        The simulated cell.
    limits : PerturbThresholds
        Thresholds of the perturbation audit.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    Grounds
        The input of `decide`.
    """
    return _grounds(cell, run_tests(cell, limits, rng=rng, n_draws=CURVE_DRAWS), limits)


def _grounds(cell: PerturbCell, tests: Tests, limits: PerturbThresholds) -> Grounds:
    """Return the statistics on which the verdict depends, with few draws for the interval."""
    return grounds(cell, tests, limits, rng=np.random.default_rng(0), n_resamples=INTERVAL_DRAWS)


def decision_of(cell: PerturbCell, rng: np.random.Generator) -> Decision:
    """Return the decision on one simulated cell that is judged alone.

    Parameters
    ----------
    cell : PerturbCell
        The simulated cell.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    Decision
        The verdict and its grade.
    """
    limits = PerturbThresholds()
    return decide(measured(cell, limits, rng), (enough_data(cell, limits),), limits)


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this calibration to the command."""
    parser.add_argument(
        "--control", action="store_true", help="designs and worlds with held-out items as a control"
    )


def procedures(
    options: Namespace,
    designs: Sequence[PerturbDesign] | None = None,
    worlds: Mapping[str, World] | None = None,
) -> tuple[Procedure, ...]:
    """Return the sections of the calibration table.

    Parameters
    ----------
    options : Namespace
        Seed, number of simulations, and whether designs have held-out items (--control).
    designs : sequence of PerturbDesign, optional
        The designs; by default those of the table that ships.
    worlds : mapping, optional
        The worlds. By default, the designs of EVERYWHERE are simulated in every world, and the
        other designs in the worlds of CORE with half as many models.

    Returns
    -------
    tuple of Procedure
        One section. Its rate W_R is the share (0-1) of models in world W with outcome R of RATES.
        The name of a Monte-Carlo standard error ends with "_se".

    Notes
    -----
    Worlds with memory have two thirds as many models as worlds without memory. If a design has no
    references, worlds that concern references are left out.
    """
    shipped, table = (WITH_CONTROL, control_markdown) if options.control else (SHIPPED, markdown)
    if options.control and worlds is None:
        worlds = CONTROL_WORLDS
    seeds = range(options.seed, options.seed + SEEDS)
    cases = []
    for design in designs or shipped:
        simulated = _worlds_of(design, worlds, options.simulations or SIMULATIONS)
        for name, world, count in simulated:
            models = [(seed_of(seed, (design, name)), count) for seed in seeds]
            cases.append(Case(design, name, world, models))
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
    """Yield each world of a design with its name and its number of models for each seed."""
    names: Iterable[str] = worlds or EVERY
    if not worlds and design not in EVERYWHERE:
        names, clean = CORE, max(clean // 2, 2)
    for name in names:
        world = (worlds or EVERY)[name]
        if design.references or not (world.references_unparsed or world.tainted):
            models = 2 * clean // 3 if world.wording else clean
            yield name, world, math.ceil(models / SEEDS)


_DESIGN = ("n", "variants", "references", "replicates")


def markdown(entries: Entries) -> str:
    """Return the table of findings by design.

    Parameters
    ----------
    entries : sequence of mapping
        Entries of the calibration table.

    Returns
    -------
    str
        A markdown table with a column for each world of CORE. The numbers are percentages of models
        with a drop beyond the references. If the design has no references, they are percentages of
        models with a drop of unknown cause.
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
    """Return the table of findings by world.

    Parameters
    ----------
    entries : sequence of mapping
        Entries of the calibration table.

    Returns
    -------
    str
        A markdown table of every world in the designs of EVERYWHERE. The numbers are percentages of
        models with a drop beyond the references. Two further percentages are in brackets: strong
        findings, and findings in a panel of twelve models.
    """
    complete = [entry for entry in entries if "logit_beyond" in entry["rates"]]
    head = ["world"]
    for entry in complete:
        head.append("{n} items, {references} references".format(**entry["design"]))
    rows = []
    for name in EVERY:
        cells = []
        for entry in complete:
            rates = entry["rates"]
            strong = 100 * (rates.get(f"{name}_strong") or 0)
            panel = 100 * (rates.get(f"{name}_panel") or 0)
            cells.append(f"{shown(rates, f'{name}_beyond')} ({strong:.1f}; {panel:.1f})")
        rows.append([name.replace("_", " "), *cells])
    return table_text(head, rows)


def cleared_markdown(entries: Entries) -> str:
    """Return the table of clearances.

    Parameters
    ----------
    entries : sequence of mapping
        Entries of the calibration table.

    Returns
    -------
    str
        A markdown table with the percentage of models that are cleared (`no_drop_detected`). For
        models with a drop, the percentage in a panel is added.
    """
    head, columns = ["n", "variants", "references", "runs of the original"], []
    for name in CLEARED:
        head.append(name.replace("_", " "))
        columns.append(f"{name}_cleared")
    head += ["harder, panel", "memorised 5, panel"]
    columns += ["harder_cleared_panel", "memorised_5_cleared_panel"]
    rows = []
    for e in entries:
        rates = [shown(e["rates"], name) for name in columns]
        rows.append([*map(str, map(e["design"].get, _DESIGN)), *rates])
    return table_text(head, rows)


def control_markdown(entries: Entries) -> str:
    """Return the table of designs with held-out items.

    Parameters
    ----------
    entries : sequence of mapping
        Entries of the calibration table.

    Returns
    -------
    str
        A markdown table with the percentage of models with a finding. There are three percentages:
        with both controls, with the references alone, and with the held-out items alone.
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
        for label, control in (
            ("beyond", "both"),
            ("uncontrolled", "references"),
            ("control", "held-out items"),
        ):
            rates = [shown(entry["rates"], f"{world}_{label}") for world in CONTROL_WORLDS]
            rows.append([*design, control, *rates])
    return table_text(head, rows)
