"""How often is the procedure itself wrong, in both directions? Simulated models of known truth, the
real verdict.

    audit calibrate                                     designs and worlds that ship (`make calibrate`)
    audit calibrate --n 300 --routers 1..5 --simulations 500
    audit calibrate --observed outputs/my_run           difficulties and sizes of a finished run

`audit.sweep.simulation` draws the models; they go through the code of the real verdict, panels and
run variance included, but for the gates, which look at texts and faults that a simulation does not
have. The table that ships was made with --simulations 300 --worlds 300: an hour and a half on one
core."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

# Resamples of every bootstrap, and at least of every permutation test; a run has more, so its level
# is no worse.
RESAMPLES = 499
SIMULATIONS, FEWEST = 400, 20
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
    """Return what is measured of each model of a panel, with its decision. Gates are not applied."""
    thresholds = SweepThresholds()
    shifts = run_shifts([m.cell for m in models], thresholds.run_sd_plausible)
    permutations = enough_permutations(routers * len(models), thresholds.alpha, n_resamples)
    found = []
    for m in models:
        evidence = measure(
            m.cell,
            rng=rng,
            n_resamples=n_resamples,
            n_permutations=permutations,
            without_leak=m.without_leak,
            shifts=cell_shifts(m.cell, shifts),
            reference=m.reference,
        )
        found.append(evidence)
    panel = zip(found, over_panel(found), strict=True)
    return found, [decide(e, (), thresholds, corrected) for e, corrected in panel]


def judge(design: Design, world: World, rng: np.random.Generator) -> FloatArray:
    """Return a number for each of NAMES, for one model or panel.

    Verdicts are shares of the panel's cells, and any_excess is 1 if one cell has an excess. The
    paper_* numbers are of replicate 0: settings with a gain above zero, and models with any. The
    coverage_* numbers are shares of intervals that hold the true gain: over r, of the mean over r,
    and at all r at once. They are NaN if there is no single true gain.
    """
    models = [simulate(design, world, rng) for _ in range(design.panel)]
    found, decisions = decided(models, design.routers, rng)
    verdicts = [one.verdict for one in decisions]
    first = [sweep_of(m.cell, first_only=True) for m in models]
    gains = np.stack([np.nanmean(s.noisy - s.clean, axis=1) for s in first])
    covered = np.full(3, np.nan)
    if world in (World(), World(gain=world.gain)):
        c, truth = found[0].clean, world.gain
        held = [i.low - 1e-12 <= truth <= i.high + 1e-12 for i in c.pointwise]
        together = bool(np.all((c.low - 1e-12 <= truth) & (truth <= c.high + 1e-12)))
        covered = np.array(
            [np.mean(held), c.mean.low <= truth <= c.mean.high, together], dtype=float
        )
    share = [verdicts.count(verdict) / len(verdicts) for verdict in _VERDICTS.values()]
    paper = np.mean(gains > 0), np.mean(np.any(gains > 0, axis=1))
    return np.array([*share, Verdict.EXCESS in verdicts, *paper, *covered], dtype=float)


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--worlds", type=int, help="models a world (default: half of --simulations)"
    )
    parser.add_argument("--n", help="questions, such as 100 or 100,500")
    parser.add_argument("--routers", default="1..9", help="router counts, such as 1..9 (default)")
    parser.add_argument(
        "--observed", type=Path, metavar="RUN_DIR", help="sizes and difficulties of a finished run"
    )


def procedures(options: Namespace) -> tuple[Procedure, ...]:
    """Return the section of the designs that the user named. The shipped designs also have their
    worlds.
    """
    designs = _designs(options)
    total = options.simulations
    half = SIMULATIONS // 2 if total is None else max(total // 2, FEWEST)
    return (
        of_designs(designs, total or SIMULATIONS, half, options.seed),
        of_worlds(WORLDS if designs == list(SHIPPED) else (), options.worlds or half, options.seed),
    )


def of_designs(designs: Sequence[Design], clean: int, other: int, seed: int) -> Procedure:
    """Return the section of the rates `<truth>_<name>` (0-1) of each of TRUTHS, with their standard
    errors.

    The rate clean_any_excess is that of false positives. gain_one_r_cleared and gain_5_cleared are
    rates of false negatives. The paper_* rates apply the paper's rule to clean models. `clean` and
    `other` are the numbers of models of the clean truth, and of each other truth.
    """

    def case(design: Design, truth: str, world: World) -> Case:
        return _case(design, truth, world, clean if truth == "clean" else other, seed)

    cases = [case(design, *truth) for design in designs for truth in TRUTHS.items()]
    head = {"thresholds": SweepThresholds().to_dict()}
    return Procedure(cases, judge, by_world([f"_{name}" for name in NAMES]), markdown, head=head)


def of_worlds(worlds: Sequence[tuple[str, Design, World]], models: int, seed: int) -> Procedure:
    """Return the section of worlds in which an effect other than memory acts, each with a design of
    its own.
    """

    cases = [_case(design, name, world, models, seed) for name, design, world in worlds]
    return Procedure(cases, judge, by_name(NAMES), worlds_markdown, section="worlds")


def _case(design: Design, name: str, world: World, models: int, seed: int) -> Case:
    """Return a case of as many panels as the models fill, and at least FEWEST."""
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
            f"Invalid --routers {options.routers!r}: a calibration simulates r=1..R, such as 1..9."
        )
    return [Design(n=_whole(part), routers=len(routers)) for part in options.n.split(",")]


def _whole(text: str) -> int:
    if not text.strip().isdigit() or int(text) < 2:
        raise ConfigError(
            f"Invalid --n {text!r}: expected whole numbers of at least 2, such as 100 or 100,500."
        )
    return int(text)


def observed_design(run_dir: Path) -> Iterator[Design]:
    """Return a design for each cell of a finished run, with its sizes and draws, and with accuracy
    and discordance as observed.
    """
    from audit.shards.read import load_cells  # Arrow is needed for this option only
    from audit.sweep.audit import SCHEMA

    cells = load_cells(run_dir, SCHEMA)
    for cell in cells:
        clean = [settings_values(cell, [s]) for s in replicates_of(cell, Arm.FORWARD_FULL, 1)]
        sweep = sweep_of(cell)
        accuracy = float(np.clip(np.nanmean(sweep.clean), 0.02, 0.98))
        ceiling = 2 * accuracy * (1 - accuracy)
        # Clean against clean where there are replicates; else against noisy, which a true effect
        # would inflate.
        pair = (
            discordance_of(clean[0], clean[1])
            if len(clean) > 1
            else discordance_of(sweep.clean, sweep.noisy)
        )
        discordance = round(float(np.clip(pair, 0.02 * ceiling, 0.98 * ceiling)), 4)
        yield design_of(cell, round(accuracy, 4), discordance, len(cells))


# The columns of the tables: of the design, and of the rates.
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
    """Return the table of designs in per cent, one row for each."""
    rows = []
    for e in entries:
        models = [f"{e['rates'][f'{truth}_simulations']:g}" for truth in ("clean", "gain_5")]
        rates = (shown(e["rates"], c) for c in _OF_DESIGNS)
        rows.append([*_shown_design(e, _OF_DESIGN), *models, *rates])
    return table_text(
        [*_OF_DESIGN, "clean models", "models with a gain", *_OF_DESIGNS.values()], rows
    )


def worlds_markdown(entries: Entries) -> str:
    """Return the table of worlds, one row for each, in per cent of models. The column "any excess"
    is in per cent of panels.
    """
    design = ("n", "r", "clean runs", "noisy runs", "panel")
    rows = []
    for e in entries:
        rates = (shown(e["rates"], c) for c in _OF_WORLDS)
        rows.append(
            [e["name"], *_shown_design(e, design), f"{e['rates']['simulations']:g}", *rates]
        )
    return table_text(
        ["what acts", *design, "models", *(name.replace("_", " ") for name in _OF_WORLDS)], rows
    )


def _shown_design(entry: Mapping[str, Any], columns: Iterable[str]) -> list[str]:
    return [_OF_DESIGN[name].format(**entry["design"]) for name in columns]
