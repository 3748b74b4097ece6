"""The page of a construct-validity audit, its figures and tables: in the shell that every audit's page has.

Every text of a benchmark or a model goes through jinja2's escaping; the script sets no markup. Texts of benchmarks that
hold slurs or unsafe requests are blurred until they are clicked.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from audit.report.build import Page, run_facts
from audit.report.page import Gated, RunFacts, errors_of, marks_of, render_page
from audit.validity import figures as charts
from audit.validity.analyse import RunVerdict
from audit.validity.as_paper import PaperTable, cell_validity_csv, paper_tables
from audit.validity.cells import ItemRows
from audit.validity.edits.plan import MASKED
from audit.validity.edits.record import Archetype, Contract, Family
from audit.validity.evidence import CellEvidence
from audit.validity.items_table import items_csv, top_items
from audit.validity.result import ValidityResult, ValidityStatus
from audit.validity.tokens import COLUMNS
from audit.validity.vocabulary import GATES, LABELS, VERDICTS
from audit.verdict.result import failed, interval, percent, points
from audit.verdict.tables import columns, csv_text, digits

SHOULD = {  # what becomes of an answer, by an edit's contract; what edits of the content should do to it, by archetype
    Contract.INVARIANT: "should stay",
    Contract.DIRECTIONAL: "should become the new right one",
    Archetype.DIAGNOSTIC: "move the answer to the new right one",
    Archetype.INVARIANCE: "leave the answer alone",
    Archetype.MIXED: "move some answers and leave others",
    None: "not known",
}
ERRORS = {
    "selective": "Content moves as many answers as layout or wording, and is said to move more (wrong)",
    "non_selective": "The same, and is said to move fewer (wrong)",
    "within_margin": "Content moves more answers than the margin allows, and they are said to stay (wrong)",
}
STYLE = """
.pair { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1.4fr); gap: 0 2rem; padding: .4rem 1rem; }
.pair .before { position: sticky; top: 3.5rem; align-self: start; }
@media (max-width: 48rem) { .pair { grid-template-columns: minmax(0, 1fr); } .pair .before { position: static; } }
.blur { filter: blur(.4em); cursor: pointer; } .blur.seen { filter: none; cursor: auto; }
@media print { .blur { filter: blur(.4em); } }
"""


def page(verdict: RunVerdict, behind: tuple[Sequence[Path], ItemRows]) -> Page:
    """Figures, tables and the page of runs. behind: the runs, and their rows."""
    run_dirs, rows = behind
    drawn: dict[str, Figure] = {}
    if any(r.evidence is not None and r.evidence.primary is not None for r in verdict.results):
        drawn["difference"] = charts.differences(verdict.results)
    if any(r.evidence is not None and r.evidence.csr for r in verdict.results):
        drawn["ratio"] = charts.ratios(charts.ratios_of(verdict.results))
        drawn["before_after"] = charts.before_and_after(verdict.results)
    drawn["families"] = charts.family_changes(verdict.results)
    drawn["family_deltas"] = charts.family_deltas(charts.deltas_of(verdict.results))
    paper = paper_tables(verdict, rows)
    tables: dict[str, str | Iterator[str]] = {
        "items.csv": items_csv(rows),
        "cells.csv": cells_csv(verdict),
        "cell_validity.csv": cell_validity_csv(verdict),
        "edits.csv": edits_csv(verdict),
        "transitions.csv": transitions_csv(verdict),
        "reference.csv": reference_csv(verdict),
        "group_dif.csv": group_dif_csv(verdict),
        "placebo.csv": placebo_csv(verdict),
        **{f"paper_table{one.number}.csv": one.to_csv() for one in paper},
    }
    facts = [run_facts(one) for one in run_dirs]
    return Page(tables, drawn, lambda figures: render(verdict, facts, figures, rows, paper))


def render(
    verdict: RunVerdict, facts: Sequence[RunFacts], figures: dict[str, str], rows: ItemRows, paper: Sequence[PaperTable]
) -> str:
    """The page as text."""
    cells: list[dict[str, Any]] = [
        {"cell": c, "result": r, "mark": verdict.mark(c, r), "label": charts.label(r), "word": charts.shown_as(r)}
        for c, r in zip(verdict.cells, verdict.results, strict=True)
    ]
    items = top_items(rows, verdict.results)
    words = [word for base in VERDICTS.values() for word in base.where.values() or [base]]
    both = zip(verdict.cells, verdict.results, strict=True)
    return render_page(
        "validity/page.html.j2", rows=verdict.rows, scripts=("validity/page.js", "report/items.js"), css=STYLE,
        gates=GATES, labels=LABELS,
        gated=[Gated(charts.label(r), r.gates, {"cell": c.name}) for c, r in both],
        marks=[
            *((f"{f.value}-breaks", f"{LABELS[f.value]}: not as expected") for f in Family),
            *((f"{f.value}-follows", f"{LABELS[f.value]}: as expected") for f in Family),
            ("original-none", "original unparsed"),
        ],
        title=verdict.title("Do answers move when they should?"),
        subtitle=f"Construct-validity audit: {sum(c.n for c in verdict.cells):,} items, each edited in layout, wording "
        f"and content; {len(rows):,} answers.",
        words=words, should=SHOULD, cells=cells,
        decisions=[
            replace(mark, sure=_sure(r)) for mark, r in zip(marks_of(verdict, VERDICTS), verdict.results, strict=True)
        ],
        errors=errors_of(verdict.results, ERRORS), figures=figures, paper=paper, chronology=verdict.chronology,
        families=list(Family),
        has_metric=any(r.evidence is not None and r.evidence.reference for r in verdict.results), edits=verdict.edits,
        thresholds=verdict.thresholds, facts=facts, items=items, total_items=rows.items,
        blurred=bool({c.scorer["benchmark"] for c in verdict.cells} & set(MASKED)),
    )  # fmt: skip


def _sure(r: ValidityResult) -> str:
    """Beside a decision: the checks that withhold it, or its difference, and how often one like it is wrong."""
    stops = failed(r.gates)
    if stops or r.evidence is None or r.evidence.primary is None:
        return f"nothing is concluded; failed: {', '.join(GATES[g.name].title for g in stops) or 'no comparison'}"
    d = r.evidence.primary
    within = r.evidence.archetype == Archetype.INVARIANCE
    below = "within_margin" if within else "non_selective"
    wrong = {ValidityStatus.SELECTIVE: "selective", ValidityStatus.NON_SELECTIVE: below}
    rate = (r.calibration or {}).get(wrong.get(r.verdict))
    more = "more" if d.difference >= 0 else "less"
    said = f"content moves answers {points(abs(d.difference))} {more} than form does ({interval(d.low, d.high)})"
    if r.verdict == ValidityStatus.INDETERMINATE:
        return f"{said}. {r.reasons[-1]}"
    return said if rate is None else f"{said}; said wrongly in {percent(rate)} of simulations"


def cells_csv(verdict: RunVerdict) -> str:
    """One line a cell, in the form of the paper's Table 6, with ours beside it."""
    rows = []
    for c, r in zip(verdict.cells, verdict.results, strict=True):
        e = r.evidence
        rows.append({"c": c, "r": r, "e": e, "csr": e.csr.get("own key") if e else None, "D": e.primary if e else None})
    return columns(
        rows, *_WHO, "n=c.n", "s_orig=e.score.estimate", "delta_fmt=e.families.format.score_change",
        "delta_sem=e.families.semantic.score_change", "delta_attr=e.families.attribute.score_change",
        "csr=csr.estimate", "csr_low=csr.low", "csr_high=csr.high", "pr_csr_above_1=csr.support",
        "csr_reported=csr.reported", "csr_fieller_low=csr.fieller_low", "csr_fieller_high=csr.fieller_high",
        "paper_status=r.paper.status", "D=D.difference", "D_low=D.low", "D_high=D.high", "p_above=r.above_p",
        "p_below=r.below_p", "contract_followed=e.families.attribute.followed.estimate", "status=r.verdict",
    )  # fmt: skip


