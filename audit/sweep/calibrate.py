"""Measure false positive and false negative rates of the verdict on simulated models.

    audit calibrate                                # the shipped designs and worlds
    audit calibrate --n 300 --routers 1..5 --simulations 500
    audit calibrate --observed outputs/my_run      # the sizes and difficulties of a finished run

`audit.sweep.simulation` draws models whose true gain is known. These models are judged with the
same code as real models, including the corrections over a panel and the run variance. The gates
(checks of the measurement) are left out, because they check texts and faults that a simulation does
not have. The shipped table was made with --simulations 300 --worlds 300 in an hour and a half on
one core.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.errors import ConfigError
from audit.judging.simulated import (
    Case,
    Entries,
    Procedure,
    by_name,
    by_world,
    shown,
    streams,
    table_text,
)
from audit.judging.world import World
from audit.statistics.paired import FloatArray
from audit.statistics.permutation import enough_permutations
from audit.statistics.power import discordance_of
from audit.statistics.values import replicates_of, settings_values
from audit.sweep.compare import Comparison
from audit.sweep.decide import decide, over_panel
from audit.sweep.design import Arm, SweepThresholds, parse_routers
from audit.sweep.evidence import Evidence, measure
from audit.sweep.record import cell_shifts, run_shifts, sweep_of
from audit.sweep.simulation import (
    SHIPPED,
    TRUTHS,
    WORLDS,
    Design,
    Simulated,
    design_of,
    simulate,
)
from audit.sweep.vocabulary import Decision, Verdict

# Number of resamples of every bootstrap, and least number of permutations of every test. A real run
# uses more, so its error rates are not higher.
RESAMPLES = 499
SIMULATIONS = 400  # default number of simulated models without memory (the clean world)
FEWEST = 20  # least number of panels of a simulated case
_VERDICTS = {
    "excess": Verdict.EXCESS,
    "cleared": Verdict.NO_EXCESS,
    "uncontrolled": Verdict.UNCONTROLLED,
    "explained": Verdict.EXCESS_EXPLAINED,
    "not_identified": Verdict.NOT_IDENTIFIED,
    "withheld": Verdict.WITHHELD,
}
_COVERAGE = ("coverage_gain", "coverage_mean", "coverage_simultaneous")
NAMES = (*_VERDICTS, "any_excess", "paper_setting", "paper_model", *_COVERAGE)


def decided(
    models: Sequence[Simulated],
    routers: int,
    rng: np.random.Generator,
    n_resamples: int = RESAMPLES,
) -> tuple[list[Evidence], list[Decision]]:
    """Measure each model of a panel and decide its verdict, without gates.

    Parameters
    ----------
    models : sequence of Simulated
        The panel.
    routers : int
        The number of router counts.
    rng : Generator
        Source of randomness.
    n_resamples : int
        Resamples of every bootstrap.

    Returns
    -------
    tuple of list of Evidence and list of Decision
        The evidence and the decision of each model.
    """
    thresholds = SweepThresholds()
    cells = [m.cell for m in models]
    shifts = run_shifts(cells, thresholds.run_sd_plausible)
    permutations = enough_permutations(routers * len(models), thresholds.alpha, n_resamples)
    evidence = []
    for m in models:
        measured = measure(
            m.cell,
            rng=rng,
            n_resamples=n_resamples,
            n_permutations=permutations,
            without_leak=m.without_leak,
            shifts=cell_shifts(m.cell, shifts),
            reference=m.reference,
        )
        evidence.append(measured)
    decisions = []
    for e, corrected in zip(evidence, over_panel(evidence), strict=True):
        decisions.append(decide(e, (), thresholds, corrected))
    return evidence, decisions


def judge(design: Design, world: World, rng: np.random.Generator) -> FloatArray:
    """Simulate and judge one panel.

    Parameters
    ----------
    design : Design
        The simulated sweep.
    world : World
        The effects that act on the simulated models.
    rng : Generator
        Source of randomness.

    Returns
    -------
    array
        A number for each of NAMES:

        - The name of a verdict: the share of the panel's models with this verdict.
        - any_excess: 1 if at least one model of the panel has the verdict excess, otherwise 0.
        - paper_*: results of the paper's rule, applied to replicate 0. They are the share of
          settings with a gain above zero, and the share of models with at least one such setting.
        - coverage_*: the shares of intervals that contain the true gain. There are intervals at
          single r, of the mean over r, and at all r together. The shares are NaN if the simulated
          gain has no single true value.
    """
    models = [simulate(design, world, rng) for _ in range(design.panel)]
    evidence, decisions = decided(models, design.routers, rng)
    verdicts = [decision.verdict for decision in decisions]
    gains_of_models = []
    for m in models:
        first = sweep_of(m.cell, first_only=True)
        gains_of_models.append(np.nanmean(first.noisy - first.clean, axis=1))
    gains = np.stack(gains_of_models)
    coverage = np.full(3, np.nan)
    if world in (World(), World(gain=world.gain)):
        coverage = _coverage(evidence[0].clean, world.gain)
    shares = []
    for verdict in _VERDICTS.values():
        shares.append(verdicts.count(verdict) / len(verdicts))
    paper = np.mean(gains > 0), np.mean(np.any(gains > 0, axis=1))
    return np.array([*shares, Verdict.EXCESS in verdicts, *paper, *coverage], dtype=float)


def _coverage(c: Comparison, truth: float) -> FloatArray:
    """Return the coverage of three kinds of intervals of the gain, 0-1.

    The intervals are pointwise (at single r), for the mean over r, and simultaneous (at all r).
    """
    pointwise = [i.low - 1e-12 <= truth <= i.high + 1e-12 for i in c.pointwise]
    all_r = bool(np.all((c.low - 1e-12 <= truth) & (truth <= c.high + 1e-12)))
    return np.array([np.mean(pointwise), c.mean.low <= truth <= c.mean.high, all_r], dtype=float)


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the sweep's calibration to a parser.

    Parameters
    ----------
    parser : ArgumentParser
        The parser of `audit calibrate`.
    """
    parser.add_argument(
        "--worlds", type=int, help="models of each world (default: half of --simulations)"
    )
    parser.add_argument("--n", help="questions, such as 100 or 100,500")
    parser.add_argument("--routers", default="1..9", help="router counts, such as 1..9 (default)")
    parser.add_argument(
        "--observed", type=Path, metavar="RUN_DIR", help="sizes and difficulties of a finished run"
    )


