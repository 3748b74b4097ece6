"""Measure how often the procedure is wrong on simulated models that should get neither status.

These are models whose attribute edits move answers as often as their format edits, and invariance
cells in which a group moves answers by exactly the margin.

    audit calibrate audit=validity --out audit/data/calibration_validity.json

Worlds differ in what a test of means is sensitive to. An item has one attribute edit or three. All
items change equally often, or very differently. Wordings change answers as formats do, or never.
Items stand alone, or four to a cluster. The rates are those of the worst world. MODELS models find
it, and AGAIN times as many held-out ones measure it, since the largest of sixteen rates lies above
its mean. A rate may be up to a point too low, if another world is the worst
(docs/findings/validity_calibration.md).
"""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product, starmap
from typing import Any

import numpy as np

from audit.judging.simulated import Case, Entries, Entry, Procedure, table_text
from audit.statistics.paired import FloatArray
from audit.statistics.selectivity import (
    DENOMINATOR_MIN,
    denominator_low,
    ratio,
    ratio_limits,
    selectivity,
)

ALPHA_EACH = 0.025
MARGIN = 0.05  # The margin of invariance cells, as in conf/verdict/validity.yaml.
SURFACE_EDITS = 3
MODELS = 500  # Models of a world in the search for the worst.
AGAIN = 8  # The worst world is measured with so many times as many held-out models.
SPREAD = 2.0  # The sum a + b of the beta if items differ.
_RATIO_RESAMPLES, _RATIO_EVERY = 200, 4  # Every fourth model gets the plain interval.
NAMES = (
    "selective",
    "non_selective",
    "ratio_selective",
    "ratio_non_selective",
    "within_margin",
    "csr_selective",
    "csr_non_selective",
)


@dataclass(frozen=True)
class ValidityDesign:
    """Define one simulated design.

    Attributes
    ----------
    clusters : int
        Independent items.
    change : float
        Mean share of edits that change an answer, of every family.
    """

    clusters: int
    change: float


SHIPPED = tuple(starmap(ValidityDesign, product((24, 36, 60, 200), (0.03, 0.1, 0.25, 0.5))))


@dataclass(frozen=True)
class ChangePattern:
    """How changes of answers spread over items and edits. differ: items have unlike propensities to
    change; wordings: semantic edits change answers, as formats do; per_cluster: items that share
    their propensity."""

    attribute_edits: int
    differ: bool
    wordings: bool
    per_cluster: int = 1


WORLDS = tuple(
    ChangePattern(*values) for values in product((1, 3), (False, True), (False, True), (1, 4))
)


def simulate(
    world: ChangePattern, clusters: int, change: float, rng: np.random.Generator, more: float = 0.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw the mean change of each item under attribute, format and semantic edits.

    Parameters
    ----------
    world : ChangePattern
        What differs between items and edits.
    clusters : int
        Independent items.
    change : float
        Mean share of edits that change an answer.
    rng : numpy.random.Generator
        Source of the changes.
    more : float
        Share that attribute edits add.

    Returns
    -------
    tuple of (n,) array
        Attribute, format and semantic changes, 0-1.
    """
    spread = SPREAD if world.differ else 1e9
    p = np.repeat(rng.beta(spread * change, spread * (1 - change), clusters), world.per_cluster)
    p = p * (1 - more) if more else p  # So `more` can be added to every p.
    attr = (rng.random((world.attribute_edits, p.size)) < p + more).mean(axis=0)
    fmt, sem = (rng.random((2, SURFACE_EDITS, p.size)) < p).mean(axis=1)
    return attr, fmt, sem if world.wordings else np.zeros(p.size)


def worst(
    design: ValidityDesign, worlds: Sequence[ChangePattern], rng: np.random.Generator, models: int
) -> list[float]:
    """Return the rates of the worst world, in the order of NAMES.

    Parameters
    ----------
    design : ValidityDesign
        The design.
    worlds : sequence of ChangePattern
        Worlds to search.
    rng : numpy.random.Generator
        Source of the models.
    models : int
        Models a world in the search.

    Returns
    -------
    list of float
        Share of models that are called selective or non-selective, by D and by the interval of a
        reported ratio. Then the share of invariance cells that are called non-selective although D
        is the margin. Last the share of models called either by the ratio's plain interval.
    """
    searched = [rates_in(world, design.clusters, design.change, models, rng) for world in worlds]
    table = np.array([[rates[name] for name in NAMES] for rates in searched])
    worst_world = table.argmax(axis=0).tolist()
    measured = {}
    for i in sorted(set(worst_world)):
        measured[i] = rates_in(worlds[i], design.clusters, design.change, AGAIN * models, rng)
    return [measured[i][name] for name, i in zip(NAMES, worst_world, strict=True)]


def rates_in(
    world: ChangePattern, clusters: int, change: float, models: int, rng: np.random.Generator
) -> dict[str, float]:
    place = np.repeat(np.arange(clusters), world.per_cluster)
    ours = np.zeros(5)
    plain = np.zeros(2)
    tried = max(1, models // _RATIO_EVERY)
    for k in range(models):
        families = simulate(world, clusters, change, rng)
        tested = selectivity(*families, place)
        beyond = selectivity(*simulate(world, clusters, change, rng, MARGIN), place, MARGIN)
        reported = denominator_low(*families[1:], place) >= DENOMINATOR_MIN
        low, high = ratio_limits(*families, place) if reported else (0.0, np.inf)
        ours += (
            tested.above_p <= ALPHA_EACH,
            tested.below_p <= ALPHA_EACH,
            low > 1,
            high < 1,
            beyond.below_p <= ALPHA_EACH,
        )
        if k < tried:
            csr = ratio(*families, place, rng=rng, n_resamples=_RATIO_RESAMPLES)
            plain += (csr.low > 1, csr.high < 1)
    return dict(zip(NAMES, (*(ours / models).tolist(), *(plain / tried).tolist()), strict=True))


def procedures(
    options: Namespace, designs: Sequence[ValidityDesign] = SHIPPED
) -> tuple[Procedure, ...]:
    """Return the procedure of a calibration.

    Parameters
    ----------
    options : Namespace
        Arguments of the command.
    designs : sequence of ValidityDesign
        Designs.

    Returns
    -------
    tuple of Procedure
        One procedure. One draw of a design is a search for its worst world, so its rates are those
        of that draw.
    """
    models = options.simulations or MODELS

    def entries(case: Case, judged: Sequence[Sequence[Any]]) -> list[Entry]:
        rates = dict(zip(NAMES, judged[0][0], strict=True))
        return [{"design": asdict(case.design), "rates": rates}]

    cases = []
    for design in designs:
        key = (options.seed, design.clusters, round(1000 * design.change))
        cases.append(Case(design, "worst", WORLDS, [(key, 1)]))
    procedure = Procedure(
        cases=cases,
        judge=partial(worst, models=models),
        entries=entries,
        table=markdown,
        head={
            "models": AGAIN * models,
            "plain_models": AGAIN * models // _RATIO_EVERY,
            "models_to_find_the_worst": models,
            "worlds": [asdict(world) for world in WORLDS],
            "thresholds": {"alpha": 2 * ALPHA_EACH, "margin": MARGIN},
        },
    )
    return (procedure,)


def markdown(entries: Entries) -> str:
    """Return the rates in per cent of models, one row per design."""
    rows = []
    for entry in entries:
        design = "{clusters}, {change:.0%}".format(**entry["design"])
        rows.append([design, *(f"{100 * entry['rates'][name]:.2f}" for name in NAMES)])
    return table_text(
        ["independent items, change", *(name.replace("_", " ") for name in NAMES)], rows
    )
