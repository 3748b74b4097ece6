"""Findings -> the data file and the table (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from audit.json_types import plain
from audit.plant.indicators import BY_NAME, N_SPLITS, Bench, Finding, findings
from audit.plant.measure import Reading
from audit.report.sensitivity import STANDARD, chance_of
from audit.statistics.multiplicity import holm
from audit.statistics.notice import Field, Notice

SCHEMA_VERSION = 2
_DIGITS = 6  # that count: p of 1e-10 is not 0


@dataclass(frozen=True)
class Plant:
    """One planted model. form "none", passes 0: the base one. loss: of its last pass. accuracy: learnt, others."""

    form: str
    passes: int
    loss: float | None
    accuracy: tuple[float, float]
    errors: int
    found: tuple[Finding, ...]

    def audits(self, run: Sequence[str]) -> dict[str, float]:
        """By audit that was run, the smallest p of its indicators after Holm's correction over them: the audit's own.

        What others asked can give one indicator of an audit (the originals of a rewording give the score gap): that is
        not the audit.
        """
        by: dict[str, list[float]] = {}
        for one in self.found:
            if one.audit in run:
                by.setdefault(one.audit, []).append(one.pvalue)
        return {name: float(np.min(holm(ps))) for name, ps in by.items()}


def plant_of(
    bench: Bench,
    label: str,
    model: Reading,
    base: Reading,
    loss: float | None,
    *,
    alpha: float,
    seed: int,
    n_splits: int = N_SPLITS,
) -> Plant:
    """The findings of one model. label: "base" or "<form>-<passes>"."""
    form, _, passes = label.rpartition("-")
    score = model.correct.get("score/0") or model.correct.get("original/0") or model.correct.get("direct/0") or []
    value = np.asarray(score, dtype=float)
    return Plant(
        form or "none",
        int(passes) if form else 0,
        loss,
        (float(np.nanmean(value[bench.learnt])), float(np.nanmean(value[~bench.learnt]))),
        model.errors,
        tuple(findings(bench, model, base, alpha=alpha, seed=seed, n_splits=n_splits)),
    )


def data(plants: Sequence[Plant], facts: Mapping[str, Any], alpha: float) -> dict[str, Any]:
    """What sensitivity.json holds. NaN is null."""
    rows = []
    for plant in plants:
        audits = {name: {"pvalue": p, "noticed": p <= alpha} for name, p in plant.audits(facts["audits"]).items()}
        rows.append(plain({**asdict(plant), "audits": audits}, _DIGITS))
    return {"schema": "sensitivity", "schema_version": SCHEMA_VERSION, **facts, "alpha": alpha, "plants": rows}


def markdown(found: Mapping[str, Any], field: Field = STANDARD) -> str:
    """The dose-response table of what `data` gives: one line for an indicator of a plant."""
    chance = f"chance to find, {field.n:,}/{field.held_out:,} items, {field.references} references (95 %)"
    head = ["form", "passes", "accuracy learnt / others", "indicator", "learnt", "others", "AUC (95 %)", "p", "noticed",
            chance, "where nothing was learnt"]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for plant in found["plants"]:
        for k, one in enumerate(plant["found"]):
            learnt, others = plant["accuracy"]
            first = [plant["form"], str(plant["passes"]), f"{learnt:.2f} / {others:.2f}"]
            area, false = one["area"], one["false_alarms"]
            cells = [
                *(first if k == 0 else ["", "", ""]),
                one["indicator"],
                _number(one["learnt"]),
                _number(one["others"]),
                "-" if area is None else f"{area['auc']:.2f} ({area['low']:.2f}-{area['high']:.2f})",
                f"{one['pvalue']:.2g}",
                "yes" if one["noticed"] else "no",
                _chance(chance_of(found, plant, one["indicator"], field) if plant["passes"] else None),
                f"{false:.1%} of splits" if one["null"] == "splits" else f"p={false:.2g}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _chance(n: Notice | None) -> str:
    return "-" if n is None else f"{n.estimate:.2f} ({n.low:.2f}-{n.high:.2f})"


def legend() -> str:
    """What each indicator is, and what it needs."""
    return "\n".join(
        f"- `{one.name}` ({f'audit.{one.audit}' if one.audit else 'in no verdict'}"
        f"{'; needs ' + one.needs if one.needs else ''}): {one.words}."
        for one in BY_NAME.values()
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
