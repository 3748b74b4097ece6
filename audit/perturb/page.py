"""The page of a perturbation audit, its figures and tables: in the shared shell (style, escaping, policy).

Every text of a benchmark, a library or a model goes through jinja2's escaping; the one script sets no markup.
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

from audit.perturb.analyse import RunVerdict
from audit.perturb.audit import SCHEMA
from audit.perturb.design import Arm, PerturbThresholds
from audit.perturb.record import PerturbCell, Wordings
from audit.perturb.report import Behind
from audit.perturb.rows import Read
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
from audit.variants.funnel import funnel, funnel_text
from audit.variants.record import Library
from audit.verdict.result import Reason, because, finite, sentence
from audit.verdict.tables import columns, csv_text, digits

ERRORS = {
    "clean_beyond": "A clean model is called a drop beyond reference (false positive)",
    "clean_brittle": "A clean model is called brittle (false positive)",
    "memorised_beyond": "A model that remembers 15 % of the items is found",
    "memorised_brittle": "A model that remembers 15 % of the items is called brittle",
    "memorised_5_cleared": "A model that loses 5 points by memory is cleared (false negative)",
}
HARDEST = 10  # variants listed that most models fail although they have the original right


def page(verdict: RunVerdict, behind: Behind) -> Page:
    """Figures, tables and the page of a run."""
    read, library, control = behind.read, behind.library, behind.control
    sent = {(r.model, r.benchmark): read.requests[r.model, r.benchmark] for r in verdict.results}
    bins = {key: distance_bins(np.array(one.distances), np.array(one.correct)) for key, one in sent.items()}
    drawn: dict[str, Figure] = {}
    for c in verdict.cells[:1]:  # all are of the run's one benchmark
        drawn[f"original_against_variants_{c.benchmark}"] = original_against_variants(_bars(verdict.cells), c.chance)
    if any(bins.values()):
        drawn["accuracy_by_distance"] = accuracy_by_distance({" on ".join(k): v for k, v in bins.items() if v})
    drawn |= _reach(verdict)
    tables = {"items.csv": items_csv(verdict.cells, verdict.results), "cells.csv": _cells_csv(verdict)}
    items, facts = top_items(read.run_dir, verdict.cells, verdict.results), run_facts(read.run_dir)
    trends = _trends(read, verdict)
    return Page(tables, drawn, lambda figures: render(verdict, library, facts, figures, items, control, trends))


def render(
    verdict: RunVerdict,
    library: Library,
    facts: RunFacts,
    figures: dict[str, str],
    items: Sequence[Item],
    control: Library | None = None,
    trends: Sequence[tuple[str, IntensityTrend]] = (),
) -> str:
    """The page as text. figures: <svg> elements by name; items: in their order; control: the held-out items'
    library; trends: by cell, accuracy over intensity."""
    cells = [
        {"cell": c, "result": r, "mark": verdict.mark(c, r), "not_asked": int((~c.tested.was_asked).sum())}
        for c, r in zip(verdict.cells, verdict.results, strict=True)
    ]
    say = partial(sentence, texts=TEXTS)
    return render_page(
        "perturb/page.html.j2", rows=verdict.rows, scripts=("report/items.js",), gates=GATES, labels=LABELS,
        gated=[Gated(r.model, r.gates, {"cell": f"{r.model} on {r.benchmark}"}) for r in verdict.results],
        title=verdict.title("Does the score hang on the wording?"), subtitle=say(_subtitle(verdict)), say=say,
        words=VERDICTS, cells=cells, decisions=marks_of(verdict, VERDICTS), errors=errors_of(verdict.results, ERRORS),
        figures=figures, levels=[_levels(c) for c in verdict.cells], trends=trends,
        hardest=[_hardest(c) for c in verdict.cells], funnel=funnel_text(funnel(library), library.header),
        library=library, control=control, thresholds=verdict.thresholds, facts=facts, items=items,
        total_items=sum(c.n for c in verdict.cells),
    )  # fmt: skip


def _reach(verdict: RunVerdict) -> dict[str, Figure]:
    """What the run can rule out, and how many questions its design needs."""
    limits = PerturbThresholds.from_mapping(verdict.thresholds)
    rows = [(r.model, r.evidence.drop.largest) for r in verdict.results if r.evidence is not None]
    known = [(name, largest) for name, largest in rows if np.isfinite(largest)]
    if not known:
        return {}
    effect, variants = limits.effect_of_interest, max(len(c.tested.variants) for c in verdict.cells)
    plan = partial(
        detectable_drop, variants=variants, discordance=PLANNED_FLIPS, alpha=limits.alpha, power=limits.power
    )
    needed = items_needed(effect, variants, PLANNED_FLIPS, alpha=limits.alpha, power=limits.power) or 1
    asked = min(c.n for c in verdict.cells)
    return {
        "ruled_out": canvas.ruled_out(known, effect, "drop"),
        "power_curve": canvas.power_curve(plan, asked, needed, effect, "drop"),
    }


def _subtitle(verdict: RunVerdict) -> Reason:
    questions = [f"{n:,}" for n in sorted({c.n for c in verdict.cells})]
    variants = [len(c.tested.variants) for c in verdict.cells]
    answers = sum(r.found for r in verdict.rows)
    return because("subtitle", questions=questions, variants=max(variants, default=0), answers=answers)


def _bars(cells: Sequence[PerturbCell]) -> list[Bar]:
    """The judged models, then their references."""
    bars = [_bar(c.tested, c, reference=False) for c in cells]
    return [*bars, *(_bar(w, cells[-1], reference=True) for w in cells[-1].references)]


def _bar(w: Wordings, cell: PerturbCell, *, reference: bool) -> Bar:
    o, v = item_means(*w.pair)
    label = f"{w.model} (reference)" if reference else w.model
    return Bar(label, interval(o, cell.cluster), interval(v, cell.cluster), reference)


def _trends(read: Read, verdict: RunVerdict) -> list[tuple[str, IntensityTrend]]:
    """By judged model and benchmark; those that say nothing are left out."""
    found = []
    for cell, result in zip(verdict.cells, verdict.results, strict=True):
        sent = read.requests[result.model, result.benchmark]
        group = dict(zip(cell.question_ids, cell.cluster.tolist(), strict=True))
        groups = [group[item] for item in sent.reworded]
        found.append(
            (result.model, intensity_trend(sent.reworded, np.array(sent.distances), np.array(sent.correct), groups))
        )
    return [(model, trend) for model, trend in found if trend is not None]


def _levels(cell: PerturbCell) -> list[tuple[str, list[tuple[float, float, float] | None], bool]]:
    """(model, accuracy with interval under the original and each rank of variant, whether it is a reference)."""
    rows = []
    for w in (cell.tested, *cell.references):
        wordings = (item_means(*w.pair)[0], *w.variants)
        rows.append((w.model, [interval(values, cell.cluster) for values in wordings], w is not cell.tested))
    return rows


def _hardest(cell: PerturbCell) -> list[tuple[str, int, float, float, int]]:
    """(question, variant, share of models right under the original, under the variant, models), largest loss first.

    Over the judged model and its references; empty with fewer than three models, where a share tells nothing.
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
            o, v = float(originals[both[:, i], i].mean()), float(variants[both[:, i], i].mean())
            if o > v:
                rows.append((cell.question_ids[i], j + 1, o, v, int(both[:, i].sum())))
    return sorted(rows, key=lambda row: (row[3] - row[2], row[0], row[1]))[:HARDEST]


