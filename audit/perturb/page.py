"""Build the HTML page of a perturbation audit, with its figures and tables.

jinja2 escapes every text that comes from a benchmark, a library or a model. The page's JavaScript
inserts no markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from audit.judging.result import because, finite, sentence
from audit.judging.tables import csv_text, digits
from audit.perturb.analyse import RunVerdict
from audit.perturb.audit import SCHEMA
from audit.perturb.design import Arm, PerturbThresholds
from audit.perturb.record import PerturbCell
from audit.perturb.report import Behind
from audit.perturb.texts import TEXTS
from audit.perturb.vocabulary import GATES, LABELS, VERDICTS, PerturbResult
from audit.report import canvas
from audit.report.build import Page, run_facts
from audit.report.page import Gated, RunFacts, Segments, errors_of, marks_of, render_page, word_diff
from audit.shards.read import iter_rows
from audit.statistics.chance import interval
from audit.statistics.intensity import IntensityTrend, intensity_trend
from audit.statistics.paired import FloatArray
from audit.statistics.wording_design import PLANNED_FLIPS, detectable_drop, items_needed
from audit.statistics.wording_drop import item_means
from audit.variants.funnel import funnel_text
from audit.variants.record import Library

ERRORS = {
    "clean_beyond": "A clean model gets a drop beyond reference (false positive)",
    "clean_strong": "A clean model gets a strong finding, which blocks (false positive)",
    "clean_unknown": "A clean model gets a drop of unknown cause (false positive)",
    "memorised_beyond": "A model that remembers 15 % of the items gets a finding",
    "memorised_half_strong": "A model that remembers half of the items gets a strong finding",
    "memorised_unknown": "A model that remembers 15 % of the items gets a drop of unknown cause",
    "memorised_5_cleared": "A model that loses 5 points by memory is cleared (false negative)",
}
HARDEST = 10  # number of variants in the list of variants on which models lose most accuracy


Interval = tuple[float, float, float]  # accuracy with its 95 % limits, 0-1


def page(verdict: RunVerdict, behind: Behind) -> Page:
    """Build the HTML page of a perturbation audit.

    Parameters
    ----------
    verdict : RunVerdict
        The verdict on the run.
    behind : Behind
        The answers and the libraries of variants of the run.

    Returns
    -------
    Page
        The tables, the figures, and a function that renders the page.
    """
    verdict = verdict.sorted_by_grade()
    read, cells, results = behind.read, verdict.cells, verdict.results
    drawn: dict[str, Figure] = {}
    bins, trends = {}, []
    for cell, result in zip(cells, results, strict=True):
        sent = read.requests[result.model, result.benchmark]
        distances, correct = np.array(sent.distances), np.array(sent.correct)
        binned = distance_bins(distances, correct)
        if binned:
            bins[f"{result.model} on {result.benchmark}"] = binned
        clusters = dict(zip(cell.question_ids, cell.cluster.tolist(), strict=True))
        of_variants = list(map(clusters.__getitem__, sent.reworded))
        trend = intensity_trend(sent.reworded, distances, correct, of_variants)
        if trend is not None:
            trends.append((result.model, trend))
    for c in cells[:1]:  # All cells have the same benchmark.
        drawn[f"original_against_variants_{c.benchmark}"] = original_against_variants(
            _bars(cells), c.chance
        )
    if bins:
        drawn["accuracy_by_distance"] = accuracy_by_distance(bins)
    drawn |= _reach(verdict)
    tables = {"items.csv": items_csv(cells, results)}
    items = top_items(read.run_dir, cells, results)
    facts = run_facts(read.run_dir)
    library, control = behind.library, behind.control
    return Page(
        tables,
        drawn,
        lambda figures: render(verdict, library, facts, figures, items, control, trends),
    )


def render(
    verdict: RunVerdict,
    library: Library,
    facts: RunFacts,
    figures: dict[str, str],
    items: Sequence[PageItem],
    control: Library | None = None,
    trends: Sequence[tuple[str, IntensityTrend]] = (),
) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    verdict : RunVerdict
        The verdict on the run.
    library : Library
        The variants of the run.
    facts : RunFacts
        Facts about the run from its manifest.
    figures : dict
        HTML elements of the figures, by name.
    items : sequence of PageItem
        The items, in their order on the page.
    control : Library, optional
        The library of the held-out items.
    trends : sequence of (str, IntensityTrend)
        For each judged model, how its accuracy depends on the distance between variants and
        original.

    Returns
    -------
    str
        HTML.
    """
    cells, results = verdict.cells, verdict.results
    shown = []
    for c, r in zip(cells, results, strict=True):
        shown.append(
            {
                "cell": c,
                "result": r,
                "mark": verdict.mark(c, r),
                "not_asked": int((~c.tested.requested_variants).sum()),
            }
        )
    say = partial(sentence, texts=TEXTS)
    questions = [f"{n:,}" for n in sorted({c.n for c in cells})]
    variants = max((len(c.tested.variants) for c in cells), default=0)
    subtitle = because(
        "subtitle",
        questions=questions,
        variants=variants,
        answers=sum(r.found for r in verdict.rows),
    )
    gated = []
    for result in results:
        gated.append(
            Gated(result.model, result.gates, {"cell": f"{result.model} on {result.benchmark}"})
        )
    levels = []
    hardest = []
    for cell in cells:
        levels.append(_levels(cell))
        hardest.append(_hardest(cell))
    return render_page(
        "perturb/page.html.j2",
        rows=verdict.rows,
        scripts=("report/items.js",),
        gates=GATES,
        labels=LABELS,
        gated=gated,
        title=verdict.title("Does the score depend on the wording?"),
        subtitle=say(subtitle),
        say=say,
        words=VERDICTS,
        cells=shown,
        decisions=marks_of(verdict, VERDICTS),
        errors=errors_of(results, ERRORS),
        figures=figures,
        levels=levels,
        trends=trends,
        hardest=hardest,
        funnel=funnel_text(library),
        library=library,
        control=control,
        thresholds=verdict.thresholds,
        facts=facts,
        items=items,
        total_items=sum(c.n for c in cells),
    )