def procedures(options: Namespace) -> tuple[Procedure, ...]:
    """Return the two sections of the table: designs and worlds.

    Parameters
    ----------
    options : Namespace
        The options of the command.

    Returns
    -------
    tuple of Procedure
        The section of the designs that the user selected, and the section of worlds. The section of
        worlds is empty unless the user selected the shipped designs.
    """
    designs = _designs(options)
    total = options.simulations
    half = SIMULATIONS // 2 if total is None else max(total // 2, FEWEST)
    return (
        of_designs(designs, total or SIMULATIONS, half, options.seed),
        of_worlds(WORLDS if designs == list(SHIPPED) else (), options.worlds or half, options.seed),
    )


def of_designs(designs: Sequence[Design], clean: int, other: int, seed: int) -> Procedure:
    """Return the section in which each design is simulated in every world of TRUTHS.

    A world is a scenario: it states how noise changes the answers of the simulated models.

    Parameters
    ----------
    designs : sequence of Design
        The designs.
    clean, other : int
        The number of models in the clean world, and in each other world.
    seed : int
        Seed of the simulation.

    Returns
    -------
    Procedure
        The section. A rate (0-1, with its standard error) has the key `<world>_<name>`, where the
        name is in NAMES. For example, clean_any_excess is the false positive rate, and
        gain_one_r_cleared and gain_5_cleared are false negative rates.
    """
    cases = []
    for design, (truth, world) in product(designs, TRUTHS.items()):
        cases.append(_case(design, truth, world, clean if truth == "clean" else other, seed))
    head = {"thresholds": SweepThresholds().to_dict()}
    return Procedure(cases, judge, by_world([f"_{name}" for name in NAMES]), markdown, head=head)


def of_worlds(worlds: Sequence[tuple[str, Design, World]], models: int, seed: int) -> Procedure:
    """Return the section of worlds (scenarios) with an effect other than memory.

    Parameters
    ----------
    worlds : sequence of (str, Design, World)
        The name, the design and the world of each entry.
    models : int
        The number of models of each world.
    seed : int
        Seed of the simulation.

    Returns
    -------
    Procedure
        The section, with a rate for each of NAMES.
    """
    cases = [_case(design, name, world, models, seed) for name, design, world in worlds]
    return Procedure(cases, judge, by_name(NAMES), worlds_markdown, section="worlds")


