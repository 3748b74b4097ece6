"""Runs of one design under several seeds: how far the figures move, and whether a status is stable (pure).

A seed draws the items, the order of their options and their partners (li2026, App. F: seeds 42, 123 and 2024). A status
holds where every run has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import Any

from audit.validity.status import SEED_CV
from audit.verdict.tables import csv_text, digits

UNSTABLE = "unstable"
_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Stability:
    """One cell over the runs. csr_cv: sd / mean of the ratio, None where a run has none or the mean is 0. between,
    within: standard deviations of D, 0-1: of the seeds beyond sampling, and the mean standard error of one run.
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


def stability(verdicts: Sequence[Mapping[str, Any]]) -> list[Stability]:
    """By cell; verdicts: what verdict.json holds of each run, of which all have the same cells."""
    cells: dict[str, list[Mapping[str, Any]]] = {}
    for verdict in verdicts:
        for cell in verdict["cells"]:
            name = f"{cell['model']} on {cell['benchmark']}"
            cells.setdefault(name + (f" ({cell['context']})" if cell["context"] else ""), []).append(cell)
    return [_one(name, found) for name, found in cells.items()]


def _one(name: str, cells: Sequence[Mapping[str, Any]]) -> Stability:
    evidence = [cell["evidence"] or {} for cell in cells]
    ratios = [r["estimate"] for e in evidence if (r := (e.get("csr") or {}).get("own key"))]
    found = [p for e in evidence if (p := e.get("primary")) and None not in (p["low"], p["high"])]
    whole = len(ratios) == len(cells) > 1
    mean = fmean(ratios) if ratios else None
    between = within = None
    if len(found) == len(cells) > 1:
        errors = [(p["high"] - p["low"]) / 2 / _Z for p in found]
        within = fmean(error**2 for error in errors) ** 0.5
        between = max(0.0, stdev(p["difference"] for p in found) ** 2 - within**2) ** 0.5
    return Stability(
        cell=name,
        statuses=tuple(cell["verdict"] for cell in cells),
        csr=mean,
        csr_cv=stdev(ratios) / mean if whole and mean else None,
        difference=fmean(p["difference"] for p in found) if found else None,
        between=between,
        within=within,
    )


def facets_csv(found: Sequence[Stability]) -> str:
    """One line a cell; gate_seed_cv_lt_03 is Appendix G's."""
    header = ("cell", "runs", "csr", "csr_cv", "gate_seed_cv_lt_03", "D", "sd_between_seeds", "se_within", "status",
              "statuses")  # fmt: skip
    return csv_text(
        header,
        (
            (s.cell, len(s.statuses), digits(s.csr), digits(s.csr_cv),
             "" if s.csr_cv is None else int(s.csr_cv < SEED_CV),
             *map(digits, (s.difference, s.between, s.within)), s.status, " ".join(s.statuses))
            for s in found
        ),
    )  # fmt: skip


def lines(found: Sequence[Stability]) -> list[str]:
    """What the command prints."""
    shown = []
    for s in found:
        cv = "–" if s.csr_cv is None else f"{s.csr_cv:.2f}"
        spread = "" if s.between is None else f", D varies by {100 * s.between:.1f} points between seeds"
        told = s.status if s.status != UNSTABLE else f"{UNSTABLE}: {', '.join(s.statuses)}"
        shown.append(f"{s.cell}: {told} ({len(s.statuses)} seeds, CV of CSR {cv}{spread})")
    return shown