def _reach(verdict: RunVerdict) -> dict[str, Figure]:
    """Return two figures on the sensitivity of the run.

    One shows the drops in accuracy that the run excludes, the other the drops that it can detect.
    """
    limits = PerturbThresholds.from_mapping(verdict.thresholds)
    known = []
    for r in verdict.results:
        if r.evidence is not None and np.isfinite(r.evidence.drop.largest):
            known.append((r.model, r.evidence.drop.drop.low, r.evidence.drop.largest))
    if not known:
        return {}
    effect = limits.effect_of_interest
    variants = max(len(c.tested.variants) for c in verdict.cells)
    alpha, power = limits.alpha, limits.power
    plan = partial(
        detectable_drop, variants=variants, discordance=PLANNED_FLIPS, alpha=alpha, power=power
    )
    needed = items_needed(effect, variants, PLANNED_FLIPS, alpha=alpha, power=power) or 1
    items = min(c.n for c in verdict.cells)
    return {
        "ruled_out": canvas.ruled_out(known, effect, "drop"),
        "power_curve": canvas.power_curve(
            plan, items, needed, effect, "drop", decided=verdict.decided
        ),
    }


def _bars(cells: Sequence[PerturbCell]) -> list[tuple[str, Interval | None, Interval | None, bool]]:
    """Return (label, accuracy with originals, accuracy with variants, is reference) for each model.

    Judged models come first. An accuracy is None if the model has no parsed answer.
    """
    models = [(cell.tested, cell, "") for cell in cells]
    models += [(w, cells[-1], " (reference)") for w in cells[-1].references]
    bars = []
    for w, cell, note in models:
        original, reworded = item_means(*w.pair)
        o, v = interval(original, cell.cluster), interval(reworded, cell.cluster)
        bars.append((f"{w.model}{note}", o, v, bool(note)))
    return bars


def _levels(cell: PerturbCell) -> list[tuple[str, list[Interval | None], bool]]:
    """Return (name, accuracies, is reference) for each model.

    The accuracies are listed for the original and for each variant.
    """
    rows = []
    for w in (cell.tested, *cell.references):
        wordings = (item_means(*w.pair)[0], *w.variants)
        accuracies = [interval(values, cell.cluster) for values in wordings]
        rows.append((w.model, accuracies, w is not cell.tested))
    return rows