def _cells_csv(verdict: RunVerdict) -> str:
    """One line a judged model and benchmark."""
    both = zip(verdict.cells, verdict.results, strict=True)
    return columns(
        ({"n": c.n, "r": r, "d": r.evidence.drop if r.evidence else None} for c, r in both),
        "model=r.model", "benchmark=r.benchmark", "verdict=r.verdict", "n", "original=d.original",
        "variants=d.variants", "drop=d.drop.estimate", "drop_low=d.drop.low", "drop_high=d.drop.high",
        "cs=d.cs.estimate", "largest=d.largest", "found_p=r.found_p", "beyond_p=r.beyond_p",
    )  # fmt: skip


BINS = 5  # of distance, with as many variants each
_PERCENT = FuncFormatter(lambda value, _: f"{100 * value:.4g} %")


@dataclass(frozen=True)
class Bar:
    """A model's accuracy under the original and the variants, each (accuracy, low, high); None where unanswered."""

    label: str
    original: tuple[float, float, float] | None
    variants: tuple[float, float, float] | None
    reference: bool


@dataclass(frozen=True)
class DistanceBin:
    """Variants at a cosine distance of low to high: how many were answered, and their accuracy with its interval."""

    low: float
    high: float
    n: int
    accuracy: float
    accuracy_low: float
    accuracy_high: float


