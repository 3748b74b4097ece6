"""The sweep's page from its verdict, with figures, tables and packed outcomes."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from audit.report.build import Page, run_facts
from audit.report.canvas import power_curve, ruled_out
from audit.report.page import Gated, count, errors_of, marks_of, number, render_page, words
from audit.statistics.paired import CellOutcomes, State
from audit.sweep import accuracy
from audit.sweep import figures as charts
from audit.sweep.design import DELETED, Aggregator, SweepThresholds
from audit.sweep.drill import DrillDown, pack, script_json
from audit.sweep.figures import GainRow, forest
from audit.sweep.paper import SettingRow, model_summary, router_summary
from audit.sweep.replay import aggregator_of
from audit.sweep.report import Behind
from audit.sweep.result import RunVerdict, SweepResult
from audit.sweep.simulation import TRUTHS
from audit.sweep.size import REPEATED, detectable, needed, runs_of
from audit.sweep.vocabulary import ARMS, GATES, LABELS, VERDICTS, severity
from audit.verdict.result import Calibration, Status
from audit.verdict.simulated import told

# Where a setting was run more than once. The page counts runs from 1.
BY_CHANCE = (
    "By chance alone a clean model is above its own baseline in 44 % of its settings where noise costs it nothing, in "
    "13 % where it costs 5 points, and in 2 % where it costs 10 (100 questions, nine router counts)."
)

# Figures of the page that stand in one place or another: (name, caption).
EVIDENCE = (
    "evidence",
    "Gain under noise of each model: filled, where it is largest over r, with its simultaneous 95 % interval; open, "
    "the mean over r. Grey: how far two runs of the clean questions lie apart by themselves. Right of the dashed line "
    "a gain would matter.",
)
AGAINST_CLEAN = (
    "figure3_noisy_against_clean",
    "Accuracy by the number of router messages (r). Noise takes information away, so an accuracy above the clean band "
    "would need an explanation, such as memory. Bars and band: 95 % intervals of each by itself; the verdict compares "
    "the same questions pair by pair.",
)
ERRORS = {
    "clean_excess": "A model for which noise does nothing is accused (false positive)",
    "gain_5_excess": "A model that gains 5 points at every r is found",
    "gain_one_r_cleared": "A model that gains 5 points at one r is cleared (false negative)",
}
AGGREGATED = {
    Aggregator.CONCATENATE: "reads the r messages one after the other",
    Aggregator.SUMMARY: "reads one summary of the r messages, written by the router's model",
    Aggregator.VOTE: "answers each of the r messages alone, and the option with most votes counts",
}
POOLED = " Runs of one condition are averaged, as in the verdict."
_WORDS: dict[str, Any] = {
    "gates": GATES, "labels": LABELS, "words": VERDICTS, "arms": ARMS, "evidence": EVIDENCE, "by_chance": BY_CHANCE,
}  # fmt: skip


def page(run: RunVerdict, behind: Behind) -> Page:
    """Figures, tables and the page of a verdict that was reached over these cells.

    Where some setting was run more than once, the page says that the figures average these runs and the paper's tables
    do not.
    """
    dirs, cells, total_rows = behind.dirs, behind.cells, sum(int(np.sum(c.state != State.ABSENT)) for c in behind.cells)
    short = {(r.model, r.benchmark) for r in run.rows if not r.complete}
    names = {cell: f"{name} (incomplete)" if cell in short else name for cell, name in accuracy.labels(cells).items()}
    rows = [SettingRow(**row) for row in run.paper["cells"]]  # the verdict's own: nothing is computed twice
    settings_of = Counter((row.model, row.benchmark) for row in rows)
    accuracies = [a for cell in cells for a in accuracy.setting_accuracies(cell.without(DELETED))]
    doses = [dose for cell in cells if (dose := accuracy.dose_of(cell)) is not None]
    drill = pack(behind.listed, seed=behind.seed, max_text_bytes=behind.max_text_bytes)
    pooled = POOLED if any(s.replicate > 0 for c in cells for s in c.settings) else ""
    ranked = sorted(
        run.marked,
        key=lambda c: severity(c.verdict, c.effect.gain if c.effect else -math.inf, names[c.model, c.benchmark]),
    )
    head = {**drill.head, "arm_words": [ARMS[arm] for arm in drill.head["arms"]], "gates": _gate_items(ranked)}
    shown = partial(
        render_page, "sweep/page.html.j2", rows=run.rows, **_WORDS,
        scripts=("report/diff.js", *(f"sweep/{name}.js" for name in ("drill", "answer", "grid", "page"))),
        gated=[Gated(names[c.model, c.benchmark], c.gates, _where(c, drill)) for c in ranked], run=run, cells=ranked,
        title=run.title("Can the score be trusted?"), names=names,
        subtitle=_subtitle(run, total_rows, sorted({aggregator_of(d) for d in dirs})),
        decisions=marks_of(replace(run, results=tuple(ranked)), VERDICTS),
        errors=errors_of(ranked[:1] if len(ranked) > 2 else ranked, ERRORS), accuracies=accuracies, doses=doses,
        against_clean=(AGAINST_CLEAN[0], AGAINST_CLEAN[1] + pooled), calibrated=calibrated(run.calibration),
        pooled=pooled, clustered=any(len(set(c.cluster.tolist())) < c.n for c in cells),
        table1=[(s, settings_of[s.model, s.benchmark]) for s in model_summary(rows)], table2=rows,
        table3=router_summary(rows), drill=drill, total_rows=total_rows, runs=[run_facts(d) for d in dirs],
        shards=", ".join(f"{d.name}/shards" for d in dirs), head_json=script_json(head),
        chunk_json=[script_json(chunk) for chunk in drill.chunks],
    )  # fmt: skip
    tables = accuracy.tables(run, rows, accuracies, doses)
    return Page(tables, _figures(cells, run, names), lambda figures: shown(figures=figures))


def calibrated(found: Calibration | None) -> dict[str, Any]:
    """What the nearest design was, and of each truth that it was simulated for, how often each verdict fell."""
    rates = found.rates if found else {}
    verdicts = ("excess", "cleared", "brittle")
    return {
        "design": [(LABELS[name], number(value)) for name, value in (found.design if found else {}).items()],
        "truths": [(t, [told(rates, f"{t}_{v}") for v in verdicts]) for t in TRUTHS if f"{t}_excess" in rates],
    }


def _where(cell: SweepResult, drill: DrillDown) -> dict[str, int]:
    """The model by its place in the list of answers; nothing where none of its answers is on the page."""
    models = drill.head["models"]
    return {"model": models.index(cell.model)} if cell.model in models else {}


def _gate_items(cells: Sequence[SweepResult]) -> list[dict[str, Any]]:
    return [
        {
            "name": g.name,
            "title": GATES[g.name].title if g.name in GATES else words(g.name),
            "model": c.model,
            "benchmark": c.benchmark,
            "status": g.status.value,
            "items": list(g.items),
        }
        for c in cells
        for g in c.gates
        if g.items or g.status is Status.FAIL
    ]


def _subtitle(run: RunVerdict, total_rows: int, aggregators: Sequence[Aggregator]) -> str:
    sizes = sorted({c.n_questions for c in run.results})
    asked = count(sizes[0]) if len(sizes) == 1 else f"{count(sizes[0])} to {count(sizes[-1])}"
    routers = sorted({r for c in run.results for r in c.routers})
    spread = "" if not routers else f", r = {routers[0]}" + (f" to {routers[-1]}" if len(routers) > 1 else "")
    read = "; in another run ".join(AGGREGATED[one] for one in aggregators)
    return f"Router-worker audit: {asked} questions a model{spread}, {count(total_rows)} answers. The worker {read}."


def _figures(cells: list[CellOutcomes], verdict: RunVerdict, names: dict[tuple[str, str], str]) -> dict[str, Figure]:
    """Every figure that these cells can carry, by name.

    All are over every replicate, as the verdict is: a figure of one run of each setting could say the opposite.
    """
    out: dict[str, Figure] = {}
    gains = [
        GainRow(names[c.model, c.benchmark], c.verdict, c.effect, c.noise_floor.mean_absolute_gain)
        for c in verdict.results
        if c.effect is not None
    ]
    thresholds = SweepThresholds.from_mapping(verdict.thresholds)
    tests = len(cells) * max((len(r.routers) for r in verdict.results), default=1)
    limits = [(names[c.model, c.benchmark], c.largest_compatible_gain) for c in verdict.results]
    if known := [(label, limit) for label, limit in limits if limit is not None and np.isfinite(limit)]:
        out["ruled_out"] = ruled_out(known, thresholds.effect_of_interest, "gain")
        asked, runs = min(c.n_questions for c in verdict.results), min(runs_of(c.settings) for c in cells)
        out["power_curve"] = power_curve(
            lambda n: detectable(thresholds, n, tests, runs), asked,
            None if min(runs) < REPEATED else needed(thresholds, tests), thresholds.effect_of_interest, "gain",
            instead="repeat what is run once",
        )  # fmt: skip
    if gains:
        out["evidence"] = forest(gains, verdict.thresholds["effect_of_interest"])
    rows = [row for cell in cells for row in accuracy.pooled_rows(cell)]
    if rows:
        scores = [accuracy.model_scores(c, names[c.model, c.benchmark]) for c in cells]
        by_router = router_summary(rows)
        out["figure2_violation_pattern"] = charts.violation_pattern(by_router)
        out["figure3_noisy_against_clean"] = charts.small_multiples([m for m in scores if m.noisy])
        out["figure4_transitions"] = charts.transitions(by_router)
        out["figure5_violation_breadth"] = charts.breadth(accuracy.breadths(rows, names))
    return out