def _hardest(cell: PerturbCell) -> list[tuple[str, int, float, float, int]]:
    """Return the variants on which models lose most, the largest loss first.

    Each variant is a tuple with

    - the id of its question and the number of the variant,
    - the share of models that answer the original right,
    - the share of models that answer the variant right,
    - the number of models: the judged model and its references.

    The result is empty if there are fewer than three models.
    """
    models = (cell.tested, *cell.references)
    if len(models) < 3:
        return []
    originals = np.stack([item_means(*w.pair)[0] for w in models])
    rows = []
    for j in range(min(len(w.variants) for w in models)):
        variants = np.stack([w.variants[j] for w in models])
        both = ~np.isnan(originals) & ~np.isnan(variants)
        for i in np.flatnonzero(both.sum(axis=0) >= 3).tolist():
            o = float(originals[both[:, i], i].mean())
            v = float(variants[both[:, i], i].mean())
            if o > v:
                rows.append((cell.question_ids[i], j + 1, o, v, int(both[:, i].sum())))
    return sorted(rows, key=lambda row: (row[3] - row[2], row[0], row[1]))[:HARDEST]


BINS = 5  # number of bins of distance; all bins have about the same number of variants
_PERCENT = FuncFormatter(lambda value, _: f"{100 * value:.4g} %")


def distance_bins(distance: FloatArray, correct: FloatArray) -> list[tuple[float, Interval]]:
    """Return the accuracy of variants, grouped by their distance from the original.

    Parameters
    ----------
    distance, correct : array (m,)
        Distance of each variant from its original, and whether the answer to it is right (1) or
        wrong (0). A variant with NaN is left out.

    Returns
    -------
    list of (float, Interval)
        For each bin, the middle of its distances, and the accuracy with its interval. The result
        has at most BINS bins, with about the same number of variants in each.
    """
    known = ~np.isnan(correct) & ~np.isnan(distance)
    d, y = distance[known], correct[known]
    if not d.size:
        return []
    bins = []
    for part in np.array_split(np.argsort(d, kind="stable"), min(BINS, d.size)):
        accuracy = interval(y[part], np.arange(part.size))
        if accuracy is not None:
            bins.append((float(d[part[0]] + d[part[-1]]) / 2, accuracy))
    return bins


@canvas.styled()
def original_against_variants(
    bars: Sequence[tuple[str, Interval | None, Interval | None, bool]], chance: float
) -> Figure:
    """Draw the accuracy of each model with the original wording and with variants.

    Open markers show the original, filled markers the variants, each with its 95 % interval.

    Parameters
    ----------
    bars : sequence of (str, Interval or None, Interval or None, bool)
        For each model, its label, its accuracies with the original and with the variants, and
        whether it is a reference (drawn in grey).
    chance : float
        Accuracy of guessing.

    Returns
    -------
    Figure
        The figure, with one row for each model.
    """
    figure = Figure(figsize=(canvas.PHONE, 1.0 + 0.62 * len(bars)), layout="constrained")
    axes = figure.add_subplot()
    for y, (_, original, variants, reference) in enumerate(reversed(bars)):
        colours = (canvas.MUTED, canvas.MUTED) if reference else (canvas.BLUE, canvas.VERMILLION)
        for accuracy, colour, shift, fill in (
            (original, colours[0], 0.12, "none"),
            (variants, colours[1], -0.12, colours[1]),
        ):
            if accuracy is not None:
                axes.plot(accuracy[1:], (y + shift,) * 2, color=colour, linewidth=1.4)
                axes.plot(
                    accuracy[0], y + shift, "o", color=colour, markerfacecolor=fill, markersize=6
                )
    axes.axvline(chance, color=canvas.MUTED, linewidth=0.8, linestyle=":")
    labels = []
    for label, *_ in reversed(bars):
        labels.append(label)
    heights = np.arange(len(bars)) + 0.38
    canvas.names_above(axes, labels, heights.tolist())
    axes.set_ylim(-0.4, len(bars) - 0.4)
    axes.xaxis.set_major_formatter(_PERCENT)
    axes.set_xlabel("accuracy: original wording (open), variants (filled);\ndotted: guessing")
    axes.grid(axis="x", color=canvas.GRID, linewidth=0.6)
    return figure


