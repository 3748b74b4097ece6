"""The sweep's page from its verdict, with figures, tables and packed outcomes.

The tables are csv: the paper's three under the column names of its published data, and ours.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from audit.errors import DataError
from audit.records import Setting
from audit.report.build import Page, run_facts
from audit.report.canvas import power_curve, ruled_out
from audit.report.page import Gated, count, errors_of, marks_of, render_page, words
from audit.statistics.chance import chance_level, interval
from audit.statistics.information import InformationSlope, slope_at_zero
from audit.statistics.paired import CellOutcomes, State
from audit.statistics.values import replicates_of, settings_values, to_values
from audit.sweep import figures as charts
from audit.sweep.design import DELETED, Aggregator, Arm, SweepThresholds
from audit.sweep.drill import pack, script_json
from audit.sweep.messages import ByRouters
from audit.sweep.paper import breadths
from audit.sweep.replay import aggregator_of
from audit.sweep.report import Behind
from audit.sweep.size import REPEATED, detectable, needed, runs_of
from audit.sweep.vocabulary import ARMS, GATES, LABELS, VERDICTS, RunVerdict, SweepResult, severity
from audit.verdict.result import Status
from audit.verdict.tables import columns

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
    "the same questions pair by pair. Ensemble control: as many messages, which delete nothing.",
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
Names = dict[tuple[str, str], str]  # what each (model, benchmark) is called


def page(run: RunVerdict, behind: Behind) -> Page:
    """Figures, tables and the page of a verdict that was reached over these cells."""
    cells, names = behind.cells, _names(run, behind.cells)
    models, by_router, rows = run.paper["model_summary"], run.paper["router_summary"], run.paper["cells"]
    accuracies = [a for cell in cells for a in setting_accuracies(cell.without(DELETED))]
    doses = [dose for cell in cells if (dose := dose_of(cell)) is not None]
    ranked = sorted(
        run.marked,
        key=lambda c: severity(c.verdict, c.effect.gain if c.effect else -math.inf, names[c.model, c.benchmark]),
    )
    shown = partial(
        render_page, "sweep/page.html.j2", rows=run.rows, **_WORDS, **_of_questions(behind, ranked, names),
        scripts=("report/diff.js", *(f"sweep/{name}.js" for name in ("drill", "answer", "grid", "page"))),
        run=run, cells=ranked, title=run.title("Can the score be trusted?"), names=names,
        decisions=marks_of(replace(run, results=tuple(ranked)), VERDICTS),
        errors=errors_of(ranked[:1] if len(ranked) > 2 else ranked, ERRORS), accuracies=accuracies, doses=doses,
        clustered=any(len(set(c.cluster.tolist())) < c.n for c in cells),
        table1=[(s, total) for s, (_, _, total) in zip(models, breadths(rows, names), strict=True)],
        table2=rows, table3=by_router, runs=[run_facts(d) for d in behind.dirs],
    )  # fmt: skip
    return Page(_tables(run, accuracies, doses), _figures(cells, run, names), lambda figures: shown(figures=figures))


def _names(run: RunVerdict, cells: Sequence[CellOutcomes]) -> Names:
    """The model, with its benchmark where the panel holds several; what lacks rows is marked."""
    several = len({c.benchmark for c in cells}) > 1
    names = {(c.model, c.benchmark): f"{c.model} · {c.benchmark}" if several else c.model for c in cells}
    short = {(r.model, r.benchmark) for r in run.rows if not r.complete}
    return {key: f"{name} (incomplete)" if key in short else name for key, name in names.items()}


def _of_questions(behind: Behind, ranked: Sequence[SweepResult], names: Names) -> dict[str, Any]:
    """What the page prints of the answers themselves: how many, how they were read, and each of them."""
    total_rows = sum(int(np.sum(c.state != State.ABSENT)) for c in behind.cells)
    drill = pack(behind.listed, seed=behind.seed, max_text_bytes=behind.max_text_bytes)
    head = {**drill.head, "arm_words": [ARMS[arm] for arm in drill.head["arms"]], "gates": _gate_items(ranked)}
    pooled = POOLED if any(s.replicate > 0 for c in behind.cells for s in c.settings) else ""
    aggregators = sorted({aggregator_of(d) for d in behind.dirs})
    place = {model: {"model": k} for k, model in enumerate(drill.head["models"])}  # in the list of answers
    return {
        "gated": [Gated(names[c.model, c.benchmark], c.gates, place.get(c.model, {})) for c in ranked],
        "subtitle": _subtitle(ranked, total_rows, aggregators),
        "pooled": pooled,
        "against_clean": (AGAINST_CLEAN[0], AGAINST_CLEAN[1] + pooled),
        "drill": drill,
        "total_rows": total_rows,
        "shards": ", ".join(f"{d.name}/shards" for d in behind.dirs),
        "head_json": script_json(head),
        "chunk_json": [script_json(chunk) for chunk in drill.chunks],
    }


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


def _subtitle(cells: Sequence[SweepResult], total_rows: int, aggregators: Sequence[Aggregator]) -> str:
    sizes = sorted({c.n_questions for c in cells})
    asked = count(sizes[0]) if len(sizes) == 1 else f"{count(sizes[0])} to {count(sizes[-1])}"
    routers = sorted({r for c in cells for r in c.routers})
    spread = "" if not routers else f", r = {routers[0]}" + (f" to {routers[-1]}" if len(routers) > 1 else "")
    read = "; in another run ".join(AGGREGATED[one] for one in aggregators)
    asked += " question" if asked == "1" else " questions"
    return f"Router-worker audit: {asked} a model{spread}, {count(total_rows)} answers. The worker {read}."


def _figures(cells: Sequence[CellOutcomes], run: RunVerdict, names: Names) -> dict[str, Figure]:
    """Every figure that these cells can carry, by name: over every replicate, as the verdict is."""
    out = _reach(cells, run, names)
    gains = [
        charts.GainRow(names[c.model, c.benchmark], c.verdict, c.effect, c.noise_floor.mean_absolute_gain)
        for c in run.results
        if c.effect is not None
    ]
    if gains:
        out["evidence"] = charts.forest(gains, run.thresholds["effect_of_interest"])
    if rows := run.paper["cells"]:
        scores = [model_scores(c, names[c.model, c.benchmark]) for c in cells]
        by_router = run.paper["router_summary"]
        out["figure2_violation_pattern"] = charts.violation_pattern(by_router)
        out["figure3_noisy_against_clean"] = charts.small_multiples([m for m in scores if m.noisy])
        out["figure4_transitions"] = charts.transitions(by_router)
        out["figure5_violation_breadth"] = charts.breadth(breadths(rows, names))
    return out


def _reach(cells: Sequence[CellOutcomes], run: RunVerdict, names: Names) -> dict[str, Figure]:
    """What the run can rule out, and how many questions its design needs."""
    thresholds = SweepThresholds.from_mapping(run.thresholds)
    known = [
        (names[c.model, c.benchmark], c.effect.ci_low if c.effect else 0.0, c.largest_compatible_gain)
        for c in run.results
        if c.largest_compatible_gain is not None and np.isfinite(c.largest_compatible_gain)
    ]
    if not known:
        return {}
    tests = len(cells) * max(len(r.routers) for r in run.results)
    asked, runs = min(c.n_questions for c in run.results), min(runs_of(c.settings) for c in cells)
    enough = None if min(runs) < REPEATED else needed(thresholds, tests)
    curve = power_curve(
        lambda n: detectable(thresholds, n, tests, runs), asked, enough, thresholds.effect_of_interest, "gain",
        instead="repeat what is run once",
    )  # fmt: skip
    return {"ruled_out": ruled_out(known, thresholds.effect_of_interest, "gain"), "power_curve": curve}


@dataclass(frozen=True)
class SettingAccuracy:
    """One setting of one cell. n: questions, by the name of a `State` in states. accuracy (0-1, over those answered),
    low, high: None where nothing was answered."""

    model: str
    benchmark: str
    setting: Setting
    n: int
    states: dict[str, int]
    accuracy: float | None
    low: float | None
    high: float | None

    @property
    def answered(self) -> int:
        return self.states["correct"] + self.states["wrong"]


def setting_accuracies(cell: CellOutcomes) -> list[SettingAccuracy]:
    rows = []
    for setting, state in zip(cell.settings, cell.state, strict=True):
        states = {s.name.lower(): int(np.count_nonzero(state == s)) for s in State}
        found = interval(to_values(state), cell.cluster) or (None, None, None)
        rows.append(SettingAccuracy(cell.model, cell.benchmark, setting, cell.n, states, *found))
    return rows


@dataclass(frozen=True)
class Dose:
    """Accuracy by the share of words deleted, and its slope at 0; None where too few questions carry one."""

    rows: tuple[SettingAccuracy, ...]
    slope: InformationSlope | None


def dose_of(cell: CellOutcomes) -> Dose | None:
    """What deleting words costs a cell; None where nothing was deleted."""
    rows = tuple(row for row in setting_accuracies(cell) if row.setting.arm == DELETED)
    if not rows:
        return None
    values = np.stack([to_values(cell.row(row.setting)) for row in rows], axis=1)
    try:
        slope = slope_at_zero([row.setting.level / 100 for row in rows], values, cell.cluster)
    except DataError:
        slope = None
    return Dose(rows, slope)


def model_scores(cell: CellOutcomes, label: str) -> charts.ModelScores:
    """Accuracies with intervals, replicates averaged."""

    scores: dict[tuple[str, int], charts.Score] = {}
    for arm, r in sorted({(s.arm, s.level) for s in cell.settings}):
        if found := interval(settings_values(cell, replicates_of(cell, arm, r)), cell.cluster):
            scores[arm, r] = charts.Score(r, *found)

    def of(arm: Arm, least: int) -> tuple[charts.Score, ...]:
        return tuple(one for (a, r), one in scores.items() if a == arm and r >= least)

    return charts.ModelScores(
        label=label,
        clean=scores.get((Arm.FORWARD_FULL, 1)),
        noisy=of(Arm.NOISY_REWRITE, 1),
        ensemble=of(Arm.FORWARD_FULL, 2),
        direct=scores.get((Arm.DIRECT, 0)),
        chance=chance_level(cell.n_options),
    )


def _plain(value: Any) -> Any:
    """Floats with up to ten digits."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        value = value + 0.0  # no negative zero
        return int(value) if value.is_integer() and abs(value) >= 1 else f"{value:.10g}"
    return value


