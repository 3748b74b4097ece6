"""Compare runs that differ in seed, scorer, template or system prompt.

These four options are the facets of li2026, Appendix F. The module computes how much the statistics
of a cell differ between runs. A status is stable if all runs have the same status. The module does
no I/O.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from statistics import NormalDist, fmean, stdev
from typing import Any

import numpy as np

from audit.judging.document import AuditVerdict
from audit.judging.tables import columns, csv_text, digits
from audit.statistics.gstudy import components
from audit.validity.record import Cell
from audit.validity.status import SEED_CV
from audit.validity.vocabulary import ValidityCell

UNSTABLE = "unstable"
_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Stability:
    """Report how much the results of one cell differ between runs.

    Attributes
    ----------
    cell : str
        Name of the cell.
    statuses : tuple of str
        Status in each run.
    csr, csr_cv : float or None
        Mean of the ratio CSR over the runs, and its standard deviation divided by this mean. None
        if a run has no ratio, or if the mean is 0.
    difference : float or None
        Mean of D over the runs (-1 to 1).
    between : float or None
        Standard deviation of D between runs, without the part that is due to the sampling of items.
    within : float or None
        Mean standard error of D in one run.
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
        """Return the status that all runs have, or UNSTABLE if the statuses of the runs differ."""
        return self.statuses[0] if len(set(self.statuses)) == 1 else UNSTABLE


def stability(verdicts: Sequence[AuditVerdict[ValidityCell]]) -> list[Stability]:
    """Compare the statuses of each cell over runs.

    Parameters
    ----------
    verdicts : sequence of AuditVerdict
        The verdict of each run. All verdicts have the same cells.

    Returns
    -------
    list of Stability
        The stability of each cell.
    """
    cells = defaultdict(list)
    for cell in chain.from_iterable(verdict.cells for verdict in verdicts):
        name = f"{cell.model} on {cell.benchmark}"
        cells[name + (f" ({cell.context})" if cell.context else "")].append(cell)
    return [_stability(name, of_cell) for name, of_cell in cells.items()]


def _stability(name: str, cells: Sequence[ValidityCell]) -> Stability:
    """Return the stability of one cell over the runs."""
    ratios, differences, variances = [], [], []
    for evidence in filter(None, (cell.evidence for cell in cells)):
        ratio, d = evidence.csr.get("own key"), evidence.primary
        if ratio is not None and ratio.estimate is not None:
            ratios.append(ratio.estimate)
        if d and d.difference is not None and d.low is not None and d.high is not None:
            differences.append(d.difference)
            standard_error = (d.high - d.low) / 2 / _Z
            variances.append(standard_error**2)
    whole = len(ratios) == len(cells) > 1
    mean = fmean(ratios) if ratios else None
    between = within = None
    if len(differences) == len(cells) > 1:
        within = fmean(variances) ** 0.5
        between = max(0.0, stdev(differences) ** 2 - within**2) ** 0.5
    return Stability(
        cell=name,
        statuses=tuple(cell.verdict for cell in cells),
        csr=mean,
        csr_cv=stdev(ratios) / mean if whole and mean else None,
        difference=fmean(differences) if differences else None,
        between=between,
        within=within,
    )


def facets_csv(stabilities: Sequence[Stability]) -> str:
    """Return the stability of each cell as csv.

    Parameters
    ----------
    stabilities : sequence of Stability
        The results.

    Returns
    -------
    str
        A csv text with one line for each cell. Appendix G of li2026 defines the column
        gate_seed_cv_lt_03.
    """
    rows = []
    for s in stabilities:
        stable = None if s.csr_cv is None else s.csr_cv < SEED_CV
        statuses = " ".join(s.statuses)
        rows.append({"s": s, "runs": len(s.statuses), "stable": stable, "statuses": statuses})
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
    """Report the variance of one cell's scores, split into the parts due to items, to facets, and
    to their interaction.

    Attributes
    ----------
    cell : str
        Name of the cell.
    items : int
        Number of items of each seed.
    components : mapping
        Variance components of the scores (0-1), as `statistics.gstudy.components` returns them.
    """

    cell: str
    items: int
    components: Mapping[tuple[str, ...], float]

    @property
    def between(self) -> float:
        """Return the standard deviation of the score between runs, without the part that is due to
        the choice of items.

        Returns
        -------
        float
            The standard deviation of scores that are 0-1.
        """
        total = 0.0
        for effect, value in self.components.items():
            if ITEM not in effect:
                total += value
        return total**0.5

    @property
    def shares(self) -> dict[str, float | None]:
        """Return the share of each effect in the total variance.

        Returns
        -------
        dict
            Maps the name of each effect to its share (0-1). The share is None if the total variance
            is 0.
        """
        total = sum(self.components.values())
        shares: dict[str, float | None] = {}
        for effect, value in self.components.items():
            shares[" x ".join(effect)] = value / total if total else None
        return shares