def _case(design: Design, name: str, world: World, models: int, seed: int) -> Case:
    """Return a case with enough panels for a number of models, and at least FEWEST panels."""
    panels = max(models // design.panel, FEWEST)
    return Case(design, name, world, streams(seed, design, name, panels))


def _designs(options: Namespace) -> list[Design]:
    if options.observed:
        return list(observed_design(options.observed))
    if not options.n:
        return list(SHIPPED)
    routers = parse_routers(options.routers)
    if routers != tuple(range(1, len(routers) + 1)):
        raise ConfigError(
            f"--routers is {options.routers!r}. Expected a range that starts at 1. "
            "Example: --routers 1..9."
        )
    return [Design(n=_whole(part), routers=len(routers)) for part in options.n.split(",")]


def _whole(text: str) -> int:
    if not text.strip().isdigit() or int(text) < 2:
        raise ConfigError(
            f"--n is {text!r}. Expected whole numbers of at least 2. Example: --n 100,500."
        )
    return int(text)


def observed_design(run_dir: Path) -> Iterator[Design]:
    """Yield a design for each cell of a finished run.

    Parameters
    ----------
    run_dir : Path
        The run directory.

    Yields
    ------
    Design
        The sizes and draws of the cell, with its observed accuracy and discordance.
    """
    # Arrow is imported here, because only this option needs it.
    from audit.shards.read import load_cells
    from audit.sweep.audit import SCHEMA

    cells = load_cells(run_dir, SCHEMA)
    for cell in cells:
        clean = []
        for setting in replicates_of(cell, Arm.FORWARD_FULL, 1):
            clean.append(settings_values(cell, [setting]))
        sweep = sweep_of(cell)
        accuracy = float(np.clip(np.nanmean(sweep.clean), 0.02, 0.98))
        ceiling = 2 * accuracy * (1 - accuracy)
        # The discordance without an effect is measured between two clean replicates. Without
        # replicates, the discordance between the noisy and the clean arm is used. It is larger if
        # noise has a true effect.
        pair = clean[:2] if len(clean) > 1 else (sweep.clean, sweep.noisy)
        observed = discordance_of(*pair)
        discordance = round(float(np.clip(observed, 0.02 * ceiling, 0.98 * ceiling)), 4)
        yield design_of(cell, round(accuracy, 4), discordance, len(cells))


# Columns of the printed tables: first the columns of the design, then the columns of the rates.
_OF_DESIGN = {
    "n": "{n}",
    "r": "1..{routers}",
    "draws": "{draws}",
    "clean runs": "{clean_replicates}",
    "noisy runs": "{noisy_replicates}",
    "accuracy": "{clean_accuracy:g}",
    "panel": "{panel}",
}
_OF_DESIGNS = {
    "clean_paper_setting": "paper: settings",
    "clean_paper_model": "paper: models",
    "clean_any_excess": "false positive",
    "gain_one_r_cleared": "false negative, +5 at one r",
    "gain_5_cleared": "+5 at every r",
    "clean_cleared": "clean: cleared",
    "gain_5_excess": "+5: excess",
    "gain_5_uncontrolled": "uncontrolled",
    "gain_10_excess": "+10: excess",
    "gain_10_uncontrolled": "uncontrolled",
    "clean_coverage_gain": "coverage: gain",
    "clean_coverage_mean": "mean",
    "clean_coverage_simultaneous": "all r",
}
_OF_WORLDS = ("any_excess", "uncontrolled", "cleared", "explained", "withheld")


def markdown(entries: Entries) -> str:
    """Return the table of calibrated designs that the command prints.

    Parameters
    ----------
    entries : sequence of mapping
        The entries of the section.

    Returns
    -------
    str
        Markdown with one row for each design. The rates are in per cent of models.
    """
    rows = []
    for e in entries:
        row = _shown_design(e, _OF_DESIGN)
        for truth in ("clean", "gain_5"):
            row.append(f"{e['rates'][f'{truth}_simulations']:g}")
        for column in _OF_DESIGNS:
            row.append(shown(e["rates"], column))
        rows.append(row)
    return table_text(
        [*_OF_DESIGN, "clean models", "models with a gain", *_OF_DESIGNS.values()], rows
    )


def worlds_markdown(entries: Entries) -> str:
    """Return the table of worlds (simulated scenarios) that the command prints.

    Parameters
    ----------
    entries : sequence of mapping
        The entries of the section.

    Returns
    -------
    str
        Markdown with one row for each world. Rates are in per cent of models; the column "any
        excess" is in per cent of panels.
    """
    design = ("n", "r", "clean runs", "noisy runs", "panel")
    rows = []
    for e in entries:
        row = [e["name"], *_shown_design(e, design), f"{e['rates']['simulations']:g}"]
        for column in _OF_WORLDS:
            row.append(shown(e["rates"], column))
        rows.append(row)
    names = [column.replace("_", " ") for column in _OF_WORLDS]
    return table_text(["effect that acts", *design, "models", *names], rows)


def _shown_design(entry: Mapping[str, Any], columns: Iterable[str]) -> list[str]:
    return [_OF_DESIGN[name].format(**entry["design"]) for name in columns]
