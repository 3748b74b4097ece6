"""Findings -> the data file, the table and the sentence (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from audit.plant.indicators import BY_NAME, N_SPLITS, Bench, Finding, findings
from audit.plant.measure import Reading
from audit.statistics.multiplicity import holm
from audit.statistics.notice import chance_to_notice

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Plant:
    """One planted model. form "none", passes 0: the unspoilt one. loss: of its last pass. accuracy: learnt, others."""

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
        audits = {
            name: {"pvalue": p, "noticed": p <= alpha, "notice": asdict(chance_to_notice(p, alpha))}
            for name, p in plant.audits(facts["audits"]).items()
        }
        row = {**asdict(plant), "audits": audits, "sentences": list(sentences(plant, facts, alpha))}
        rows.append(_plain(row))
    return {"schema": "sensitivity", "schema_version": SCHEMA_VERSION, **facts, "alpha": alpha, "plants": rows}


def sentences(plant: Plant, facts: Mapping[str, Any], alpha: float) -> tuple[str, ...]:
    """One for each audit: had this model learnt half of this benchmark, would it have noticed?"""
    if not plant.passes:
        return ()
    times = "1 pass" if plant.passes == 1 else f"{plant.passes} passes"
    out = []
    for name, p in plant.audits(facts["audits"]).items():
        notice = chance_to_notice(p, alpha)
        out.append(
            f"Had {facts['model']} learnt half of {facts['benchmark']} ({facts['learnt_items']} items, as "
            f"{plant.form}) with {times}, audit.{name} would have noticed with probability {notice.estimate:.2f} "
            f"(95 % interval {notice.low:.2f} to {notice.high:.2f})."
        )
    return tuple(out)


def markdown(plants: Sequence[Plant]) -> str:
    """The dose-response table: one line for an indicator of a plant."""
    head = ["form", "passes", "accuracy learnt / others", "indicator", "learnt", "others", "AUC (95 %)", "p", "noticed",
            "chance to notice (95 %)", "where nothing was learnt"]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for plant in plants:
        for k, one in enumerate(plant.found):
            first = [plant.form, str(plant.passes), f"{plant.accuracy[0]:.2f} / {plant.accuracy[1]:.2f}"]
            area = "-" if one.area is None else f"{one.area.auc:.2f} ({one.area.low:.2f}-{one.area.high:.2f})"
            where = f"{one.false_alarms:.1%} of splits" if one.null == "splits" else f"p={one.false_alarms:.2g}"
            n = one.notice
            cells = [
                *(first if k == 0 else ["", "", ""]),
                one.indicator,
                _number(one.learnt),
                _number(one.others),
                area,
                f"{one.pvalue:.2g}",
                "yes" if one.noticed else "no",
                f"{n.estimate:.2f} ({n.low:.2f}-{n.high:.2f})",
                where,
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def legend() -> str:
    """What each indicator is, and what it needs."""
    return "\n".join(
        f"- `{one.name}` ({f'audit.{one.audit}' if one.audit else 'in no verdict'}"
        f"{'; needs ' + one.needs if one.needs else ''}): {one.words}."
        for one in BY_NAME.values()
    )


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, float):
        return None if np.isnan(value) else float(f"{value:.6g}")  # digits that count: p of 1e-10 is not 0
    return value
