"""The page of a perturbation audit, its figures and tables: in the shared shell (style, escaping, policy).

Every text of a benchmark, a library or a model goes through jinja2's escaping; the one script sets no markup.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import escape
from matplotlib.figure import Figure

from audit.perturb.figures import (
    Bar,
    DistanceBin,
    accuracy_by_distance,
    distance_bins,
    original_against_variants,
)
from audit.perturb.items_table import items_csv, top_items
from audit.perturb.record import PerturbCell, Wordings
from audit.perturb.rows import Read
from audit.perturb.verdict import RunVerdict
from audit.perturb.vocabulary import GATES, VERDICTS
from audit.report.accuracy import interval
from audit.report.canvas import inline_svg, png_bytes, svg_text
from audit.report.page import RunFacts, environment, policy
from audit.shards.files import write_file
from audit.statistics.wording_drop import item_means
from audit.variants.funnel import funnel, funnel_text
from audit.variants.record import Library

HARDEST = 10  # variants listed that most models fail although they have the original right


def write_page(
    read: Read, out: Path, verdict: RunVerdict, library: Library, facts: RunFacts
) -> tuple[Path, tuple[Path, ...], tuple[Path, ...]]:
    """Write figures, tables and the page into `out`; their paths (page, tables, figures)."""
    bars = {c.benchmark: _bars(c, verdict.cells) for c in verdict.cells}
    bins = _bins(read, verdict)
    drawn: dict[str, Figure] = {
        f"original_against_variants_{b}": original_against_variants(found, next(iter(_cells(verdict, b))).chance)
        for b, found in bars.items()
    }
    if any(bins.values()):
        drawn["accuracy_by_distance"] = accuracy_by_distance({" on ".join(k): v for k, v in bins.items() if v})
    tables, figures = [], []
    for name, text in (("items.csv", items_csv(verdict.cells, verdict.results)), ("cells.csv", _cells_csv(verdict))):
        write_file(out / "tables" / name, text.encode("utf-8", "backslashreplace"))
        tables.append(out / "tables" / name)
    inline: dict[str, str] = {}
    for name, figure in drawn.items():
        svg = svg_text(figure)
        for suffix, data in ((".svg", svg.encode()), (".png", png_bytes(figure))):
            write_file(out / "figures" / f"{name}{suffix}", data)
            figures.append(out / "figures" / f"{name}{suffix}")
        inline[name] = inline_svg(svg, f"f{len(inline)}", str(escape(name.replace("_", " "))))
    html = render(read.run_dir, verdict, library, facts, inline, bins)
    write_file(out / "report.html", html.encode("utf-8", "backslashreplace"))
    return out / "report.html", tuple(tables), tuple(figures)


def render(
    run_dir: Path,
    verdict: RunVerdict,
    library: Library,
    facts: RunFacts,
    figures: dict[str, str],
    bins: dict[tuple[str, str], list[DistanceBin]],
) -> str:
    """The page as text."""
    css = (files("audit.report") / "page.css").read_text(encoding="utf-8")
    js = (files("audit.perturb") / "page.js").read_text(encoding="utf-8")
    made = environment()
    made.filters["gate"] = lambda name: GATES[name].title if name in GATES else name
    template = made.from_string((files("audit.perturb") / "page.html.j2").read_text(encoding="utf-8"))
    marks = {(r.model, r.benchmark): r.watermark for r in verdict.rows}
    cells = [
        {"cell": c, "result": r, "mark": marks.get((r.model, r.benchmark), ""), "not_asked": _not_asked(c)}
        for c, r in zip(verdict.cells, verdict.results, strict=True)
    ]  # fmt: skip
    items = top_items(run_dir, verdict.cells, verdict.results)
    tally = Counter(str(r.decision.verdict) for r in verdict.results)
    return template.render(
        title=_title(verdict),
        subtitle=_subtitle(verdict),
        policy=policy(js, css),
        css=css,
        js=js,
        words={verdict.value: word for verdict, word in VERDICTS.items()},
        cells=cells,
        tally=[(v, tally[v]) for v in VERDICTS if tally[v]],
        missing=[r for r in verdict.rows if not r.complete],
        figures=figures,
        bins=bins,
        levels=[_levels(c) for c in verdict.cells],
        hardest=[_hardest(c) for c in verdict.cells],
        funnel=funnel_text(funnel(library), library.header),
        library=library,
        thresholds=verdict.thresholds,
        facts=facts,
        items=items,
        total_items=sum(c.n for c in verdict.cells),
        gate_names=sorted({g.name for r in verdict.results for g in r.gates if g.items}),
    )


def _not_asked(cell: PerturbCell) -> int:
    return int((~cell.tested.was_asked).sum())


def _title(verdict: RunVerdict) -> str:
    models = sorted({r.model for r in verdict.results})
    benchmarks = sorted({r.benchmark for r in verdict.results})
    who = models[0] if len(models) == 1 else f"{len(models)} models"
    mark = "" if all(r.complete for r in verdict.rows) else "Incomplete: "
    return f"{mark}Does the score hang on the wording? {who} on {', '.join(benchmarks) or 'nothing'}"


def _subtitle(verdict: RunVerdict) -> str:
    sizes = sorted({c.n for c in verdict.cells})
    asked = "no" if not sizes else f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    wordings = max((len(c.tested.variants) for c in verdict.cells), default=0)
    rows = sum(r.found for r in verdict.rows)
    return (
        f"Semantic-perturbation audit: {asked} questions a model, up to {wordings} rewordings each, {rows:,} answers."
    )


def _cells(verdict: RunVerdict, benchmark: str) -> list[PerturbCell]:
    return [c for c in verdict.cells if c.benchmark == benchmark]


def _bars(cell: PerturbCell, cells: Sequence[PerturbCell]) -> list[Bar]:
    """Judged models of the cell's benchmark, then its references."""
    same = [c for c in cells if c.benchmark == cell.benchmark]
    bars = [_bar(c.tested, c, reference=False) for c in same]
    return [*bars, *(_bar(w, cell, reference=True) for w in cell.references)]


def _bar(w: Wordings, cell: PerturbCell, *, reference: bool) -> Bar:
    o, v = item_means(*w.pair)
    label = f"{w.model} (reference)" if reference else w.model
    return Bar(label, interval(o, cell.cluster), interval(v, cell.cluster), reference)


def _bins(read: Read, verdict: RunVerdict) -> dict[tuple[str, str], list[DistanceBin]]:
    """By judged model and benchmark."""
    sent = {(r.model, r.benchmark): read.requests[r.model, r.benchmark] for r in verdict.results}
    return {key: distance_bins(np.array(one.distances), np.array(one.correct)) for key, one in sent.items()}


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
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ("original", "variants", "drop", "drop_low", "drop_high", "cs", "largest", "found_p", "beyond_p")
    writer.writerow(["model", "benchmark", "verdict", "n", *names])
    for c, r in zip(verdict.cells, verdict.results, strict=True):
        numbers: list[Any] = [None] * 7
        if r.evidence is not None:
            d = r.evidence.drop
            numbers = [d.original, d.variants, d.drop.estimate, d.drop.low, d.drop.high, d.cs.estimate, d.largest]
        shown = ["" if x is None or not np.isfinite(x) else f"{x:.6g}" for x in (*numbers, r.found_p, r.beyond_p)]
        writer.writerow([r.model, r.benchmark, str(r.decision.verdict), c.n, *shown])
    return out.getvalue()
