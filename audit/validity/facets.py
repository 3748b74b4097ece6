"""Compare runs under several seeds, scorers, templates and system prompts (pure; li2026, App. F).

The module computes how far the figures move, and whether a status is stable: it is if every run has
it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import NormalDist, fmean, stdev
from typing import Any

import numpy as np

from audit.judging.document import AuditVerdict, Difference
from audit.judging.tables import columns, csv_text, digits
from audit.statistics.gstudy import components
from audit.validity.record import Cell
from audit.validity.status import SEED_CV
from audit.validity.vocabulary import ValidityCell

UNSTABLE = "unstable"
_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Stability:
    """Report one cell over the runs.

    Attributes
    ----------
    cell : str
        Name.
    statuses : tuple of str
        Status of each run.
    csr, csr_cv : float or None
        Mean ratio and its sd / mean, None if a run has no ratio or the mean is 0.
    difference : float or None
        Mean D, 0-1.
    between, within : float or None
        Standard deviations of D: of the runs beyond sampling, and the mean standard error of one
        run.
    """

    cell: str
    statuses: tuple[str, ...]
    csr: float | None
    csr_cv: float | None
    difference: float | None
    between: float | None
    within: float | None

    @property
    def status(self) -> str:
        """Return the status of every run, or UNSTABLE if they differ."""
        return self.statuses[0] if len(set(self.statuses)) == 1 else UNSTABLE


def stability(verdicts: Sequence[AuditVerdict[ValidityCell]]) -> list[Stability]:
    """Compare the statuses of each cell over runs.

    Parameters
    ----------
    verdicts : sequence of AuditVerdict
        One a run; all have the same cells.

    Returns
    -------
    list of Stability
        One a cell.
    """
    cells = defaultdict(list)
    for cell in chain.from_iterable(verdict.cells for verdict in verdicts):
        name = f"{cell.model} on {cell.benchmark}"
        cells[name + (f" ({cell.context})" if cell.context else "")].append(cell)
    return [_one(name, of_cell) for name, of_cell in cells.items()]


def _one(name: str, cells: Sequence[ValidityCell]) -> Stability:
    evidence = [cell.evidence for cell in cells if cell.evidence]
    estimates = [e.csr["own key"].estimate for e in evidence if "own key" in e.csr]
    ratios = [ratio for ratio in estimates if ratio is not None]
    computed = list(chain.from_iterable(_with_errors(e.primary) for e in evidence))
    whole = len(ratios) == len(cells) > 1
    mean = fmean(ratios) if ratios else None
    between = within = None
    differences = [difference for difference, _ in computed]
    if len(computed) == len(cells) > 1:
        within = fmean(error**2 for _, error in computed) ** 0.5
        between = max(0.0, stdev(differences) ** 2 - within**2) ** 0.5
    return Stability(
        cell=name,
        statuses=tuple(cell.verdict for cell in cells),
        csr=mean,
        csr_cv=stdev(ratios) / mean if whole and mean else None,
        difference=fmean(differences) if computed else None,
        between=between,
        within=within,
    )


def _with_errors(one: Difference | None) -> list[tuple[float, float]]:
    """Return (D, its standard error), if both were computed."""
    if one is None or one.difference is None or one.low is None or one.high is None:
        return []
    return [(one.difference, (one.high - one.low) / 2 / _Z)]


def facets_csv(found: Sequence[Stability]) -> str:
    """Return one line a cell; gate_seed_cv_lt_03 is Appendix G's."""
    rows = (
        {
            "s": s,
            "runs": len(s.statuses),
            "stable": None if s.csr_cv is None else s.csr_cv < SEED_CV,
            "statuses": " ".join(s.statuses),
        }
        for s in found
    )
    return columns(
        rows,
        "cell=s.cell",
        "runs",
        "csr=s.csr",
        "csr_cv=s.csr_cv",
        "gate_seed_cv_lt_03=stable",
        "D=s.difference",
        "sd_between_runs=s.between",
        "se_within=s.within",
        "status=s.status",
        "statuses",
    )