def distance_bins(distance: FloatArray, correct: FloatArray) -> list[DistanceBin]:
    """(m,) distances and outcomes (1, 0, NaN: left out) -> up to BINS bins with equally many variants each."""
    there = ~np.isnan(correct) & ~np.isnan(distance)
    d, y = distance[there], correct[there]
    order = np.argsort(d, kind="stable")
    bins = []
    for part in np.array_split(order, min(BINS, d.size)) if d.size else ():
        found = interval(y[part], np.arange(part.size))
        if found is not None:
            bins.append(DistanceBin(float(d[part[0]]), float(d[part[-1]]), part.size, *found))
    return bins


@canvas.styled()
def original_against_variants(bars: Sequence[Bar], chance: float) -> Figure:
    """One line a model: the original (open) and its variants (filled), with 95 % intervals; references in grey."""
    figure = Figure(figsize=(canvas.PHONE, 1.0 + 0.62 * len(bars)), layout="constrained")
    axes = figure.add_subplot()
    for y, bar in enumerate(reversed(bars)):
        colours = (canvas.MUTED, canvas.MUTED) if bar.reference else (canvas.BLUE, canvas.VERMILLION)
        for found, colour, shift, fill in (
            (bar.original, colours[0], 0.12, "none"), (bar.variants, colours[1], -0.12, colours[1]),
        ):  # fmt: skip
            if found is not None:
                axes.plot(found[1:], (y + shift,) * 2, color=colour, linewidth=1.4)
                axes.plot(found[0], y + shift, "o", color=colour, markerfacecolor=fill, markersize=6)
    axes.axvline(chance, color=canvas.MUTED, linewidth=0.8, linestyle=":")
    canvas.names_above(axes, [bar.label for bar in reversed(bars)], [y + 0.38 for y in range(len(bars))])
    axes.set_ylim(-0.4, len(bars) - 0.4)
    axes.xaxis.set_major_formatter(_PERCENT)
    axes.set_xlabel("accuracy: original wording (open), variants (filled);\ndotted: guessing")
    axes.grid(axis="x", color=canvas.GRID, linewidth=0.6)
    return figure


@canvas.styled()
def accuracy_by_distance(bins: dict[str, list[DistanceBin]]) -> Figure:
    """Accuracy of the variants over their distance from the original, one line a judged model."""
    figure = Figure(figsize=(canvas.PHONE, 3.2), layout="constrained")
    axes = figure.add_subplot()
    for k, (label, found) in enumerate(bins.items()):
        x = [(b.low + b.high) / 2 for b in found]
        y = [b.accuracy for b in found]
        around = [[b.accuracy - b.accuracy_low for b in found], [b.accuracy_high - b.accuracy for b in found]]
        colour = (canvas.BLUE, canvas.VERMILLION, canvas.MUTED)[k % 3]
        axes.errorbar(x, y, yerr=around, fmt="o-", color=colour, capsize=3, linewidth=1.2, label=canvas.plain(label))
    axes.yaxis.set_major_formatter(_PERCENT)
    axes.set_xlabel("cosine distance of the variant from the original")
    axes.set_ylabel("accuracy of the variants")
    axes.grid(color=canvas.GRID, linewidth=0.6)
    if len(bins) > 1:
        axes.legend()
    return figure


# Item by item, for the page and as csv: the original and its variants side by side, the most conspicuous first.

MAX_ITEMS_ON_PAGE = 400  # over all judged models; items.csv has every item
_COLUMNS = (
    "model", "benchmark", "question_id", "arm", "variant", "replicate", "question", "options", "wording", "distance",
    "asked", "answer", "answer_number", "gold", "target", "correct", "parsed", "response", "error",
)  # fmt: skip

Key = tuple[str, str, str]  # model, benchmark, question id


@dataclass(frozen=True)
class Shown:
    """One wording as the page shows it. said: the answer in words; state: correct, wrong, none (no answer), absent."""

    label: str
    segments: Segments
    distance: float | None
    state: str
    said: str


@dataclass(frozen=True)
class Item:
    """One item of one judged model. marks: what a filter of the page can ask for. drop: 0-1."""

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
    def example(self) -> tuple[Shown, Shown]:
        """The original, and the first variant that was answered otherwise, or else the last."""
        first = self.wordings[0]
        reworded = [one for one in self.wordings if one.label.startswith("variant")]
        return first, next((one for one in reworded if one.state != first.state), self.wordings[-1])


