"""Build the page of a memory audit with its figures and tables.

Texts of benchmarks and models cannot inject markup: jinja2 escapes these texts, and the script of
the page inserts no markup.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from audit.core.records import Item
from audit.judging.result import because, finite, sentence
from audit.judging.tables import columns
from audit.memory.analyse import RunVerdict
from audit.memory.evidence import Name, Ordered
from audit.memory.items import item_text
from audit.memory.record import TEXT_SCORES, TOKEN_SCORES, MemoryCell
from audit.memory.texts import CONDITIONS, INDICATORS, TEXTS
from audit.memory.vocabulary import GATES, LABELS, VERDICTS, MemoryResult
from audit.memory.without import ON_PAGE, Ranked, ranked, ranked_csv
from audit.report import canvas
from audit.report.build import Page, run_facts
from audit.report.page import Gated, RunFacts, errors_of, marks_of, render_page
from audit.shards.questions import QuestionFile
from audit.statistics.chance import Limits
from audit.statistics.order_test import OrderTest
from audit.statistics.paired import FloatArray
from audit.statistics.without_memory import FDR

EXAMPLES = 3
# Largest number of items on the page, summed over all judged models. The file items.csv has every
# item.
MAX_ITEMS_ON_PAGE = 400
ERRORS = {
    "clean": "A model without memory gets a finding (false positive)",
    "clean_unknown": "A model without memory stands out, cause unknown",
    "answers": "A model that knows the answers of 30 % of the items gets a finding",
    "gap_5_cleared": "A model with 5 points from memory is cleared (false negative)",
}
BEYOND = " beyond references"
_BITS = 1 / np.log(2)


@dataclass(frozen=True)
class PageItem:
    """Hold one item of one judged model for the page. A number is None if it was not measured.

    Attributes
    ----------
    model, set_name, question_id : str
        The judged model, the set and the item.
    text, gold : str
        The item and its right answer.
    score : float or None
        Share of right answers.
    texts : dict
        Map each text of the item to its log-likelihood minus the references' mean log-likelihood,
        in bits a byte. Without references, the log-likelihood itself.
    tokens : dict
        Map the name of each token score to its value, computed from the log-likelihoods of the
        tokens.
    first : float or None
        Share (0-1) of the item's tokens that the model ranked first.
    option_rank : str
        Rank of the published order of options among all orders that were sent.
    marks : tuple of str
        The set of the item, and whether its answer is correct, wrong or missing.
    """

    model: str
    set_name: str
    question_id: str
    text: str
    gold: str
    score: float | None
    texts: dict[str, float | None]
    tokens: dict[str, float | None]
    first: float | None
    option_rank: str
    marks: tuple[str, ...]


@dataclass(frozen=True)
class Example:
    """Hold one item that is shown as an example at the beginning of the page.

    Attributes
    ----------
    model, text, gold : str
        The judged model, the item and its right answer.
    state : {"correct", "wrong", "none"}
        Whether the model's answer is correct, wrong or missing.
    references : int
        Number of references.
    likelier : float or None
        Log-likelihood of the item minus the references' mean log-likelihood, in bits a byte.
        Without references, the log-likelihood itself.
    chance, right : float or None, str
        The attributes of `Ranked` with these names.
    named : bool
        Whether the item is listed as likely answered from memory.
    """

    model: str
    text: str
    gold: str
    state: str
    references: int
    likelier: float | None
    chance: float | None = None
    right: str = ""
    named: bool = False


def examples_of(
    cells: Sequence[MemoryCell], items: Sequence[PageItem], memory: Sequence[Sequence[Ranked]]
) -> list[Example]:
    """Return a few items of the benchmark for the beginning of the page.

    Parameters
    ----------
    cells : sequence of MemoryCell
        The judged cells.
    items : sequence of PageItem
        Every item.
    memory : sequence of sequence of Ranked
        The answered items of each cell, the strongest evidence of memory first.

    Returns
    -------
    list of Example
        Up to EXAMPLES items: the items with the strongest evidence of memory, or the first of
        `items` if `memory` lists no item.
    """
    chosen = []
    for cell, rows in zip(cells, memory, strict=True):
        ranked_items = {row.question_id: row for row in rows}
        published = []
        for item in items:
            if item.model == cell.model and item.set_name == cell.published.name:
                published.append(item)
        place = {id_: k for k, id_ in enumerate(ranked_items)}
        published.sort(key=lambda item: place.get(item.question_id, len(place)))
        for item in published[:EXAMPLES]:
            row = ranked_items.get(item.question_id)
            example = Example(
                model=item.model,
                text=item.text,
                gold=item.gold,
                state=item.marks[1],
                references=len(cell.references),
                likelier=item.texts["item"],
            )
            if row is not None:
                example = replace(example, chance=row.chance, right=row.right, named=row.named)
            chosen.append(example)
    return chosen[:EXAMPLES]


def page(verdict: RunVerdict, run_dir: Path) -> Page:
    """Build the page of a run.

    Parameters
    ----------
    verdict : RunVerdict
        The judged run.
    run_dir : Path
        The run directory, which holds the questions.

    Returns
    -------
    Page
        The tables, the figures, and a function that renders the page.
    """
    verdict = verdict.sorted_by_grade()
    questions = {(q.benchmark, q.id): q for q in QuestionFile(run_dir)}
    items: list[PageItem] = []
    drawn: dict[str, Figure] = {}
    memory: list[list[Ranked]] = []
    for cell, result in zip(verdict.cells, verdict.results, strict=True):
        items += _items(cell, questions)
        drawn |= _figures(cell, result)
        memory.append(ranked(cell, result, questions))
    drawn |= _scores(verdict)
    tables = {"items.csv": _items_csv(items)}
    if any(memory):
        tables["items_from_memory.csv"] = ranked_csv(list(chain.from_iterable(memory)))
    return Page(
        tables, drawn, lambda figures: render(verdict, run_facts(run_dir), figures, items, memory)
    )


def render(
    verdict: RunVerdict,
    facts: RunFacts,
    figures: dict[str, str],
    items: list[PageItem],
    memory: list[list[Ranked]],
) -> str:
    """Return the page as text.

    Parameters
    ----------
    verdict : RunVerdict
        The judged run.
    facts : RunFacts
        Facts about the run.
    figures : dict
        HTML elements of the figures, by name.
    items : list of PageItem
        Every item.
    memory : list of list of Ranked
        The answered items of each cell, the strongest evidence of memory first.

    Returns
    -------
    str
        HTML.
    """
    cells = []
    for c, r, rows in zip(verdict.cells, verdict.results, memory, strict=True):
        cells.append({"cell": c, "result": r, "mark": verdict.mark(c, r), "ranked": rows[:ON_PAGE]})
    per_model = max(1, MAX_ITEMS_ON_PAGE // max(1, len(verdict.cells)))
    shown: list[PageItem] = []
    for cell in verdict.cells:
        shown += [item for item in items if item.model == cell.model][:per_model]
    write = partial(sentence, texts=TEXTS)
    most = max((c.published.n for c in verdict.cells), default=0)
    held_out = max((c.fresh.n for c in verdict.cells if c.fresh), default=0)
    subtitle = because(
        "subtitle", items=most, held_out=held_out, rows=sum(r.found for r in verdict.rows)
    )
    measured: set[Name] = set()
    gated = []
    for result in verdict.results:
        measured.update(indicator.name for indicator in result.evidence.indicators)
        gated.append(Gated(result.model, result.gates, {"cell": result.model}))
    shown_indicators = {}
    for name, word in INDICATORS.items():
        if name in measured:
            shown_indicators[name.value] = word
    return render_page(
        "memory/page.html.j2",
        rows=verdict.rows,
        scripts=("report/items.js",),
        gates=GATES,
        labels=LABELS,
        gated=gated,
        title=verdict.title("Has the model read the exam?", "and"),
        subtitle=write(subtitle),
        words=VERDICTS,
        indicators=shown_indicators,
        cells=cells,
        conditions=CONDITIONS,
        say=write,
        fdr=FDR,
        decisions=marks_of(verdict, VERDICTS),
        errors=errors_of(verdict.results, ERRORS),
        named=any(memory),
        figures=figures,
        thresholds=verdict.thresholds,
        orders=verdict.orders,
        facts=facts,
        items=shown,
        total_items=len(items),
        examples=examples_of(verdict.cells, items, memory),
    )


def _scores(verdict: RunVerdict) -> dict[str, Figure]:
    """Return three figures of the run: the scores, the excluded gaps, and the gap that would be
    detected with more items.
    """
    rows = []
    for r in verdict.results:
        if r.without.score:
            rows.append((f"score, {r.model}", r.without.score, False))
        if r.without.estimate:
            rows.append((f"without memory, {r.model}", r.without.estimate.without, True))
    drawn = {}
    if rows:
        chance = min(c.published.chance for c in verdict.cells)
        drawn["score_without_memory"] = scores(rows, chance)
    matters = verdict.thresholds["effect_of_interest"]
    known = []
    for r in verdict.results:
        if np.isfinite(r.evidence.upper()):
            known.append((r.model, r.evidence.limits()[1], r.evidence.upper()))
    if known:
        drawn["ruled_out"] = canvas.ruled_out(known, matters, "gap to held-out items")
    curves = []
    for c, r in zip(verdict.cells, verdict.results, strict=True):
        estimate = r.evidence.gap
        if estimate is not None and np.isfinite(estimate.detectable):
            curves.append((estimate, c.published.n))
    if curves:
        gap, n = max(curves, key=lambda curve: curve[0].detectable)
        share, needed = gap.detectable**2 - gap.between**2, None
        if gap.between < matters:
            needed = int(np.ceil(n * share / (matters**2 - gap.between**2)))
        drawn["power_curve"] = canvas.power_curve(
            lambda k: float(np.sqrt(share * n / k + gap.between**2)),
            n,
            needed,
            matters,
            "gap",
            decided=verdict.decided,
        )
    return drawn


def _figures(cell: MemoryCell, result: MemoryResult) -> dict[str, Figure]:
    """Return two kinds of figure for one cell: the gains of published orders, and the likelihoods
    of the texts.
    """
    figures: dict[str, Figure] = {}
    name, e = f"{cell.model}_{cell.benchmark}", result.evidence
    for kind, ordered in (("order_of_items", e.order), ("order_of_options", e.options)):
        rows = [] if ordered is None else _order_rows(cell, ordered)
        if kind == "order_of_items" and e.fresh_order is not None and cell.fresh is not None:
            beyond = BEYOND if cell.references else ""
            rows.append((f"{cell.model} on {cell.fresh.name}{beyond}", e.fresh_order.shown, False))
        gains = []
        for label, test, judged in rows:
            row = (label, test.gain, test.low, test.high, judged)
            if np.isfinite(row[1:4]).all():
                gains.append(row)
        if gains:
            figures[f"{kind}_{name}"] = order_gains(gains)
    fresh = cell.tested[1]
    if fresh is not None and np.isfinite(fresh.texts["item"]).any():
        label = "log-likelihood of the item, bits a byte"
        if cell.references:
            label += ",\nless the references' mean"
        figures[f"text_of_items_{name}"] = text_scores(
            _text(cell, 0, "item"), _text(cell, 1, "item"), label
        )
    return figures


def _order_rows(cell: MemoryCell, ordered: Ordered) -> list[tuple[str, OrderTest, bool]]:
    """Return a label and an order test for the judged model and each reference, and whether the
    model is the judged model.
    """
    rows = [(cell.model, ordered.own, True)]
    if ordered.beyond is not None:
        rows.append((cell.model + BEYOND, ordered.beyond, True))
    for (reference, _), test in zip(cell.references, ordered.references, strict=True):
        rows.append((f"{reference.model} (reference)", test, False))
    return rows


def _text(cell: MemoryCell, side: int, name: str) -> FloatArray:
    """Return an array (n,) with each item's log-likelihood of one text, in bits a byte.

    If there are references, their mean is subtracted.
    """
    bits = []
    for model in (cell.tested, *cell.references):
        bits.append(model[side].texts[name] * _BITS)  # type: ignore[union-attr]
    return bits[0] - np.mean(bits[1:], axis=0) if len(bits) > 1 else bits[0]


def _items(cell: MemoryCell, questions: dict[tuple[str, str], Item]) -> list[PageItem]:
    """Return the items of the benchmark, then the held-out items, each set sorted by the items'
    likelihood relative to the references.
    """
    page_items = []
    for side, items in enumerate((cell.published, cell.fresh)):
        tested = cell.tested[side]
        if tested is None or items is None:
            continue
        texts = {name: _text(cell, side, name) for name in TEXT_SCORES}
        order = np.argsort(-np.nan_to_num(texts["item"], nan=-np.inf), kind="stable")
        for i in order.tolist():
            q = questions[items.name, items.question_ids[i]]
            score = finite(tested.score[i])
            state = "correct" if score else "wrong"
            if score is None:
                state = "none"
            gold = "" if q.target is None else f"{q.target:g}"
            if q.gold >= 0:
                gold = q.options[q.gold]
            page_items.append(
                PageItem(
                    model=cell.model,
                    set_name=items.name,
                    question_id=q.id,
                    text=item_text(q) or f"{q.id} (the log has no text)",
                    gold=gold,
                    score=score,
                    texts={name: finite(values[i]) for name, values in texts.items()},
                    tokens={name: finite(tested.tokens[name][i]) for name in TOKEN_SCORES},
                    first=finite(tested.ranks[i]),
                    option_rank=_rank(tested.options[i]),
                    marks=("fresh" if side else "published", state),
                )
            )
    return page_items


def _rank(orders: FloatArray) -> str:
    """Return the rank of the published order among the orders that were read, as text."""
    known = orders[~np.isnan(orders)]
    if np.isnan(orders[0]) or known.size < 2:
        return ""
    return f"{1 + int((known[1:] > known[0]).sum())} of {known.size}"


def _items_csv(items: list[PageItem]) -> str:
    text_columns = [f"bits_{name}=texts.{name}" for name in TEXT_SCORES]
    token_columns = [f"{name}=tokens.{name}" for name in TOKEN_SCORES]
    return columns(
        items,
        "model",
        "set=set_name",
        "question_id",
        "score",
        *text_columns,
        *token_columns,
        "first_token_share=first",
        "option_order_rank=option_rank",
    )


@canvas.styled()
def scores(rows: Sequence[tuple[str, Limits, bool]], chance: float) -> Figure:
    """Draw accuracies with their 95 % intervals, one on each line.

    Parameters
    ----------
    rows : sequence of (str, Limits, bool)
        The label, the accuracy with its limits, and whether the accuracy is the score without
        memory.
    chance : float
        Accuracy of guessing.

    Returns
    -------
    Figure
        The figure, with the first row at the top.
    """
    figure = Figure(figsize=(canvas.PHONE, 1.1 + 0.55 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for y, (_, x, without) in enumerate(reversed(rows)):
        colour = canvas.BLUE if without else canvas.VERMILLION
        axes.plot([x.low, x.high], [y, y], color=colour, linewidth=2)
        axes.plot([x.estimate], [y], "s" if without else "o", color=colour, markersize=8)
        # The number is placed beside the line, since the name is placed above the line.
        end, ha = (x.high, "left") if x.high < 0.85 else (x.low, "right")
        at = (6 if ha == "left" else -6, 0)
        axes.annotate(
            f"{100 * x.estimate:.0f} %",
            (end, y),
            at,
            textcoords="offset points",
            ha=ha,
            va="center",
        )
    if chance > 0:
        axes.axvline(chance, color=canvas.MUTED, linewidth=0.9, linestyle=":")
    labels = []
    for label, _, _ in reversed(rows):
        labels.append(label)
    heights = np.arange(len(rows)) + 0.4
    canvas.names_above(axes, labels, heights.tolist())
    xlabel = "accuracy; dotted: guessing" if chance > 0 else "accuracy"
    axes.set(xlim=(0, 1.02), ylim=(-0.4, len(rows) - 0.4), xlabel=xlabel)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %"))
    return figure


@canvas.styled()
def order_gains(rows: Sequence[tuple[str, float, float, float, bool]]) -> Figure:
    """Draw how much likelier the published order is than other orders, in nats, with 95 %
    intervals.

    Parameters
    ----------
    rows : sequence of (str, float, float, float, bool)
        The label, the gain, its limits, and whether the model is judged rather than a reference.

    Returns
    -------
    Figure
        One line for each row.
    """
    figure = Figure(figsize=(canvas.PHONE, 1.0 + 0.5 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for k, (_, gain, low, high, judged) in enumerate(rows):
        colour = canvas.BLUE if judged else canvas.MUTED
        axes.plot([low, high], [k, k], color=colour, linewidth=1.6)
        axes.plot([gain], [k], "o" if judged else "s", color=colour, markersize=5)
    axes.axvline(0, color=canvas.INK, linewidth=0.8)
    labels = []
    for row in rows:
        labels.append(row[0])
    heights = np.arange(len(rows)) - 0.4
    canvas.names_above(axes, labels, heights.tolist())
    axes.set_ylim(len(rows) - 0.6, -0.7)
    axes.set_xlabel(
        "how much likelier than other orders\n(log-likelihood, nats: 0.7 is twice as likely)"
    )
    return figure


@canvas.styled()
def text_scores(published: FloatArray, fresh: FloatArray, label: str) -> Figure:
    """Draw the cumulative distribution of the items' log-likelihoods: the share of items at or
    below each value.

    Parameters
    ----------
    published, fresh : array
        The likelihoods of each set; NaN are left out.
    label : str
        Label of the axis.

    Returns
    -------
    Figure
        One step curve for each set.
    """
    figure = Figure(figsize=(canvas.PHONE, 3.0), layout="constrained")
    axes = figure.subplots()
    for values, name, colour in (
        (published, "benchmark", canvas.VERMILLION),
        (fresh, "held-out items", canvas.BLUE),
    ):
        x = np.sort(values[~np.isnan(values)])
        if x.size:
            axes.step(
                x,
                np.arange(1, x.size + 1) / x.size,
                where="post",
                color=colour,
                label=f"{name} ({x.size})",
            )
    axes.set_xlabel(label)
    axes.set_ylabel("share of items")
    axes.set_ylim(0, 1)
    axes.legend()
    return figure