@dataclass(frozen=True)
class Variance:
    """Report which part of the variance of one cell's scores (0-1) items, facets and both together
    have.

    Attributes
    ----------
    cell : str
        Name.
    items : int
        Items of each seed.
    components : mapping
        As `statistics.gstudy.components`.
    """

    cell: str
    items: int
    components: Mapping[tuple[str, ...], float]

    @property
    def between(self) -> float:
        """Return the standard deviation of a score over the runs, beyond what its items explain."""
        return sum(value for effect, value in self.components.items() if ITEM not in effect) ** 0.5

    @property
    def shares(self) -> dict[str, float | None]:
        """Return each effect's share of the sum; None if the sum is 0."""
        total = sum(self.components.values())
        return {
            " x ".join(effect): value / total if total else None
            for effect, value in self.components.items()
        }


ITEM = "item"


def variance(runs: Sequence[Sequence[Cell]], facets: Mapping[str, Sequence[Any]]) -> list[Variance]:
    """Estimate the variance of items and facets for each cell that every run has (a G-study).

    Parameters
    ----------
    runs : sequence of sequence of Cell
        Cells of each run.
    facets : mapping of str to sequence
        Each facet's value by run, two or more, crossed.

    Returns
    -------
    list of Variance
        One a cell. Seeds that draw other items have items of their own: these are nested.
    """
    cells = defaultdict(list)
    for cell in (cell_of_run for run in runs for cell_of_run in run):
        cells[cell.name].append(cell)
    return [
        _variance(name, of_name, facets)
        for name, of_name in cells.items()
        if len(of_name) == len(runs)
    ]


def _variance(name: str, cells: Sequence[Cell], facets: Mapping[str, Sequence[Any]]) -> Variance:
    scores = [
        {i: s for i, s in zip(c.question_ids, c.score_before, strict=True) if np.isfinite(s)}
        for c in cells
    ]
    seeds = facets.get("seed", [0] * len(cells))
    read = {
        seed: sorted(
            set.intersection(*(set(s) for s, k in zip(scores, seeds, strict=True) if k == seed))
        )
        for seed in seeds
    }
    shared = sorted(set.intersection(*map(set, read.values())))
    fewest = min(map(len, read.values()))
    crossed = 2 * len(shared) >= fewest
    n = len(shared) if crossed else fewest
    levels = {facet: list(dict.fromkeys(values)) for facet, values in facets.items()}
    if n < 2:
        return Variance(name, n, {})
    table = np.empty((*map(len, levels.values()), n))
    for k, (by_id, seed) in enumerate(zip(scores, seeds, strict=True)):
        at = tuple(levels[facet].index(values[k]) for facet, values in facets.items())
        table[at] = [by_id[i] for i in (shared if crossed else read[seed][:n])]
    return Variance(
        name, n, components(table, (*facets, ITEM), None if crossed else {ITEM: "seed"})
    )


def variance_csv(found: Sequence[Variance]) -> str:
    """Return one line a component; the last of a cell also holds what is left."""
    rows = (
        (variance_of.cell, variance_of.items, effect, digits(value), digits(share))
        for variance_of in found
        for (effect, share), value in zip(
            variance_of.shares.items(), variance_of.components.values(), strict=True
        )
    )
    return csv_text(("cell", "items", "component", "variance", "share"), rows)


def lines(found: Sequence[Stability], parts: Sequence[Variance] = ()) -> list[str]:
    """Return the lines that the command prints."""
    shown = []
    by_cell = {part_of.cell: part_of for part_of in parts if part_of.components}
    for s in found:
        cv = "–" if s.csr_cv is None else f"{s.csr_cv:.2f}"
        spread = (
            "" if s.between is None else f", D varies by {100 * s.between:.1f} points between them"
        )
        status = s.status if s.status != UNSTABLE else f"{UNSTABLE}: {', '.join(s.statuses)}"
        shown.append(f"{s.cell}: {status} ({len(s.statuses)} runs, CV of CSR {cv}{spread})")
        if part := by_cell.get(s.cell):
            largest = sorted(((v or 0.0, e) for e, v in part.shares.items()), key=lambda x: -x[0])[
                :4
            ]
            most = ", ".join(f"{e} {v:.0%}" for v, e in largest if v >= 0.005)
            shown.append(
                f"  its score varies by {100 * part.between:.1f} points between them; variance: {most}"
            )
    return shown
