"""The sweep's page from its verdict, figures and packed outcomes (pure: values in, text out)."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from audit.report.page import Gated, RunFacts, count, errors_of, marks_of, number, render_page, words
from audit.sweep.accuracy import Dose, SettingAccuracy
from audit.sweep.design import Aggregator
from audit.sweep.drill import DrillDown, script_json
from audit.sweep.paper import SettingRow, model_summary, router_summary
from audit.sweep.result import RunVerdict, SweepResult
from audit.sweep.simulation import TRUTHS
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


def render(
    run: RunVerdict,
    *,
    figures: Mapping[str, str],
    accuracies: Sequence[SettingAccuracy],
    paper_rows: Sequence[SettingRow],
    names: Mapping[tuple[str, str], str],
    replicated: bool,
    clustered: bool,
    drill: DrillDown,
    total_rows: int,
    facts: Sequence[RunFacts],
    shards: str,
    doses: Sequence[Dose] = (),
    aggregators: Sequence[Aggregator] = (Aggregator.CONCATENATE,),
) -> str:
    """The page. figures: name -> <svg> element made by `canvas.inline_svg`. total_rows: outcomes in the shards.

    replicated: some setting was run more than once, so the page says that the figures average these runs and the
    paper's tables do not. doses: of cells whose words were deleted. aggregators: of the runs.
    """
    settings_of = Counter((row.model, row.benchmark) for row in paper_rows)
    cells = sorted(
        run.marked,
        key=lambda c: severity(c.verdict, c.effect.gain if c.effect else -math.inf, names[c.model, c.benchmark]),
    )
    head = {**drill.head, "arm_words": [ARMS[arm] for arm in drill.head["arms"]], "gates": _gate_items(cells)}
    return render_page(
        "sweep/page.html.j2", rows=run.rows, **_WORDS,
        scripts=("report/diff.js", *(f"sweep/{name}.js" for name in ("drill", "answer", "grid", "page"))),
        gated=[Gated(names[c.model, c.benchmark], c.gates, _where(c, drill)) for c in cells], run=run, cells=cells,
        title=run.title("Can the score be trusted?"), subtitle=_subtitle(run, total_rows, aggregators), names=names,
        decisions=marks_of(replace(run, results=tuple(cells)), VERDICTS),
        errors=errors_of(cells[:1] if len(cells) > 2 else cells, ERRORS),
        against_clean=(AGAINST_CLEAN[0], AGAINST_CLEAN[1] + (POOLED if replicated else "")), figures=figures,
        accuracies=accuracies, doses=doses, calibrated=calibrated(run.calibration),
        pooled=POOLED if replicated else "", clustered=clustered,
        table1=[(s, settings_of[s.model, s.benchmark]) for s in model_summary(paper_rows)], table2=paper_rows,
        table3=router_summary(paper_rows), drill=drill, total_rows=total_rows, runs=facts, shards=shards,
        head_json=script_json(head), chunk_json=[script_json(chunk) for chunk in drill.chunks],
    )  # fmt: skip


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
