"""Build the sweep's page from its verdict, with figures, tables and packed outcomes.

The tables are csv. Three have the column names of the paper's published data; the others are ours.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from audit.core.errors import DataError
from audit.core.records import Setting
from audit.judging.result import Status
from audit.judging.tables import columns
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

BY_CHANCE = (
    "By chance alone, a clean model is above its baseline in 44 % of its settings if noise costs "
    "nothing. If noise costs 5 points, this share is 13 %, and for 10 points 2 % (100 questions, "
    "nine router counts)."
)

# The names and captions of figures that the template places.
EVIDENCE = (
    "evidence",
    "Gain under noise of each model. Filled marks show the largest gain over r with its "
    "simultaneous 95 % interval, and open marks the mean over r. Grey is the usual difference "
    "between two runs of the clean questions. Right of the dashed line a gain would matter.",
)
AGAINST_CLEAN = (
    "figure3_noisy_against_clean",
    "Accuracy by the number of router messages (r). Noise removes information, so an accuracy "
    "above the clean band needs an explanation, such as memory. Bars and band are separate 95 % "
    "intervals; the verdict compares the same questions pair by pair. The ensemble control has as "
    "many messages, which delete nothing.",
)
ERRORS = {
    "clean_excess": "A model that does not gain is accused (false positive)",
    "gain_5_excess": "A model that gains 5 points at every r is found",
    "gain_one_r_cleared": "A model that gains 5 points at one r is cleared (false negative)",
}
AGGREGATED = {
    Aggregator.CONCATENATE: "reads the r messages one after the other",
    Aggregator.SUMMARY: "reads one summary of the r messages, written by the router's model",
    Aggregator.VOTE: "answers each of the r messages alone, and the option with most votes counts",
}
POOLED = " Runs of one condition are averaged, as in the verdict."
_SCRIPTS = (
    "report/diff.js",
    "sweep/drill.js",
    "sweep/answer.js",
    "sweep/grid.js",
    "sweep/page.js",
)
_WORDS: dict[str, Any] = {
    "gates": GATES,
    "labels": LABELS,
    "words": VERDICTS,
    "arms": ARMS,
    "evidence": EVIDENCE,
    "by_chance": BY_CHANCE,
}
Names = dict[tuple[str, str], str]  # display names by (model, benchmark)


def page(run: RunVerdict, behind: Behind) -> Page:
    """Build the page of a verdict.

    Parameters
    ----------
    run : RunVerdict
        The judged panel.
    behind : Behind
        The cells, rows and run directories of that verdict.

    Returns
    -------
    Page
        The tables, the figures, and the function that renders the page.
    """
    cells, names = behind.cells, _names(run, behind.cells)
    models, by_router, rows = (
        run.paper["model_summary"],
        run.paper["router_summary"],
        run.paper["cells"],
    )
    accuracies: list[SettingAccuracy] = []
    for cell in cells:
        accuracies += setting_accuracies(cell.without(DELETED))
    doses = []
    for dose in map(dose_of, cells):
        if dose is not None:
            doses.append(dose)

    def rank(result: SweepResult) -> tuple[int, float, str]:
        gain = result.effect.gain if result.effect else -math.inf
        return severity(result.verdict, gain, names[result.model, result.benchmark])

    ranked = sorted(run.marked, key=rank)
    breadth_rows = []
    for summary, (_, _, total) in zip(models, breadths(rows, names), strict=True):
        breadth_rows.append((summary, total))
    facts_of_runs = []
    for run_dir in behind.dirs:
        facts_of_runs.append(run_facts(run_dir))
    shown = partial(
        render_page,
        "sweep/page.html.j2",
        rows=run.rows,
        **_WORDS,
        **_of_questions(behind, ranked, names),
        scripts=_SCRIPTS,
        run=run,
        cells=ranked,
        title=run.title("Can the score be trusted?"),
        names=names,
        decisions=marks_of(replace(run, results=tuple(ranked)), VERDICTS),
        errors=errors_of(ranked[:1] if len(ranked) > 2 else ranked, ERRORS),
        accuracies=accuracies,
        doses=doses,
        clustered=any(len(set(c.cluster.tolist())) < c.n for c in cells),
        table1=breadth_rows,
        table2=rows,
        table3=by_router,
        runs=facts_of_runs,
    )
    return Page(
        _tables(run, accuracies, doses),
        _figures(cells, run, names),
        lambda figures: shown(figures=figures),
    )


def _names(run: RunVerdict, cells: Sequence[CellOutcomes]) -> Names:
    """Return display names, which mark cells with missing rows.

    A name is the model, and in a panel of several benchmarks also the benchmark.
    """
    several = len({c.benchmark for c in cells}) > 1
    names = {}
    for c in cells:
        names[(c.model, c.benchmark)] = f"{c.model} · {c.benchmark}" if several else c.model
    for rows in run.rows:
        key = (rows.model, rows.benchmark)
        if not rows.complete and key in names:
            names[key] += " (incomplete)"
    return names


def _of_questions(behind: Behind, ranked: Sequence[SweepResult], names: Names) -> dict[str, Any]:
    """Return the page's values about the answers: their number, their reading and the list of
    all."""
    total_rows = sum(int(np.sum(c.state != State.ABSENT)) for c in behind.cells)
    drill = pack(behind.listed, seed=behind.seed, max_text_bytes=behind.max_text_bytes)
    head = {
        **drill.head,
        "arm_words": [ARMS[arm] for arm in drill.head["arms"]],
        "gates": _gate_items(ranked),
    }
    settings = chain.from_iterable(cell.settings for cell in behind.cells)
    pooled = POOLED if any(setting.replicate > 0 for setting in settings) else ""
    aggregators = sorted({aggregator_of(d) for d in behind.dirs})
    # This filter selects the model in the list of answers.
    filters = {}
    for k, model in enumerate(drill.head["models"]):
        filters[model] = {"model": k}
    gated = []
    for cell in ranked:
        gated.append(
            Gated(names[cell.model, cell.benchmark], cell.gates, filters.get(cell.model, {}))
        )
    shards = []
    for run_dir in behind.dirs:
        shards.append(f"{run_dir.name}/shards")
    chunks = []
    for chunk in drill.chunks:
        chunks.append(script_json(chunk))
    return {
        "gated": gated,
        "subtitle": _subtitle(ranked, total_rows, aggregators),
        "pooled": pooled,
        "against_clean": (AGAINST_CLEAN[0], AGAINST_CLEAN[1] + pooled),
        "drill": drill,
        "total_rows": total_rows,
        "shards": ", ".join(shards),
        "head_json": script_json(head),
        "chunk_json": chunks,
    }


def _gate_items(cells: Sequence[SweepResult]) -> list[dict[str, Any]]:
    rows = []
    for cell in cells:
        for gate in cell.gates:
            if not gate.items and gate.status is not Status.FAIL:
                continue
            rows.append(
                {
                    "name": gate.name,
                    "title": GATES[gate.name].title if gate.name in GATES else words(gate.name),
                    "model": cell.model,
                    "benchmark": cell.benchmark,
                    "status": gate.status.value,
                    "items": list(gate.items),
                }
            )
    return rows


def _subtitle(
    cells: Sequence[SweepResult], total_rows: int, aggregators: Sequence[Aggregator]
) -> str:
    sizes = sorted({c.n_questions for c in cells})
    questions = count(sizes[0]) if len(sizes) == 1 else f"{count(sizes[0])} to {count(sizes[-1])}"
    router_counts = set()
    for cell in cells:
        for r in cell.routers:
            router_counts.add(r)
    routers = sorted(router_counts)
    spread = f", r = {routers[0]}" if routers else ""
    if len(routers) > 1:
        spread += f" to {routers[-1]}"
    aggregation = "; in another run ".join(AGGREGATED[aggregator] for aggregator in aggregators)
    questions += " question" if questions == "1" else " questions"
    return f"Router-worker audit: {questions} a model{spread}, {count(total_rows)} answers. The worker {aggregation}."


def _figures(cells: Sequence[CellOutcomes], run: RunVerdict, names: Names) -> dict[str, Figure]:
    """Return every figure for which these cells have data, by name.

    As in the verdict, all replicates are averaged.
    """
    out = _reach(cells, run, names)
    gains = []
    for c in run.results:
        if c.effect is not None:
            gains.append(
                charts.GainRow(
                    names[c.model, c.benchmark],
                    c.verdict,
                    c.effect,
                    c.noise_floor.mean_absolute_gain,
                )
            )
    if gains:
        out["evidence"] = charts.forest(gains, run.thresholds["effect_of_interest"])
    if rows := run.paper["cells"]:
        scores = [model_scores(c, names[c.model, c.benchmark]) for c in cells]
        by_router = run.paper["router_summary"]
        out["figure2_violation_pattern"] = charts.violation_pattern(by_router)
        measured = []
        for m in scores:
            if m.noisy:
                measured.append(m)
        out["figure3_noisy_against_clean"] = charts.small_multiples(measured)
        out["figure4_transitions"] = charts.transitions(by_router)
        out["figure5_violation_breadth"] = charts.breadth(breadths(rows, names))
    return out


def _reach(cells: Sequence[CellOutcomes], run: RunVerdict, names: Names) -> dict[str, Figure]:
    """Draw the effects that the run excludes, and how many questions its design needs."""
    thresholds = SweepThresholds.from_mapping(run.thresholds)
    known = []
    for c in run.results:
        if c.largest_compatible_gain is not None and np.isfinite(c.largest_compatible_gain):
            low = c.effect.ci_low if c.effect else 0.0
            known.append((names[c.model, c.benchmark], low, c.largest_compatible_gain))
    if not known:
        return {}
    tests = len(cells) * max(len(r.routers) for r in run.results)
    questions = min(result.n_questions for result in run.results)
    runs = min(runs_of(cell.settings) for cell in cells)
    enough = None if min(runs) < REPEATED else needed(thresholds, tests)
    curve = power_curve(
        lambda n: detectable(thresholds, n, tests, runs),
        questions,
        enough,
        thresholds.effect_of_interest,
        "gain",
        instead="repeat what is run once",
        decided=run.decided,
    )
    return {
        "ruled_out": ruled_out(known, thresholds.effect_of_interest, "gain"),
        "power_curve": curve,
    }


@dataclass(frozen=True)
class SettingAccuracy:
    """Hold the accuracy of one setting of one cell.

    n: the number of questions. states: their number by the name of a `State`. accuracy, low, high:
    0-1 over answered questions; None if no question was answered.
    """

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
        """Return the number of answered questions."""
        return self.states["correct"] + self.states["wrong"]


def setting_accuracies(cell: CellOutcomes) -> list[SettingAccuracy]:
    """Return the accuracy of every setting of a cell, with intervals."""
    rows = []
    for setting, state in zip(cell.settings, cell.state, strict=True):
        states = {s.name.lower(): int(np.count_nonzero(state == s)) for s in State}
        accuracy, low, high = interval(to_values(state), cell.cluster) or (None, None, None)
        rows.append(
            SettingAccuracy(
                cell.model, cell.benchmark, setting, cell.n, states, accuracy, low, high
            )
        )
    return rows


@dataclass(frozen=True)
class Dose:
    """Hold the accuracy by the share of deleted words.

    The slope at 0 is None with too few questions.
    """

    rows: tuple[SettingAccuracy, ...]
    slope: InformationSlope | None


def dose_of(cell: CellOutcomes) -> Dose | None:
    """Return the accuracy of a cell by the share of deleted words; None if none was deleted."""
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
    """Return the accuracies of a cell with their intervals, averaged over replicates.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.
    label : str
        The display name of the model.

    Returns
    -------
    ModelScores
        The values of figure 3.
    """

    scores: dict[tuple[str, int], charts.Score] = {}
    for arm, r in sorted({(s.arm, s.level) for s in cell.settings}):
        with_limits = interval(settings_values(cell, replicates_of(cell, arm, r)), cell.cluster)
        if with_limits:
            scores[arm, r] = charts.Score(r, *with_limits)

    def of(arm: Arm, least: int) -> tuple[charts.Score, ...]:
        at_least = []
        for (a, r), score in scores.items():
            if a == arm and r >= least:
                at_least.append(score)
        return tuple(at_least)

    return charts.ModelScores(
        label=label,
        clean=scores.get((Arm.FORWARD_FULL, 1)),
        noisy=of(Arm.NOISY_REWRITE, 1),
        ensemble=of(Arm.FORWARD_FULL, 2),
        direct=scores.get((Arm.DIRECT, 0)),
        chance=chance_level(cell.n_options),
    )


def _plain(value: Any) -> Any:
    """Format a value as a csv field. Floats have up to ten digits."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        value = value + 0.0  # removes the sign of a negative zero
        return int(value) if value.is_integer() and abs(value) >= 1 else f"{value:.10g}"
    return value