write = partial(columns, plain=_plain)


def _of_cells(run: RunVerdict, part: str, *names: str) -> str:
    """One row for each of a cell's own (the cell itself where part is empty), behind its model and benchmark."""
    pairs = ({"cell": c, "one": one} for c in run.marked for one in (getattr(c, part) if part else [c]))
    named = (name if "=" in name else f"{name}={name}" for name in names)
    return write(pairs, "model=cell.model", "benchmark=cell.benchmark", *(n.replace("=", "=one.") for n in named))


def _tables(run: RunVerdict, accuracies: Sequence[SettingAccuracy], doses: Sequence[Dose]) -> dict[str, str]:
    """Every table of a report, by the name of its file."""
    found = {
        "table1_models.csv": write(
            run.paper["model_summary"], "model", "violation_count", "violation_rate", "max_positive_excess",
            "mean_positive_excess", "mean_gain", "benchmark",
        ),
        "table2_models_by_router.csv": write(
            run.paper["cells"], "model", "routers", "clean_accuracy", "noisy_accuracy", "gain", "improve", "degrade",
            "benchmark", "n", "left_out",
        ),
        "table3_routers.csv": write(
            run.paper["router_summary"], "routers", "violating_models", "violation_rate", "mean_positive_excess",
            "improve", "degrade", "net_improve", "models",
        ),
        "settings.csv": write(
            accuracies, "model", "benchmark", "arm=setting.arm", "routers=setting.level",
            "replicate=setting.replicate", "questions=n", "answered", "correct=states.correct", "accuracy",
            "ci_low=low", "ci_high=high", "unparsed=states.unparsed", "truncated=states.truncated",
            "errors=states.error", "absent=states.absent",
        ),
        "verdicts.csv": _of_cells(
            run, "", "verdict=verdict.value", "score", "chance", "share_beyond_gains", "credibility",
            "credibility_category", "questions=n_questions", "largest_gain=effect.gain", "at_routers=effect.routers",
            "ci_low=effect.ci_low", "ci_high=effect.ci_high", "mean_gain=effect.mean_gain",
            "mean_ci_low=effect.mean_ci_low", "mean_ci_high=effect.mean_ci_high", "p_adjusted",
            "largest_compatible_gain", "run_sd", "run_sd_df", "noisy_run_sd", "noisy_run_sd_df",
            "slope=slope.estimate", "slope_ci_low=slope.ci_low", "slope_ci_high=slope.ci_high", "watermark", "headline",
        ),
        "gates.csv": _of_cells(
            run, "gates", "gate=name", "status=status.value", "number", "threshold", "withholds",
            "questions_behind=item_count", "detail", "advice", "source",
        ),
        "contrasts.csv": _of_cells(
            run, "contrasts", "contrast=name", "label", "routers", "n", "estimate", "ci_low", "ci_high",
            "p (one-sided)=p", "p_adjusted (one-sided)=p_adjusted", "improve", "degrade", "note",
        ),
        "mechanism.csv": _of_cells(run, "by_routers", *(field.name for field in fields(ByRouters))),
    }  # fmt: skip
    if doses:
        found["dose.csv"] = write(
            ({"a": a, "deleted": a.setting.level / 100, "s": one.slope} for one in doses for a in one.rows),
            "model=a.model", "benchmark=a.benchmark", "deleted", "questions=a.n", "answered=a.answered",
            "accuracy=a.accuracy", "ci_low=a.low", "ci_high=a.high", "slope_at_zero=s.slope", "slope_low=s.low",
            "slope_high=s.high", "slope_p (two-sided)=s.pvalue",
        )  # fmt: skip
    return found
