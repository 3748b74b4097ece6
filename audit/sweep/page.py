"""Build the sweep's page from its verdict: figures, tables and the list of answers.

The tables are csv files. Three of them have the column names of the paper's published data.
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
    "no accuracy. The share is 13 % if noise costs 5 points, and 2 % if it costs 10 (100 questions, "
    "nine router counts)."
)

# The names and captions of the figures that the template shows.
EVIDENCE = (
    "evidence",
    "Gain under noise of each model. Filled marks show the largest gain over r with its "
    "simultaneous 95 % interval, and open marks the mean over r. Grey shows the usual difference "
    "between two runs of the clean questions. A gain to the right of the dashed line matters.",
)
AGAINST_CLEAN = (
    "figure3_noisy_against_clean",
    "Accuracy by the number of router messages (r). Noise removes information, so an accuracy "
    "above the clean band needs an explanation, such as memory. Bars and band are separate 95 % "
    "intervals, while the verdict compares the same questions in pairs. The ensemble control reads "
    "as many messages, which delete nothing.",
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
Names = dict[tuple[str, str], str]  # maps (model, benchmark) to the display name


def page(run: RunVerdict, behind: Behind) -> Page:
    """Build the page of a verdict.

    Parameters
    ----------
    run : RunVerdict
        The judged panel.
    behind : Behind
        The cells, rows and run directories from which the verdict was computed.

    Returns
    -------
    Page
        The tables, the figures, and the function that renders the page.
    """
    cells, names = behind.cells, _names(run, behind.cells)
    models, rows = run.paper["model_summary"], run.paper["cells"]
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
        table3=run.paper["router_summary"],
        runs=facts_of_runs,
    )
    return Page(
        _tables(run, accuracies, doses),
        _figures(cells, run, names),
        lambda figures: shown(figures=figures),
    )


def _names(run: RunVerdict, cells: Sequence[CellOutcomes]) -> Names:
    """Return the display name of each cell.

    The display name contains the model's name and, if the panel has several benchmarks, the
    benchmark. If rows of the cell are missing, the display name also states that rows are missing.
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
    """Return the values with which the template shows the list of answers."""
    total_rows = 0
    for c in behind.cells:
        total_rows += int(np.count_nonzero(c.state != State.ABSENT))
    drill = pack(behind.listed, seed=behind.seed, max_text_bytes=behind.max_text_bytes)
    head = {
        **drill.head,
        "arm_words": [ARMS[arm] for arm in drill.head["arms"]],
        "gates": _gate_items(ranked),
    }
    settings = chain.from_iterable(cell.settings for cell in behind.cells)
    pooled = POOLED if any(setting.replicate > 0 for setting in settings) else ""
    aggregators = sorted({aggregator_of(d) for d in behind.dirs})
    # The list of answers can be filtered by model.
    filters = {}
    for k, model in enumerate(drill.head["models"]):
        filters[model] = {"model": k}
    gated = []
    for cell in ranked:
        gated.append(
            Gated(names[cell.model, cell.benchmark], cell.gates, filters.get(cell.model, {}))
        )
    return {
        "gated": gated,
        "subtitle": _subtitle(ranked, total_rows, aggregators),
        "pooled": pooled,
        "against_clean": (AGAINST_CLEAN[0], AGAINST_CLEAN[1] + pooled),
        "drill": drill,
        "total_rows": total_rows,
        "shards": ", ".join(f"{run_dir.name}/shards" for run_dir in behind.dirs),
        "head_json": script_json(head),
        "chunk_json": list(map(script_json, drill.chunks)),
    }


def _gate_items(cells: Sequence[SweepResult]) -> list[dict[str, Any]]:
    """Return the gates by which the page can filter questions, with the questions of each gate.

    The result contains the gates that failed, and all other gates that name questions.
    """
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
    """Return the line below the title, with the numbers of questions, routers and answers."""
    sizes: set[int] = set()
    router_counts: set[int] = set()
    for cell in cells:
        sizes.add(cell.n_questions)
        router_counts.update(cell.routers)
    questions = count(min(sizes))
    if len(sizes) > 1:
        questions += f" to {count(max(sizes))}"
    routers = sorted(router_counts)
    spread = f", r = {routers[0]}" if routers else ""
    if len(routers) > 1:
        spread += f" to {routers[-1]}"
    aggregation = "; in another run ".join(AGGREGATED[aggregator] for aggregator in aggregators)
    questions += " question" if questions == "1" else " questions"
    return f"Router-worker audit: {questions} a model{spread}, {count(total_rows)} answers. The worker {aggregation}."