write = partial(columns, plain=_plain)


def _of_cells(run: RunVerdict, part: str, *names: str) -> str:
    """Return a table as csv, whose rows begin with the model and benchmark of a cell.

    part: a field of the cell that holds several entries, each of which becomes a row. If it is
    empty, every cell becomes a row.
    """
    pairs = []
    for cell in run.marked:
        for row in getattr(cell, part) if part else [cell]:
            pairs.append({"cell": cell, "row": row})
    columns_of_row = []
    for name in names:
        column, _, path = name.partition("=")
        columns_of_row.append(f"{column}=row.{path or column}")
    return write(pairs, "model=cell.model", "benchmark=cell.benchmark", *columns_of_row)


def _tables(
    run: RunVerdict, accuracies: Sequence[SettingAccuracy], doses: Sequence[Dose]
) -> dict[str, str]:
    """Return every table of a report by file name."""
    tables = {
        "table1_models.csv": write(
            run.paper["model_summary"],
            "model",
            "violation_count",
            "violation_rate",
            "max_positive_excess",
            "mean_positive_excess",
            "mean_gain",
            "benchmark",
        ),
        "table2_models_by_router.csv": write(
            run.paper["cells"],
            "model",
            "routers",
            "clean_accuracy",
            "noisy_accuracy",
            "gain",
            "improve",
            "degrade",
            "benchmark",
            "n",
            "left_out",
        ),
        "table3_routers.csv": write(
            run.paper["router_summary"],
            "routers",
            "violating_models",
            "violation_rate",
            "mean_positive_excess",
            "improve",
            "degrade",
            "net_improve",
            "models",
        ),
        "settings.csv": write(
            accuracies,
            "model",
            "benchmark",
            "arm=setting.arm",
            "routers=setting.level",
            "replicate=setting.replicate",
            "questions=n",
            "answered",
            "correct=states.correct",
            "accuracy",
            "ci_low=low",
            "ci_high=high",
            "unparsed=states.unparsed",
            "truncated=states.truncated",
            "errors=states.error",
            "absent=states.absent",
        ),
        "verdicts.csv": _of_cells(
            run,
            "",
            "verdict=verdict.value",
            "score",
            "chance",
            "share_beyond_gains",
            "credibility",
            "credibility_category",
            "questions=n_questions",
            "largest_gain=effect.gain",
            "at_routers=effect.routers",
            "ci_low=effect.ci_low",
            "ci_high=effect.ci_high",
            "mean_gain=effect.mean_gain",
            "mean_ci_low=effect.mean_ci_low",
            "mean_ci_high=effect.mean_ci_high",
            "p_adjusted",
            "largest_compatible_gain",
            "run_sd",
            "run_sd_df",
            "noisy_run_sd",
            "noisy_run_sd_df",
            "slope=slope.estimate",
            "slope_ci_low=slope.ci_low",
            "slope_ci_high=slope.ci_high",
            "watermark",
            "headline",
        ),
        "gates.csv": _of_cells(
            run,
            "gates",
            "gate=name",
            "status=status.value",
            "number",
            "threshold",
            "withholds",
            "questions_behind=item_count",
            "detail",
            "advice",
            "source",
        ),
        "contrasts.csv": _of_cells(
            run,
            "contrasts",
            "contrast=name",
            "label",
            "routers",
            "n",
            "estimate",
            "ci_low",
            "ci_high",
            "p (one-sided)=p",
            "p_adjusted (one-sided)=p_adjusted",
            "improve",
            "degrade",
            "note",
        ),
        "mechanism.csv": _of_cells(run, "by_routers", *(field.name for field in fields(ByRouters))),
    }
    if doses:
        rows = []
        for dose in doses:
            rows += [{"a": a, "deleted": a.setting.level / 100, "s": dose.slope} for a in dose.rows]
        tables["dose.csv"] = write(
            rows,
            "model=a.model",
            "benchmark=a.benchmark",
            "deleted",
            "questions=a.n",
            "answered=a.answered",
            "accuracy=a.accuracy",
            "ci_low=a.low",
            "ci_high=a.high",
            "slope_at_zero=s.slope",
            "slope_low=s.low",
            "slope_high=s.high",
            "slope_p (two-sided)=s.pvalue",
        )
    return tables
