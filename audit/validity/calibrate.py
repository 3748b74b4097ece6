"""Measure how often the validity audit is wrong, on simulated answers.

    audit calibrate audit=validity --out audit/data/calibration_validity.json --force

In the simulated models, edits of the content change answers exactly as often as edits of the layout
do. So calling such a model selective or non-selective is an error. A second simulation is for
invariance cells: edits of the content change answers more often by exactly the margin.

There are sixteen worlds, which combine four properties to which a test of means is sensitive:

- each item has one or three edits of the content;
- answers change equally often for all items, or at very different rates;
- edits of the wording change answers as often as edits of the layout, or never;
- clusters have one item or four items.

The table holds the rates of the worst world. First, MODELS models of each world show which world is
the worst. The largest of sixteen observed rates is biased upwards, so the rate of this world is
measured again, with REPEATS times as many new models. If another world is in fact the worst, the
rate may be up to one point too low (docs/findings/validity_calibration.md).
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
MODELS = 500  # simulated models of each world in the search for the worst world
REPEATS = 8  # The worst world is measured with REPEATS * MODELS new models.
SPREAD = 2.0  # a + b of the beta distribution, if items differ
# The plain interval of the ratio is slow to compute, so it is computed for one model in four only.
_RATIO_RESAMPLES, _RATIO_EVERY = 200, 4
# Maps each rate to its title in a table.
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
    """Describe one simulated design.

    Attributes
    ----------
    clusters : int
        Number of independent items.
    change : float
        Mean share of edits that change an answer. It is the same for all families.
    """

    clusters: int
    change: float


SHIPPED = tuple(starmap(ValidityDesign, product((24, 36, 60, 200), (0.03, 0.1, 0.25, 0.5))))


@dataclass(frozen=True)
class ChangePattern:
    """Describe a simulated world: how often edits change answers, by item and kind of edit.

    Attributes
    ----------
    attribute_edits : int
        Number of edits of the content of each item.
    differ : bool
        Whether items differ in how often their answers change.
    wordings : bool
        True if edits of the wording change answers as often as edits of the layout do. False if
        they never change an answer.
    per_cluster : int
        Number of items in a cluster. The answers of a cluster's items change equally often.
    """

    attribute_edits: int
    differ: bool
    wordings: bool
    per_cluster: int = 1


_PATTERNS = product((1, 3), (False, True), (False, True), (1, 4))
WORLDS = tuple(starmap(ChangePattern, _PATTERNS))


def simulate(
    world: ChangePattern, clusters: int, change: float, rng: np.random.Generator, more: float = 0.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw the share of edits that change the answer, for each item and family.

    Parameters
    ----------
    world : ChangePattern
        How changes are distributed.
    clusters : int
        Number of clusters.
    change : float
        Mean share of edits that change an answer.
    rng : numpy.random.Generator
        Source of the draws.
    more : float
        How much larger the share is for edits of the content than for other edits.

    Returns
    -------
    tuple of (n,) array
        For each of the n items, the share (0-1) of edits that change the answer: one array for
        edits of the content, one for the layout, and one for the wording.
    """
    spread = SPREAD if world.differ else 1e9
    p = np.repeat(rng.beta(spread * change, spread * (1 - change), clusters), world.per_cluster)
    p = p * (1 - more) if more else p  # p + more must not exceed 1.
    attr = (rng.random((world.attribute_edits, p.size)) < p + more).mean(axis=0)
    fmt, sem = (rng.random((2, SURFACE_EDITS, p.size)) < p).mean(axis=1)
    return attr, fmt, sem if world.wordings else np.zeros(p.size)


