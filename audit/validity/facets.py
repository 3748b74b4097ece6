"""Runs under several seeds, scorers, templates and system prompts: how far the figures move, and whether a status is
stable (pure; li2026, App. F). A status holds where every run has it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import Any

import numpy as np

from audit.statistics.gstudy import components
from audit.validity.record import Cell
from audit.validity.status import SEED_CV
from audit.validity.vocabulary import ValidityCell
from audit.verdict.document import AuditVerdict, Difference
from audit.verdict.tables import columns, csv_text, digits

UNSTABLE = "unstable"
_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Stability:
    """One cell over the runs. csr_cv: sd / mean of the ratio, None where a run has none or the mean is 0. between,
    within: standard deviations of D, 0-1: of the runs beyond sampling, and the mean standard error of one run.
    status: the one of every run, else UNSTABLE.
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
        return self.statuses[0] if len(set(self.statuses)) == 1 else UNSTABLE


def stability(verdicts: Sequence[AuditVerdict[ValidityCell]]) -> list[Stability]:
    """Return an entry a cell. verdicts: one a run, of which all have the same cells."""
    cells = defaultdict(list)
    for cell in (one for verdict in verdicts for one in verdict.cells):
        name = f"{cell.model} on {cell.benchmark}"
        cells[name + (f" ({cell.context})" if cell.context else "")].append(cell)
    return [_one(name, found) for name, found in cells.items()]


def _one(name: str, cells: Sequence[ValidityCell]) -> Stability:
    evidence = [cell.evidence for cell in cells if cell.evidence]
    estimates = [e.csr["own key"].estimate for e in evidence if "own key" in e.csr]
    ratios = [one for one in estimates if one is not None]
    found = [p for e in evidence for p in _with_errors(e.primary)]
    whole = len(ratios) == len(cells) > 1
    mean = fmean(ratios) if ratios else None
    between = within = None
    differences = [difference for difference, _ in found]
    if len(found) == len(cells) > 1:
        within = fmean(error**2 for _, error in found) ** 0.5
        between = max(0.0, stdev(differences) ** 2 - within**2) ** 0.5
    return Stability(
        cell=name,
        statuses=tuple(cell.verdict for cell in cells),
        csr=mean,
        csr_cv=stdev(ratios) / mean if whole and mean else None,
        difference=fmean(differences) if found else None,
        between=between,
        within=within,
    )


def _with_errors(one: Difference | None) -> list[tuple[float, float]]:
    """Return (D, its standard error), if both were computed."""
    if one is None or one.difference is None or one.low is None or one.high is None:
        return []
    return [(one.difference, (one.high - one.low) / 2 / _Z)]


def facets_csv(found: Sequence[Stability]) -> str:
    """One line a cell; gate_seed_cv_lt_03 is Appendix G's."""
    rows = (
        {"s": s, "runs": len(s.statuses), "stable": None if s.csr_cv is None else s.csr_cv < SEED_CV,
         "statuses": " ".join(s.statuses)}
        for s in found
    )  # fmt: skip
    return columns(
        rows, "cell=s.cell", "runs", "csr=s.csr", "csr_cv=s.csr_cv", "gate_seed_cv_lt_03=stable", "D=s.difference",
        "sd_between_runs=s.between", "se_within=s.within", "status=s.status", "statuses",
    )  # fmt: skip


@dataclass(frozen=True)
class Variance:
    """Of the scores (0-1) of one cell's originals: what part of their variance items, facets and both together have.

    items: of each seed. components: `statistics.gstudy.components`. between: standard deviation of a score over the
    runs, beyond what its items explain. shares: of the sum, by effect; None where that is 0.
    """

    cell: str
    items: int
    components: Mapping[tuple[str, ...], float]

    @property
    def between(self) -> float:
        return sum(value for effect, value in self.components.items() if ITEM not in effect) ** 0.5

    @property
    def shares(self) -> dict[str, float | None]:
        total = sum(self.components.values())
        return {" x ".join(effect): value / total if total else None for effect, value in self.components.items()}


ITEM = "item"


def variance(runs: Sequence[Sequence[Cell]], facets: Mapping[str, Sequence[Any]]) -> list[Variance]:
    """A G-study of items and facets for each cell that every run has. facets: each one's value by run, two or more,
    crossed. Seeds that draw other items have items of their own: these are nested."""
    cells = defaultdict(list)
    for cell in (one for run in runs for one in run):
        cells[cell.name].append(cell)
    return [_variance(name, own, facets) for name, own in cells.items() if len(own) == len(runs)]


def _variance(name: str, cells: Sequence[Cell], facets: Mapping[str, Sequence[Any]]) -> Variance:
    scores = [{i: s for i, s in zip(c.question_ids, c.score_before, strict=True) if np.isfinite(s)} for c in cells]
    seeds = facets.get("seed", [0] * len(cells))
    read = {seed: sorted(set.intersection(*(set(s) for s, k in zip(scores, seeds, strict=True) if k == seed)))
            for seed in seeds}  # fmt: skip
    shared = sorted(set.intersection(*map(set, read.values())))
    fewest = min(map(len, read.values()))
    crossed = 2 * len(shared) >= fewest
    n = len(shared) if crossed else fewest
    levels = {facet: list(dict.fromkeys(values)) for facet, values in facets.items()}
    if n < 2:
        return Variance(name, n, {})
    table = np.empty((*map(len, levels.values()), n))
    for k, (own, seed) in enumerate(zip(scores, seeds, strict=True)):
        at = tuple(levels[facet].index(values[k]) for facet, values in facets.items())
        table[at] = [own[i] for i in (shared if crossed else read[seed][:n])]
    return Variance(name, n, components(table, (*facets, ITEM), None if crossed else {ITEM: "seed"}))


def variance_csv(found: Sequence[Variance]) -> str:
    """One line a component; the last of a cell also holds what is left."""
    rows = (
        (one.cell, one.items, effect, digits(value), digits(share))
        for one in found
        for (effect, share), value in zip(one.shares.items(), one.components.values(), strict=True)
    )
    return csv_text(("cell", "items", "component", "variance", "share"), rows)


def lines(found: Sequence[Stability], parts: Sequence[Variance] = ()) -> list[str]:
    """What the command prints."""
    shown = []
    told = {one.cell: one for one in parts if one.components}
    for s in found:
        cv = "–" if s.csr_cv is None else f"{s.csr_cv:.2f}"
        spread = "" if s.between is None else f", D varies by {100 * s.between:.1f} points between them"
        status = s.status if s.status != UNSTABLE else f"{UNSTABLE}: {', '.join(s.statuses)}"
        shown.append(f"{s.cell}: {status} ({len(s.statuses)} runs, CV of CSR {cv}{spread})")
        if part := told.get(s.cell):
            largest = sorted(((v or 0.0, e) for e, v in part.shares.items()), key=lambda x: -x[0])[:4]
            most = ", ".join(f"{e} {v:.0%}" for v, e in largest if v >= 0.005)
            shown.append(f"  its score varies by {100 * part.between:.1f} points between them; variance: {most}")
    return shown