@canvas.styled()
def accuracy_by_distance(bins: dict[str, list[tuple[float, Interval]]]) -> Figure:
    """Draw how the accuracy of the variants depends on their distance from the original.

    Parameters
    ----------
    bins : dict
        Maps each judged model to its result of `distance_bins`.

    Returns
    -------
    Figure
        The figure, with one curve for each model.
    """
    figure = Figure(figsize=(canvas.PHONE, 3.2), layout="constrained")
    axes = figure.add_subplot()
    for k, (label, of_model) in enumerate(bins.items()):
        x = [middle for middle, _ in of_model]
        y, low, high = np.array([accuracy for _, accuracy in of_model]).T
        colour = (canvas.BLUE, canvas.VERMILLION, canvas.MUTED)[k % 3]
        axes.errorbar(
            x,
            y,
            yerr=[y - low, high - y],
            fmt="o-",
            color=colour,
            capsize=3,
            linewidth=1.2,
            label=canvas.plain(label),
        )
    axes.yaxis.set_major_formatter(_PERCENT)
    axes.set_xlabel("cosine distance of the variant from the original")
    axes.set_ylabel("accuracy of the variants")
    axes.grid(color=canvas.GRID, linewidth=0.6)
    if len(bins) > 1:
        axes.legend()
    return figure


# The functions below list items for the page and as csv, those with the smallest p-value first.

# Largest number of items on the page, for all judged models together. items.csv has every item.
MAX_ITEMS_ON_PAGE = 400
_COLUMNS = (
    "model",
    "benchmark",
    "question_id",
    "arm",
    "variant",
    "replicate",
    "question",
    "options",
    "wording",
    "distance",
    "asked",
    "answer",
    "answer_number",
    "gold",
    "target",
    "correct",
    "parsed",
    "response",
    "error",
)

Key = tuple[str, str, str]  # model, benchmark, question id


@dataclass(frozen=True)
class Shown:
    """Hold one wording of an item on the page.

    Attributes
    ----------
    label : str
        Name of the wording.
    segments : Segments
        The text, with marks on words that differ from the original.
    distance : float or None
        Distance of the wording from the original.
    state : {"correct", "wrong", "none", "absent"}
        State of the model's answer: "none" if it is missing or unparsed, "absent" if the model was
        not asked this wording.
    answer : str
        The model's answer as text, or the reason why the answer is missing.
    """

    label: str
    segments: Segments
    distance: float | None
    state: str
    answer: str


@dataclass(frozen=True)
class PageItem:
    """Hold one item of the benchmark, with one judged model's answers, as the page shows it.

    Attributes
    ----------
    model, benchmark, question_id : str
        The judged model and the item.
    options : tuple of str
        Answer options of the item.
    gold : int
        Index of the right option.
    drop : float or None
        Correctness of the answer to the original (0 or 1) minus the mean correctness over the
        variants.
    pvalue : float or None
        One-sided p-value. Under the alternative, the original is answered right more often than the
        variants.
    flagged : bool
        Whether the drop of this item is significant after correction for multiple testing.
    marks : tuple of str
        Names of the page's filters that show this item.
    wordings : tuple of Shown
        The original and the variants.
    """

    model: str
    benchmark: str
    question_id: str
    options: tuple[str, ...]
    gold: int
    drop: float | None
    pvalue: float | None
    flagged: bool
    marks: tuple[str, ...]
    wordings: tuple[Shown, ...]

    @property
    def has_text(self) -> bool:
        """Return whether the text of the original wording is known.

        An imported log may lack this text.
        """
        return any(text for text, _ in self.wordings[0].segments)

    @property
    def example(self) -> tuple[Shown, Shown]:
        """Return the original and one variant, to illustrate how the answer changes.

        Returns
        -------
        tuple of Shown
            The original, and the first variant whose answer has another state than the answer to
            the original. If all states are equal, the last variant is returned.
        """
        first = self.wordings[0]
        for wording in self.wordings:
            if wording.label.startswith("variant") and wording.state != first.state:
                return first, wording
        return first, self.wordings[-1]


