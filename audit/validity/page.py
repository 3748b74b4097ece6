"""Build the page of a validity audit with its figures and tables.

The page shows each item beside its edits. jinja2 escapes every text of a benchmark or a model. The
texts of benchmarks with slurs or unsafe requests are blurred until the reader clicks them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import groupby
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from audit.core.number_text import interval, percent, points
from audit.judging.result import failed
from audit.judging.tables import columns, csv_pieces, csv_text, digits
from audit.report.build import Page, run_facts
from audit.report.page import Gated, RunFacts, Segments, errors_of, marks_of, render_page, word_diff
from audit.validity import figures as charts
from audit.validity.analyse import RunVerdict
from audit.validity.as_paper import PaperTable, cell_validity_csv, paper_tables
from audit.validity.audit import fits
from audit.validity.cells import ItemRows, Key, Row, response_of
from audit.validity.edits.file import COLUMNS
from audit.validity.edits.plan import MASKED
from audit.validity.edits.record import ORIGINAL, Archetype, Contract, Family
from audit.validity.evidence import SURFACE, Evidence
from audit.validity.vocabulary import GATES, LABELS, VERDICTS, ValidityResult, ValidityStatus

# Largest number of items on the page, for all cells together. items.csv has every row.
MAX_ITEMS_ON_PAGE = 200
_STATE = ("arm", "asked", "contract", "canonical", "key_after")
_OF_CSV = (*_STATE, "variant", "replicate", "edit", "key_before", "correct", "why")
_LONG = 1200  # largest number of characters of a prompt or reply on the page


@dataclass(frozen=True)
class Shown:
    """Hold the texts of one row for the page.

    Attributes
    ----------
    arm, label, contract : str
        Family of the edit, its label, and its contract.
    segments : Segments
        Text of the item, with marks on words that differ from the original.
    prompt : str
        The prompt.
    key : str
        The right answer.
    answer : str
        The answer that was read in the reply.
    state : {"follows", "breaks", "none", "absent", "original"}
        "follows" or "breaks" if the answer follows or breaks the contract of the edit; "none" if
        there is no answer; "absent" if no request was sent; "original" for the original.
    right : bool or None
        Whether the answer is right.
    reply : str
        The reply.
    """

    arm: str
    label: str
    contract: str
    segments: Segments
    prompt: str
    key: str
    answer: str
    state: str
    right: bool | None
    reply: str


@dataclass(frozen=True)
class PageItem:
    """Hold one item of one cell for the page.

    Attributes
    ----------
    cell, question_id, title : str
        Names of the cell and the item, and the text of the item.
    marks : tuple of str
        Values of the filters of the page.
    rows : tuple of Shown
        The original and the edits.
    options : tuple of str
        The options in published order.
    """

    cell: str
    question_id: str
    title: str
    marks: tuple[str, ...]
    rows: tuple[Shown, ...]
    options: tuple[str, ...]

    @property
    def example(self) -> list[Shown]:
        """Return the original, a surface edit and an edit of the content as an example.

        Returns
        -------
        list of Shown
            The original, one surface edit and one edit of the content. Of each kind, the first edit
            with an unexpected answer is shown. If all answers are as expected, the first edit is
            shown.
        """
        rows = [self.rows[0]]
        for arms in (SURFACE, (Family.ATTRIBUTE,)):
            edits = [row for row in self.rows if row.arm in arms]
            edits.sort(key=lambda row: row.state != "breaks")
            rows += edits[:1]
        return rows


def top_items(
    rows: ItemRows, results: Sequence[ValidityResult], limit: int = MAX_ITEMS_ON_PAGE
) -> list[PageItem]:
    """Return the items in which the most answers break the contract of their edit.

    Each cell contributes the same number of items.

    Parameters
    ----------
    rows : ItemRows
        The rows of the runs.
    results : sequence of ValidityResult
        The results.
    limit : int
        Largest number of items of all cells together.

    Returns
    -------
    list of PageItem
        The items.
    """
    share = max(1, limit // max(1, len(results)))
    first: dict[tuple[str, ...], list[Key]] = {}
    for cell, items in groupby(rows.by_item(*_STATE), lambda keyed: keyed[0][:3]):
        counted = ((-_broken(item_values), key) for key, item_values in items)
        first[cell] = [key for _, key in nsmallest(share, counted)]
    chosen = []
    for r in results:
        for key in first.get((r.model, r.benchmark, r.context), ()):
            chosen.append((key, r))
    whole = rows.whole([key for key, _ in chosen])
    return [_item(key, whole[key], r) for key, r in chosen]


def _broken(rows: Sequence[Row]) -> int:
    """Return how many answers to one item break the contract of their edit."""
    before = rows[0]["canonical"]
    return [state_of(row, row["canonical"], before) for row in rows].count("breaks")


def state_of(row: Row, response: int | None, before: int | None) -> str:
    """Return whether the answer in a row follows the contract of its edit.

    Parameters
    ----------
    row : dict
        The row.
    response, before : int or None
        Canonical responses of this row and of the original.

    Returns
    -------
    str
        A value of `Shown.state`.
    """
    if not row["asked"]:
        return "absent"
    if row["arm"] == ORIGINAL:
        return "original" if response is not None else "none"
    if response is None or before is None:
        return "none"
    if row["contract"] == "directional":
        return "follows" if response != before and fits(response, row["key_after"]) else "breaks"
    return "follows" if response == before else "breaks"


def _item(key: Key, rows: list[Row], result: ValidityResult) -> PageItem:
    """Build the page's entry of one item from the item's rows."""
    first = rows[0]
    before = response_of(first)
    shown = tuple(_shown(row, first, before) for row in rows if row["asked"])
    marks = sorted({f"{shown_row.arm}-{shown_row.state}" for shown_row in shown})
    marks += [f"gate-{g.name}" for g in result.gates if key[3] in g.items]
    return PageItem(
        charts.label(result), key[3], first["edited"], tuple(marks), shown, _published(first)
    )


def _shown(row: Row, first: Row, before: int | None) -> Shown:
    """Return the texts of one row for the page. `first` is the row of the original."""
    texts = _published(first)
    if row["arm"] == ORIGINAL:
        label = "original" + (f", sent again ({row['replicate'] + 1})" if row["replicate"] else "")
        segments = [(row["edited"], "")]
    else:
        label = f"{row['arm']} {row['variant']}: {row['edit']}"
        segments = word_diff(first["edited"], row["edited"])
    response = response_of(row)
    if row["error"] is not None:
        answer = f"failed: {row['error']}"
    elif response is None:
        answer = f"not read ({row['unread_why'] or 'no answer'})"
    else:
        answer = _name(texts, response)
    return Shown(
        arm=row["arm"],
        label=label,
        contract=row["contract"] or "",
        segments=segments,
        prompt=row["prompt"][:_LONG],
        key=_name(texts, row["key_after"]),
        answer=answer,
        state=state_of(row, response, before),
        right=row["correct"],
        reply=row["response"][:_LONG],
    )


def _published(row: Row) -> tuple[str, ...]:
    """Return the options of a row in published order."""
    return tuple(text for _, text in sorted(zip(row["option_order"], row["options"], strict=True)))


def _name(texts: Sequence[str], key: int) -> str:
    """Return the text of the option that a key names. A key below -1 means any option but one."""
    if key >= 0:
        return texts[key] if key < len(texts) else str(key)
    return f"anything but: {texts[-2 - key]}"


def items_csv(rows: ItemRows) -> Iterator[str]:
    """Yield all rows as csv, in pieces.

    Parameters
    ----------
    rows : ItemRows
        The rows of the runs.

    Yields
    ------
    str
        A part of the csv text.
    """
    header = (
        "model",
        "benchmark",
        "context",
        "question_id",
        "family",
        "level",
        "replicate",
        "edit",
        "contract",
        "key_before",
        "key_after",
        "response_before",
        "response_after",
        "contract_state",
        "right",
        "why_unread",
    )

    def lines() -> Iterator[tuple[Any, ...]]:
        """Yield the fields of each row."""
        for key, item_values in rows.by_item(*_OF_CSV):
            before = item_values[0]["canonical"] if item_values[0]["arm"] == ORIGINAL else None
            for row in item_values:
                yield (
                    *key,
                    row["arm"],
                    row["variant"],
                    row["replicate"],
                    row["edit"],
                    row["contract"],
                    row["key_before"],
                    row["key_after"],
                    before,
                    row["canonical"],
                    state_of(row, row["canonical"], before),
                    "" if row["correct"] is None else int(row["correct"]),
                    row["why"],
                )

    return csv_pieces(header, lines())


# Maps each contract to what an answer should do, and each archetype to what edits should do.
SHOULD = {
    Contract.INVARIANT: "should stay",
    Contract.DIRECTIONAL: "should become the new right answer",
    Archetype.DIAGNOSTIC: "move the answer to the new right answer",
    Archetype.INVARIANCE: "leave the answer alone",
    Archetype.MIXED: "move some answers and leave others",
    None: "not known",
}
ERRORS = {
    "selective": "Edits of the content move as many answers as layout or wording, but the audit "
    "reports more (error)",
    "non_selective": "Edits of the content move as many answers as layout or wording, but the "
    "audit reports fewer (error)",
    "within_margin": "Edits of the content move more answers than the margin allows, but the audit "
    "reports that answers stay (error)",
}
STYLE = """
.pair { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1.4fr); gap: 0 2rem; padding: .4rem 1rem; }
.pair .before { position: sticky; top: 3.5rem; align-self: start; }
@media (max-width: 48rem) { .pair { grid-template-columns: minmax(0, 1fr); } .pair .before { position: static; } }
.blur { filter: blur(.4em); cursor: pointer; } .blur.seen { filter: none; cursor: auto; }
@media print { .blur { filter: blur(.4em); } }
"""


def page(verdict: RunVerdict, behind: tuple[Sequence[Path], ItemRows]) -> Page:
    """Build the page of runs.

    Parameters
    ----------
    verdict : RunVerdict
        The judged run.
    behind : tuple
        The run directories, and the rows of the runs.

    Returns
    -------
    Page
        Tables, figures, and a function that renders the page.
    """
    run_dirs, rows = behind
    drawn: dict[str, Figure] = {}
    if any(r.evidence.primary is not None for r in verdict.results):
        drawn["difference"] = charts.differences(verdict.results)
    if any(r.evidence.csr for r in verdict.results):
        drawn["ratio"] = charts.ratios(charts.ratios_of(verdict.results))
        drawn["before_after"] = charts.before_and_after(verdict.results)
    drawn["families"] = charts.family_changes(verdict.results)
    drawn["family_deltas"] = charts.family_deltas(charts.deltas_of(verdict.results))
    paper = paper_tables(verdict, rows)
    tables: dict[str, str | Iterator[str]] = {"items.csv": items_csv(rows), **_tables(verdict)}
    for table in paper:
        tables[f"paper_table{table.number}.csv"] = csv_text(table.columns, table.rows)
    facts = list(map(run_facts, run_dirs))
    return Page(tables, drawn, lambda figures: render(verdict, facts, figures, rows, paper))


def render(
    verdict: RunVerdict,
    facts: Sequence[RunFacts],
    figures: dict[str, str],
    rows: ItemRows,
    paper: Sequence[PaperTable],
) -> str:
    """Return the page as text.

    Parameters
    ----------
    verdict : RunVerdict
        The judged run.
    facts : sequence of RunFacts
        Facts about the runs.
    figures : dict
        Maps the name of each figure to its HTML element.
    rows : ItemRows
        The rows of the runs.
    paper : sequence of PaperTable
        The tables of the paper.

    Returns
    -------
    str
        HTML.
    """
    cells: list[dict[str, Any]] = []
    gated, decisions, marked = [], [], marks_of(verdict, VERDICTS)
    for c, r, mark in zip(verdict.cells, verdict.results, marked, strict=True):
        name = charts.label(r)
        cell = {"cell": c, "result": r, "mark": verdict.mark(c, r), "label": name}
        cells.append(cell | {"word": charts.shown_as(r)})
        gated.append(Gated(name, r.gates, {"cell": c.name}))
        decisions.append(replace(mark, sure=_sure(r)))
    marks = []
    for state, title in (("breaks", "not as expected"), ("follows", "as expected")):
        marks += [(f"{f.value}-{state}", f"{LABELS[f.value]}: {title}") for f in Family]
    items = top_items(rows, verdict.results)
    # Several models may have answered the same items.
    sizes = {(c.benchmark, c.context): c.n for c in verdict.cells}
    words: list[Any] = []
    for base in VERDICTS.values():
        words += base.where.values() or [base]
    return render_page(
        "validity/page.html.j2",
        rows=verdict.rows,
        scripts=("validity/page.js", "report/items.js"),
        css=STYLE,
        gates=GATES,
        labels=LABELS,
        gated=gated,
        marks=[*marks, ("original-none", "original unparsed")],
        title=verdict.title("Do answers move when they should?"),
        subtitle=f"Construct-validity audit: {sum(sizes.values()):,} items, each edited in layout, wording "
        f"and content; {len(rows):,} answers.",
        words=words,
        should=SHOULD,
        cells=cells,
        decisions=decisions,
        errors=errors_of(verdict.results, ERRORS),
        figures=figures,
        paper=paper,
        chronology=verdict.chronology,
        families=list(Family),
        has_metric=any(r.evidence.reference for r in verdict.results),
        edits=verdict.edits,
        thresholds=verdict.thresholds,
        facts=facts,
        items=items,
        total_items=rows.items,
        blurred=bool({c.scorer["benchmark"] for c in verdict.cells} & set(MASKED)),
    )


def _sure(r: ValidityResult) -> str:
    """Return the text that the page shows beside a decision.

    The text states the difference D, and how often such a decision is wrong in simulations. If
    checks failed, so that no conclusion is drawn, the text names the failed checks.
    """
    d, stops = r.evidence.primary, failed(r.gates)
    if stops or d is None:
        return (
            "no conclusion; failed: "
            f"{', '.join(GATES[g.name].title for g in stops) or 'comparison'}"
        )
    below = "within_margin" if r.evidence.archetype == Archetype.INVARIANCE else "non_selective"
    wrong = {ValidityStatus.SELECTIVE: "selective", ValidityStatus.NON_SELECTIVE: below}
    rate = r.calibration.rates.get(wrong.get(r.verdict, "")) if r.calibration else None
    more = "more" if d.difference >= 0 else "less"
    text = (
        f"edits of the content move answers {points(abs(d.difference))} {more} than edits of the form "
        f"({interval(d.low, d.high)})"
    )
    if r.verdict == ValidityStatus.INDETERMINATE:
        return f"{text}. {r.reasons[-1]}"
    return text if rate is None else f"{text}; wrong in {percent(rate)} of simulations"


_WHO = ("model=r.model", "benchmark=r.benchmark", "context=r.context")


def _tables(verdict: RunVerdict) -> dict[str, str]:
    """Map each file name to a csv table.

    - cells.csv is Table 6 of the paper with further numbers.
    - edits.csv has the effects of each edit, and how often its request equals the request of the
      original (Table 7 of the paper).
    - reference.csv has the metrics that the authors of the benchmark publish.
    """
    both = zip(verdict.cells, verdict.results, strict=True)
    cells = columns(
        ({"c": c, "r": r, "e": r.evidence} for c, r in both),
        *_WHO,
        "n=c.n",
        "s_orig=e.score.estimate",
        "delta_fmt=e.families.format.score_change",
        "delta_sem=e.families.semantic.score_change",
        "delta_attr=e.families.attribute.score_change",
        "csr=e.csr.own key.estimate",
        "csr_low=e.csr.own key.low",
        "csr_high=e.csr.own key.high",
        "pr_csr_above_1=e.csr.own key.support",
        "csr_reported=e.csr.own key.reported",
        "csr_fieller_low=e.csr.own key.fieller_low",
        "csr_fieller_high=e.csr.own key.fieller_high",
        "paper_status=r.paper.status",
        "D=e.primary.difference",
        "D_low=e.primary.low",
        "D_high=e.primary.high",
        "p_above=r.above_p",
        "p_below=r.below_p",
        "contract_followed=e.families.attribute.followed.estimate",
        "status=r.verdict",
    )

    def edits_of(evidence: Evidence) -> Iterator[Mapping[str, Any]]:
        """Yield each edit with its family."""
        for family, edits in evidence.edits.items():
            for edit in edits:
                yield {"family": family, "e": edit, "asked": edit.asked + edit.same}

    edits = _of_cells(
        verdict,
        edits_of,
        "family",
        "edit=e.name",
        "asked",
        "same_request=e.same",
        "read=e.read",
        "score=e.score",
        "score_change=e.score_change",
        "response_change=e.response_change.estimate",
        "contract_followed=e.followed.estimate",
    )
    moves = ("right_right", "right_wrong", "wrong_right", "wrong_wrong", "unread")
    transitions = _of_cells(
        verdict,
        lambda e: ({"family": f, "moves": x.transitions} for f, x in e.families.items()),
        "family",
        *(f"{name}=moves.{name}" for name in moves),
    )
    reference = _of_cells(
        verdict,
        lambda e: ({"m": m} for m in e.reference),
        "metric=m.name",
        "part=m.part",
        "unit=m.unit",
        "estimate=m.estimate",
        "low=m.low",
        "high=m.high",
        "n=m.n",
    )
    return {
        "cells.csv": cells,
        "cell_validity.csv": cell_validity_csv(verdict),
        "edits.csv": edits,
        "transitions.csv": transitions,
        "reference.csv": reference,
        "group_dif.csv": group_dif_csv(verdict),
        "placebo.csv": placebo_csv(verdict),
    }


def _of_cells(
    verdict: RunVerdict, rows: Callable[[Evidence], Iterable[Mapping[str, Any]]], *names: str
) -> str:
    """Return a csv text with the names of each cell and some fields of its evidence."""
    lines = []
    for r in verdict.results:
        lines += [{"r": r, **row} for row in rows(r.evidence)]
    return columns(lines, *_WHO, *names)


def group_dif_csv(verdict: RunVerdict) -> str:
    """Return a csv text that compares each group of items with all other items, at equal total
    score.

    Parameters
    ----------
    verdict : RunVerdict
        The judged run.

    Returns
    -------
    str
        A csv text with one line for each group. The numbers are empty if the strata have too few
        items of the group.
    """

    def rows(evidence: Evidence) -> Iterator[Mapping[str, Any]]:
        """Yield the fields of each group."""
        for g in evidence.group_dif:
            tested = g.pvalue is not None
            yield {
                "g": g,
                "t": g.table if tested else None,
                "state": "tested" if tested else "too few",
            }

    return _of_cells(
        verdict,
        rows,
        "group=g.group",
        "items=g.items",
        "strata=g.table.strata",
        "odds_ratio=t.odds_ratio",
        "low=t.low",
        "high=t.high",
        "ets_delta=t.delta",
        "p_holm=g.pvalue",
        "state",
    )


def placebo_csv(verdict: RunVerdict) -> str:
    """Return how far placebo and attribute edits change each item, as csv.

    Parameters
    ----------
    verdict : RunVerdict
        The judged run.

    Returns
    -------
    str
        One line for each item.
    """
    distances = [name.replace(" ", "_") for name in COLUMNS]
    rows = []
    for c in verdict.cells:
        for id_, row in zip(c.question_ids, c.distances.T, strict=False):
            numbers = map(digits, row.tolist())
            rows.append((c.model, c.benchmark, c.context, id_, c.distance_unit, *numbers))
    return csv_text(("model", "benchmark", "context", "question_id", "unit", *distances), rows)