ITEM = "item"


def variance(runs: Sequence[Sequence[Cell]], facets: Mapping[str, Sequence[Any]]) -> list[Variance]:
    """Estimate the variance due to items and facets (a G-study), for each cell that every run has.

    Parameters
    ----------
    runs : sequence of sequence of Cell
        The cells of each run.
    facets : mapping of str to sequence
        Maps each facet to its value in each run. Each facet has two or more values, and there is a
        run for every combination of values.

    Returns
    -------
    list of Variance
        The variance of each cell. If seeds draw different items, items are nested in seeds.
    """
    cells = defaultdict(list)
    for cell in chain.from_iterable(runs):
        cells[cell.name].append(cell)
    variances = []
    for name, of_name in cells.items():
        if len(of_name) == len(runs):
            variances.append(_variance(name, of_name, facets))
    return variances


def _variance(name: str, cells: Sequence[Cell], facets: Mapping[str, Sequence[Any]]) -> Variance:
    """Return the variance of one cell, computed from the items whose answers are parsed in every
    run of a seed.
    """
    seeds = facets.get("seed", [0] * len(cells))
    scores = []
    read_by_seed: dict[Any, set[str]] = {}
    for cell, seed in zip(cells, seeds, strict=True):
        finite = np.isfinite(cell.score_before)
        ids = list(compress(cell.question_ids, finite))
        scores.append(dict(zip(ids, cell.score_before[finite], strict=True)))
        read_by_seed[seed] = read_by_seed.get(seed, set(ids)) & set(ids)
    read = {seed: sorted(ids_of_seed) for seed, ids_of_seed in read_by_seed.items()}
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


def variance_csv(variances: Sequence[Variance]) -> str:
    """Return the variance components as csv.

    Parameters
    ----------
    variances : sequence of Variance
        The results.

    Returns
    -------
    str
        A csv text with one line for each component. The last component of each cell includes the
        residual variance.
    """
    rows = []
    for v in variances:
        for (effect, share), value in zip(v.shares.items(), v.components.values(), strict=True):
            rows.append((v.cell, v.items, effect, digits(value), digits(share)))
    return csv_text(("cell", "items", "component", "variance", "share"), rows)


def lines(stabilities: Sequence[Stability], parts: Sequence[Variance] = ()) -> list[str]:
    """Return the lines that the command prints.

    Parameters
    ----------
    stabilities : sequence of Stability
        The stability of each cell.
    parts : sequence of Variance
        The variance of each cell.

    Returns
    -------
    list of str
        One or two lines for each cell.
    """
    shown = []
    by_cell = {part.cell: part for part in parts if part.components}
    for s in stabilities:
        cv = "–" if s.csr_cv is None else f"{s.csr_cv:.2f}"
        spread = ""
        if s.between is not None:
            spread = f", D varies by {100 * s.between:.1f} points between runs"
        status = s.status if s.status != UNSTABLE else f"{UNSTABLE}: {', '.join(s.statuses)}"
        shown.append(f"{s.cell}: {status} ({len(s.statuses)} runs, CV of CSR {cv}{spread})")
        part = by_cell.get(s.cell)
        if part is not None:
            shares = Counter({effect: share or 0.0 for effect, share in part.shares.items()})
            largest = [f"{effect} {v:.0%}" for effect, v in shares.most_common(4) if v >= 0.005]
            shown.append(
                f"  the score varies by {100 * part.between:.1f} points between runs; "
                f"variance: {', '.join(largest)}"
            )
    return shown