def _figures(cells: Sequence[CellOutcomes], run: RunVerdict, names: Names) -> dict[str, Figure]:
    """Draw the figures of the page, by name.

    A figure without data is left out. Replicates are averaged, as in the verdict.
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
        by_router = run.paper["router_summary"]
        out["figure2_violation_pattern"] = charts.violation_pattern(by_router)
        measured = []
        for cell in cells:
            scores = model_scores(cell, names[cell.model, cell.benchmark])
            if scores.noisy:
                measured.append(scores)
        out["figure3_noisy_against_clean"] = charts.small_multiples(measured)
        out["figure4_transitions"] = charts.transitions(by_router)
        out["figure5_violation_breadth"] = charts.breadth(breadths(rows, names))
    return out


def _reach(cells: Sequence[CellOutcomes], run: RunVerdict, names: Names) -> dict[str, Figure]:
    """Draw which gains the run excludes, and how many questions its design would need."""
    thresholds = SweepThresholds.from_mapping(run.thresholds)
    known = []
    for c in run.results:
        if c.largest_compatible_gain is not None and np.isfinite(c.largest_compatible_gain):
            low = c.effect.ci_low if c.effect else 0.0
            known.append((names[c.model, c.benchmark], low, c.largest_compatible_gain))
    if not known:
        return {}
    router_counts, sizes = [], []
    for result in run.results:
        router_counts.append(len(result.routers))
        sizes.append(result.n_questions)
    tests = len(cells) * max(router_counts)
    questions = min(sizes)
    runs = min(runs_of(cell.settings) for cell in cells)
    enough = None if min(runs) < REPEATED else needed(thresholds, tests)
    curve = power_curve(
        lambda n: detectable(thresholds, n, tests, runs),
        questions,
        enough,
        thresholds.effect_of_interest,
        "gain",
        instead="repeat the arms that are run once",
        decided=run.decided,
    )
    return {
        "ruled_out": ruled_out(known, thresholds.effect_of_interest, "gain"),
        "power_curve": curve,
    }


@dataclass(frozen=True)
class SettingAccuracy:
    """Hold the accuracy of one setting of one cell.

    Attributes
    ----------
    n : int
        The number of questions.
    states : dict
        Maps the name of each `State` to its number of questions.
    accuracy, low, high : float or None
        The accuracy over answered questions with its interval, 0-1. They are None if no question
        was answered.
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
    """Compute the accuracy of every setting of a cell.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.

    Returns
    -------
    list of SettingAccuracy
        The accuracies with intervals, in the order of the settings.
    """
    rows = []
    for setting, state in zip(cell.settings, cell.state, strict=True):
        states = {}
        for s in State:
            states[s.name.lower()] = int(np.count_nonzero(state == s))
        accuracy, low, high = interval(to_values(state), cell.cluster) or (None, None, None)
        rows.append(
            SettingAccuracy(
                cell.model, cell.benchmark, setting, cell.n, states, accuracy, low, high
            )
        )
    return rows


@dataclass(frozen=True)
class Dose:
    """Hold the accuracy of a cell at each share of deleted words.

    `slope` is the change of accuracy per share of deleted words, at a share of 0. It is None if
    there are too few questions.
    """

    rows: tuple[SettingAccuracy, ...]
    slope: InformationSlope | None


def dose_of(cell: CellOutcomes) -> Dose | None:
    """Compute the accuracy of a cell at each share of deleted words.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.

    Returns
    -------
    Dose or None
        The accuracies; None if no setting deletes words.
    """
    rows, shares, values = [], [], []
    for row in setting_accuracies(cell):
        if row.setting.arm == DELETED:
            rows.append(row)
            shares.append(row.setting.level / 100)
            values.append(to_values(cell.row(row.setting)))
    if not rows:
        return None
    try:
        slope = slope_at_zero(shares, np.stack(values, axis=1), cell.cluster)
    except DataError:
        slope = None
    return Dose(tuple(rows), slope)


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
    """Format a value as a csv field, with at most ten digits."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        value = value + 0.0  # This removes the sign of a negative zero.
        return int(value) if value.is_integer() and abs(value) >= 1 else f"{value:.10g}"
    return value


write = partial(columns, plain=_plain)


def _of_cells(run: RunVerdict, part: str, *names: str) -> str:
    """Return a csv table whose rows begin with the model and benchmark of a cell.

    If `part` is empty, the table has one row for each cell. Otherwise `part` names a field of the
    cell that has several entries, and the table has one row for each entry.
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
    """Return the csv tables of the report, by file name."""
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
