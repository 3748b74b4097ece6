"""Measure how often the procedure is wrong on simulated models that should get neither status.

In these models attribute edits move answers as often as format edits do. In further invariance
cells, a group moves answers by exactly the margin.

    audit calibrate audit=validity --out audit/data/calibration_validity.json --force

Worlds differ in properties to which a test of means is sensitive. An item has one attribute edit or
three. All items change equally often, or very differently. Wordings change answers as often as
formats do, or never. Clusters have one item or four.

The table holds the rates of the worst world. MODELS models select this world. Its rate in them is
too high, since it is the largest of sixteen, so AGAIN times as many other models measure it. A rate
may be up to a point too low, if another world is the worst (docs/findings/validity_calibration.md).
"""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product, starmap
from operator import itemgetter
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
MARGIN = 0.05  # the margin of invariance cells in conf/verdict/validity.yaml
SURFACE_EDITS = 3
MODELS = 500  # models of each world in the search for the worst
AGAIN = 8  # The worst world is measured with AGAIN * MODELS other models.
SPREAD = 2.0  # a + b of the beta distribution, if items differ
_RATIO_RESAMPLES, _RATIO_EVERY = 200, 4  # Every fourth model gets the plain interval.
# The rates, and their titles in a table.
NAMES = {
    "selective": "D: selective",
    "non_selective": "D: non-selective",
    "ratio_selective": "CSR's interval above 1",
    "ratio_non_selective": "CSR's interval below 1",
    "within_margin": "at the margin: non-selective",
    "csr_selective": "percentile interval above 1",
    "csr_non_selective": "percentile interval below 1",
}


@dataclass(frozen=True)
class ValidityDesign:
    """Define one simulated design.

    Attributes
    ----------
    clusters : int
        The number of independent items.
    change : float
        The mean share of edits that change an answer, equal in all families.
    """

    clusters: int
    change: float


SHIPPED = tuple(starmap(ValidityDesign, product((24, 36, 60, 200), (0.03, 0.1, 0.25, 0.5))))


@dataclass(frozen=True)
class ChangePattern:
    """Define how changes of answers are distributed over items and edits.

    differ: items differ in their propensity to change. wordings: semantic edits change answers as
    often as formats do. per_cluster: the number of items that share a propensity."""

    attribute_edits: int
    differ: bool
    wordings: bool
    per_cluster: int = 1


_PATTERNS = product((1, 3), (False, True), (False, True), (1, 4))
WORLDS = tuple(starmap(ChangePattern, _PATTERNS))


def simulate(
    world: ChangePattern, clusters: int, change: float, rng: np.random.Generator, more: float = 0.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Simulate the mean change of each item under attribute, format and semantic edits.

    Parameters
    ----------
    world : ChangePattern
        How changes are distributed.
    clusters : int
        Independent items.
    change : float
        Mean share of edits that change an answer.
    rng : numpy.random.Generator
        Source of the changes.
    more : float
        How much larger the share of attribute edits is.

    Returns
    -------
    tuple of (n,) array
        Attribute, format and semantic changes, 0-1.
    """
    spread = SPREAD if world.differ else 1e9
    p = np.repeat(rng.beta(spread * change, spread * (1 - change), clusters), world.per_cluster)
    p = p * (1 - more) if more else p  # This leaves room for `more` in every p.
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
        The share of models that are called selective and non-selective: first by D, then by the
        interval of a reported ratio. Next, the share of invariance cells that are called
        non-selective although D equals the margin. Last, both shares by the ratio's plain interval.
    """
    searched = [rates_in(world, design.clusters, design.change, models, rng) for world in worlds]
    table = np.array([itemgetter(*NAMES)(rates) for rates in searched])
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
        One procedure. A draw of a design is a whole search for the worst world, so it gives the
        rates.
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
    """Return the table of rates in per cent of models, one row for each design."""
    rows = []
    for entry in entries:
        design = "{clusters}, {change:.0%}".format(**entry["design"])
        rows.append([design, *(f"{100 * entry['rates'][name]:.2f}" for name in NAMES)])
    return table_text(["independent items, share of changed answers", *NAMES.values()], rows)