def top_items(
    run_dir: Path, cells: Sequence[PerturbCell], results: Sequence[PerturbResult], limit: int = MAX_ITEMS_ON_PAGE
) -> list[Item]:
    """The first items of each judged model's ranked list, as many of each model as fit into `limit`."""
    wanted: dict[Key, tuple[PerturbResult, int]] = {}
    for cell, result in zip(cells, results, strict=True):
        order = result.evidence.items.order.tolist() if result.evidence else list(range(cell.n))
        for i in order[: max(1, limit // max(1, len(cells)))]:
            wanted[result.model, result.benchmark, cell.question_ids[i]] = result, i
    rows: dict[Key, list[dict[str, Any]]] = {}
    for row in chain.from_iterable(iter_rows(run_dir, SCHEMA, _COLUMNS, _COLUMNS[:3], wanted)):
        rows.setdefault((row["model"], row["benchmark"], row["question_id"]), []).append(row)
    return [_item(key, rows[key], result, i) for key, (result, i) in wanted.items() if key in rows]


def _item(key: tuple[str, str, str], rows: list[dict[str, Any]], result: PerturbResult, i: int) -> Item:
    rows = sorted(rows, key=lambda row: (row["variant"], row["replicate"]))
    first = rows[0]
    shown = tuple(_shown(row, first["question"]) for row in rows)
    states = {one.state for one in shown}
    items = result.evidence.items if result.evidence else None
    flagged = bool(items.flagged[i]) if items else False
    drop = finite(items.drop[i]) if items else None
    marks = [name for name, there in (
        ("flagged", flagged), ("falls", drop is not None and drop > 0), ("rises", drop is not None and drop < 0),
        ("same", drop == 0), ("none", "none" in states), ("absent", "absent" in states),
    ) if there]  # fmt: skip
    marks += [f"gate-{g.name}" for g in result.gates if key[2] in g.items]
    return Item(
        model=key[0],
        benchmark=key[1],
        question_id=key[2],
        # A number has no options: the right one stands in their place.
        options=tuple(first["options"]) or (() if first["target"] is None else (f"{first['target']:g}",)),
        gold=int(first["gold"]) if first["options"] else 0,
        drop=drop,
        pvalue=finite(items.pvalues[i]) if items else None,
        flagged=flagged,
        marks=tuple(marks),
        wordings=shown,
    )


def _shown(row: dict[str, Any], original: str) -> Shown:
    if row["arm"] == Arm.ORIGINAL:
        label, segments = "original", [(row["wording"], "")]
        label += f", run {row['replicate'] + 1}" if row["replicate"] else ""
    else:
        label, segments = f"variant {row['variant']}", word_diff(original, row["wording"])
    if not row["asked"]:
        return Shown(label, [], None, "absent", "not in the library: not asked")
    if row["error"] is not None:
        return Shown(label, segments, row["distance"], "none", f"failed: {row['error']}")
    if not row["parsed"]:
        return Shown(label, segments, row["distance"], "none", f"unreadable: {row['response']}")
    state = "correct" if row["correct"] else "wrong"
    if row["answer"] is not None:
        answer = str(row["options"][row["answer"]])
    else:  # of an imported answer nothing but the reply may be known
        answer = row["response"] or state if row["answer_number"] is None else f"{row['answer_number']:g}"
    return Shown(label, segments, row["distance"], state, answer)


def items_csv(cells: Sequence[PerturbCell], results: Sequence[PerturbResult]) -> str:
    """Every item of every judged model, the most conspicuous first. Shares 0-1; empty: not computed."""
    header = (
        "model", "benchmark", "question_id", "original", "variants", "drop", "drop_beyond_references", "p",
        "p_adjusted", "flagged",
    )  # fmt: skip
    body = []
    for cell, result in zip(cells, results, strict=True):
        if result.evidence is None:
            continue
        items = result.evidence.items
        o, v = item_means(*cell.tested.pair)
        for i in items.order.tolist():
            numbers = (o[i], v[i], items.drop[i], items.beyond[i], items.pvalues[i], items.adjusted[i])
            who = (result.model, result.benchmark, cell.question_ids[i])
            body.append([*who, *map(digits, numbers), int(items.flagged[i])])
    return csv_text(header, body)