def _of_cells(verdict: RunVerdict, rows: Callable[[CellEvidence], Iterable[Mapping[str, Any]]], *names: str) -> str:
    """A csv of what the evidence of each cell holds, behind the cell. names: as of `columns`."""
    both = ({"r": r, **row} for r in verdict.results if r.evidence for row in rows(r.evidence))
    return columns(both, *_WHO, *names)


_WHO = ("model=r.model", "benchmark=r.benchmark", "context=r.context")


def edits_csv(verdict: RunVerdict) -> str:
    """One line an edit: how often it was the very request of the original (Table 7), and what it did."""
    return _of_cells(
        verdict,
        lambda e: ({"family": f, "e": x, "asked": x.asked + x.same} for f, found in e.edits.items() for x in found),
        "family", "edit=e.name", "asked", "same_request=e.same", "read=e.read", "score=e.score",
        "score_change=e.score_change", "response_change=e.response_change.estimate",
        "contract_followed=e.followed.estimate",
    )  # fmt: skip


def transitions_csv(verdict: RunVerdict) -> str:
    """Right and wrong before and after, by family."""
    names = ("right_right", "right_wrong", "wrong_right", "wrong_wrong", "unread")
    return _of_cells(
        verdict, lambda e: ({"family": f, "moves": x.transitions} for f, x in e.families.items()), "family",
        *(f"{name}=moves.{name}" for name in names),
    )  # fmt: skip


def reference_csv(verdict: RunVerdict) -> str:
    """The benchmark's own metric, one line a cell and part."""
    names = ("part", "unit", "estimate", "low", "high", "n")
    return _of_cells(
        verdict, lambda e: ({"m": m} for m in e.reference), "metric=m.name", *(f"{name}=m.{name}" for name in names)
    )


def group_dif_csv(verdict: RunVerdict) -> str:
    """Each group against the rest at equal total score; without numbers where the strata are too thin."""

    def rows(evidence: CellEvidence) -> Iterator[Mapping[str, Any]]:
        for g in evidence.group_dif:
            tested = g.pvalue is not None
            yield {"g": g, "t": g.table if tested else None, "state": "tested" if tested else "too few"}

    return _of_cells(
        verdict, rows, "group=g.group", "items=g.items", "strata=g.table.strata", "odds_ratio=t.odds_ratio",
        "low=t.low", "high=t.high", "ets_delta=t.delta", "p_holm=g.pvalue", "state",
    )  # fmt: skip


def placebo_csv(verdict: RunVerdict) -> str:
    """One line an item: how far its placebo and its attribute edits are from the original."""
    return csv_text(
        ("model", "benchmark", "context", "question_id", "unit", *(c.replace(" ", "_") for c in COLUMNS)),
        (
            (c.model, c.benchmark, c.context, id_, c.distance_unit, *map(digits, row.tolist()))
            for c in verdict.cells
            for id_, row in zip(c.question_ids, c.distances.T, strict=False)
        ),
    )