def worst(
    design: ValidityDesign, worlds: Sequence[ChangePattern], rng: np.random.Generator, models: int
) -> list[float]:
    """Return the error rates in the world where they are highest, in the order of NAMES.

    Parameters
    ----------
    design : ValidityDesign
        The design.
    worlds : sequence of ChangePattern
        The worlds to search.
    rng : numpy.random.Generator
        Source of the draws.
    models : int
        Number of models of each world in the search.

    Returns
    -------
    list of float
        Seven shares of models (0-1):

        - called selective by D, and called non-selective by D;
        - called selective, and called non-selective, by the interval of a reported ratio CSR;
        - invariance cells that are called non-selective although D equals the margin;
        - called selective, and called non-selective, by the plain interval of the ratio CSR.
    """
    searched = [rates_in(world, design.clusters, design.change, models, rng) for world in worlds]
    table = np.array([itemgetter(*NAMES)(rates) for rates in searched])
    worst_world = table.argmax(axis=0).tolist()
    measured = {}
    for i in sorted(set(worst_world)):
        measured[i] = rates_in(worlds[i], design.clusters, design.change, REPEATS * models, rng)
    return [measured[i][name] for name, i in zip(NAMES, worst_world, strict=True)]


def rates_in(
    world: ChangePattern, clusters: int, change: float, models: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return the rates of wrong results in one world.

    Parameters
    ----------
    world : ChangePattern
        The world.
    clusters : int
        Number of clusters.
    change : float
        Mean share of edits that change an answer.
    models : int
        Number of simulated models.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    dict
        Maps each of NAMES to its rate (0-1).
    """
    place = np.repeat(np.arange(clusters), world.per_cluster)
    counts = np.zeros(5)
    plain = np.zeros(2)
    tried = max(1, models // _RATIO_EVERY)
    for k in range(models):
        families = simulate(world, clusters, change, rng)
        tested = selectivity(*families, place)
        beyond = selectivity(*simulate(world, clusters, change, rng, MARGIN), place, MARGIN)
        reported = denominator_low(*families[1:], place) >= DENOMINATOR_MIN
        low, high = ratio_limits(*families, place) if reported else (0.0, np.inf)
        counts += (
            tested.above_p <= ALPHA_EACH,
            tested.below_p <= ALPHA_EACH,
            low > 1,
            high < 1,
            beyond.below_p <= ALPHA_EACH,
        )
        if k < tried:
            csr = ratio(*families, place, rng=rng, n_resamples=_RATIO_RESAMPLES)
            plain += (csr.low > 1, csr.high < 1)
    return dict(zip(NAMES, (*(counts / models).tolist(), *(plain / tried).tolist()), strict=True))


def procedures(
    options: Namespace, designs: Sequence[ValidityDesign] = SHIPPED
) -> tuple[Procedure, ...]:
    """Return the sections of the calibration table.

    Parameters
    ----------
    options : Namespace
        Seed and number of simulations.
    designs : sequence of ValidityDesign
        The designs.

    Returns
    -------
    tuple of Procedure
        A tuple with one section. One draw of a design is a whole search for the worst world, and
        gives all rates.
    """
    models = options.simulations or MODELS

    def entries(case: Case, judged: Sequence[Sequence[Any]]) -> list[Entry]:
        """Return the entry of one design."""
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
            "models": REPEATS * models,
            "plain_models": REPEATS * models // _RATIO_EVERY,
            "models_to_find_the_worst": models,
            "worlds": [asdict(world) for world in WORLDS],
            "thresholds": {"alpha": 2 * ALPHA_EACH, "margin": MARGIN},
        },
    )
    return (procedure,)


def markdown(entries: Entries) -> str:
    """Return the rates as a table in Markdown, in per cent of models.

    Parameters
    ----------
    entries : sequence of mapping
        Entries of the calibration table.

    Returns
    -------
    str
        A table with one row for each design.
    """
    rows = []
    for entry in entries:
        design = "{clusters}, {change:.0%}".format(**entry["design"])
        rows.append([design, *(f"{100 * entry['rates'][name]:.2f}" for name in NAMES)])
    return table_text(["independent items, share of changed answers", *NAMES.values()], rows)