def top_items(
    run_dir: Path, cells: Sequence[PerturbCell], results: Sequence[PerturbResult]
) -> list[PageItem]:
    """Return the items that the page shows: the top of each judged model's ranked list.

    Parameters
    ----------
    run_dir : Path
        Directory with the files of the run.
    cells : sequence of PerturbCell
        Answers of each judged model on each benchmark.
    results : sequence of PerturbResult
        Verdict and statistics of each cell, in the same order.

    Returns
    -------
    list of PageItem
        At most MAX_ITEMS_ON_PAGE items in all, the same number for each model.
    """
    wanted: dict[Key, tuple[PerturbResult, int]] = {}
    for cell, result in zip(cells, results, strict=True):
        order = result.evidence.items.order.tolist() if result.evidence else list(range(cell.n))
        for i in order[: max(1, MAX_ITEMS_ON_PAGE // max(1, len(cells)))]:
            wanted[result.model, result.benchmark, cell.question_ids[i]] = result, i
    rows: dict[Key, list[dict[str, Any]]] = {}
    for row in chain.from_iterable(iter_rows(run_dir, SCHEMA, _COLUMNS, _COLUMNS[:3], wanted)):
        rows.setdefault((row["model"], row["benchmark"], row["question_id"]), []).append(row)
    shown = []
    for key, (result, i) in wanted.items():
        if key in rows:
            shown.append(_item(key, rows[key], result, i))
    return shown


def _item(key: Key, rows: list[dict[str, Any]], result: PerturbResult, i: int) -> PageItem:
    """Build the item at position i of a cell from its stored rows."""
    rows = sorted(rows, key=lambda row: (row["variant"], row["replicate"]))
    first = rows[0]
    shown = tuple(_shown(row, first["question"]) for row in rows)
    states = {wording.state for wording in shown}
    drop, pvalue, flagged = None, None, False
    if result.evidence:
        items = result.evidence.items
        drop, pvalue, flagged = (
            finite(items.drop[i]),
            finite(items.pvalues[i]),
            bool(items.flagged[i]),
        )
    marks = {
        "flagged": flagged,
        "falls": drop is not None and drop > 0,
        "rises": drop is not None and drop < 0,
        "same": drop == 0,
        "none": "none" in states,
        "absent": "absent" in states,
    }
    for g in result.gates:
        if key[2] in g.items:
            marks[f"gate-{g.name}"] = True
    options = tuple(first["options"])
    # A question with a numeric answer has no options, so the target is shown.
    if not options and first["target"] is not None:
        options = (f"{first['target']:g}",)
    gold = int(first["gold"]) if first["options"] else 0
    applying = tuple(name for name, applies in marks.items() if applies)
    return PageItem(*key, options, gold, drop, pvalue, flagged, applying, shown)


def _shown(row: dict[str, Any], original: str) -> Shown:
    """Build one wording with its answer from a stored row."""
    if row["arm"] == Arm.ORIGINAL:
        label, segments = "original", [(row["wording"], "")]
        label += f", run {row['replicate'] + 1}" if row["replicate"] else ""
    else:
        label = f"variant {row['variant']}"
        segments = word_diff(original, row["wording"])
    if not row["asked"]:
        return Shown(label, [], None, "absent", "not asked, because the library lacks it")
    if row["error"] is not None:
        state, answer = "none", f"failed: {row['error']}"
    elif not row["parsed"]:
        state, answer = "none", f"unparsed: {row['response']}"
    else:
        state = "correct" if row["correct"] else "wrong"
        if row["answer"] is not None:
            answer = str(row["options"][row["answer"]])
        else:  # Of an imported answer, perhaps only the reply is known.
            answer = (
                row["response"] or state
                if row["answer_number"] is None
                else f"{row['answer_number']:g}"
            )
    return Shown(label, segments, row["distance"], state, answer)


def items_csv(cells: Sequence[PerturbCell], results: Sequence[PerturbResult]) -> str:
    """Return all items of all judged models as csv, sorted by p-value within each model.

    Parameters
    ----------
    cells : sequence of PerturbCell
        Answers of each judged model on each benchmark.
    results : sequence of PerturbResult
        The results of the cells, in the same order.

    Returns
    -------
    str
        The table as csv. Shares are between 0 and 1, and a field is empty if its value was not
        computed.
    """
    header = (
        "model",
        "benchmark",
        "question_id",
        "original",
        "variants",
        "drop",
        "drop_beyond_references",
        "p",
        "p_adjusted",
        "flagged",
    )
    body = []
    for cell, result in zip(cells, results, strict=True):
        if result.evidence is None:
            continue
        items = result.evidence.items
        o, v = item_means(*cell.tested.pair)
        for i in items.order.tolist():
            numbers = (
                o[i],
                v[i],
                items.drop[i],
                items.beyond[i],
                items.pvalues[i],
                items.adjusted[i],
            )
            who = (result.model, result.benchmark, cell.question_ids[i])
            body.append([*who, *map(digits, numbers), int(items.flagged[i])])
    return csv_text(header, body)
