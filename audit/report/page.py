"""One self-contained HTML page from the verdict, the figures and the packed outcomes (pure: values in, text out).

Two walls stand between hostile text and the reader: jinja2 escapes everything it prints and the script sets nothing
but `textContent`; and the page's Content-Security-Policy runs only the one script and the one style sheet whose hashes
it names, and allows no request at all.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from audit.report.accuracy import SettingAccuracy
from audit.report.drill import DrillDown, script_json
from audit.statistics.paper import SettingRow, model_summary, router_summary
from audit.verdict.result import CellVerdict, RunVerdict, Status
from audit.verdict.vocabulary import GATES, VERDICTS
from audit.verdict.watermark import COMPLETE_IT

ARMS = {
    "direct": "direct (no router)",
    "forward_full": "clean (forward_full)",
    "noisy_rewrite": "noisy (noisy_rewrite)",
}
DASH = "–"
# Where a setting was run more than once. The page counts runs from 1.
ONE_RUN = (
    " They count replicate 0 of each arm alone (run 1), as the paper has one run, so they can differ from the figures "
    "and the verdict, which use every replicate."
)
POOLED = " Runs of a setting are averaged, as in the verdict."


@dataclass(frozen=True)
class RunFacts:
    """What a manifest says about one run, as texts: the main facts and everything else."""

    title: str
    main: tuple[tuple[str, str], ...] = ()
    more: tuple[tuple[str, str], ...] = ()


def percent(value: float | None) -> str:
    """0.714 -> '71.4 %'."""
    return DASH if value is None or not math.isfinite(value) else f"{100 * value:.1f} %"


def points(value: float | None) -> str:
    """0.042 -> '+4.2 points' (percentage points)."""
    if value is None or not math.isfinite(value):
        return DASH
    text = f"{100 * value:+.1f}"
    return f"{'0.0' if text in ('+0.0', '-0.0') else text.replace('-', '−')} points"


def bare_points(value: float | None) -> str:
    """As `points`, without the unit: for intervals."""
    return points(value).removesuffix(" points")


def size_points(value: float | None) -> str:
    """A size that has no direction: 0.083 -> '8.3 points'."""
    return points(value).removeprefix("+")


def bare_percent(value: float | None) -> str:
    """As `percent`, without the sign."""
    return percent(value).removesuffix(" %")


def pvalue(value: float | None) -> str:
    """Three decimals; '< 0.001' below that."""
    if value is None or not math.isfinite(value):
        return DASH
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def number(value: Any) -> str:
    """Four significant digits, whole numbers whole, texts as they are."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return DASH
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}".replace("-", "−")


def count(value: float | None) -> str:
    """Whole numbers with separators; fractions (expected numbers over replicates) with one decimal."""
    if value is None:
        return DASH
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def three(value: float) -> str:
    """Three decimals, as the paper prints."""
    return f"{value + 0.0:.3f}".replace("-0.000", "0.000")


def words(name: str) -> str:
    """'false_positive_rate' -> 'False positive rate'."""
    text = str(name).replace("_", " ").strip()
    return text[:1].upper() + text[1:]


def gate_name(name: str) -> str:
    return GATES[name].title if name in GATES else words(name)


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
) -> str:
    """The page. figures: name -> <svg> element made by `canvas.inline_svg`. total_rows: outcomes in the shards.

    replicated: some setting was run more than once, so the page says that the figures average these runs and the
    paper's tables do not.
    """
    folder = files("audit.report")
    css = (folder / "page.css").read_text(encoding="utf-8")
    js = (folder / "page.js").read_text(encoding="utf-8")
    template = environment().from_string((folder / "template.html.j2").read_text(encoding="utf-8"))
    tally = Counter(c.verdict.value for c in run.cells)
    settings_of = Counter((row.model, row.benchmark) for row in paper_rows)
    head = {**drill.head, "gates": _gate_items(run.cells)}
    return template.render(
        run=run,
        title=_title(run),
        subtitle=_subtitle(run, total_rows),
        policy=policy(js, css),
        css=css,
        js=js,
        words={verdict.value: word for verdict, word in VERDICTS.items()},
        arms=ARMS,
        names=names,
        tally=[(v.value, tally[v.value]) for v in VERDICTS if tally[v.value]],
        todo=_todo(run.cells, names),
        figures=_WithDefault(figures),
        accuracies=accuracies,
        one_run=ONE_RUN if replicated else "",
        of_one_run=", of replicate 0 alone" if replicated else "",
        pooled=POOLED if replicated else "",
        complete_it=COMPLETE_IT,
        missing=[r for r in run.rows if not r.complete],
        clustered=clustered,
        table1=[(s, settings_of[s.model, s.benchmark]) for s in model_summary(paper_rows)],
        table2=paper_rows,
        table3=router_summary(paper_rows),
        drill=drill,
        total_rows=total_rows,
        runs=facts,
        shards=shards,
        head_json=script_json(head),
        chunk_json=[script_json(chunk) for chunk in drill.chunks],
    )


def environment() -> Environment:
    """What every report's template is rendered by: everything escaped, nothing undefined, numbers printed one way."""
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {
        "pct": percent, "points": points, "size": size_points, "pvalue": pvalue, "number": number, "count": count,
        "three": three, "words": words, "gate": gate_name, "bare_points": bare_points, "bare_pct": bare_percent,
    }  # fmt: skip
    return made


def policy(js: str, css: str) -> str:
    """The Content-Security-Policy: one script and one style sheet by hash; no request to anywhere.

    The hashes are over the very text between the tags, which a browser reads with CRLF made LF.
    """
    return (
        f"default-src 'none'; script-src '{_sha256(js)}'; style-src '{_sha256(css)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    if re.search(r"</(script|style)", text, re.IGNORECASE) or "\r" in text:
        raise ValueError("A script or style sheet of the page holds its own end tag or a CR; neither can be embedded.")
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class _WithDefault(dict[str, str]):
    """figures[name] is '' for one that could not be drawn."""

    def __missing__(self, key: str) -> str:
        return ""


def _gate_items(cells: Sequence[CellVerdict]) -> list[dict[str, Any]]:
    return [
        {"name": g.name, "model": c.model, "benchmark": c.benchmark, "status": g.status.value, "items": list(g.items)}
        for c in cells
        for g in c.gates
        if g.items or g.status is Status.FAIL
    ]


def _todo(cells: Sequence[CellVerdict], names: Mapping[tuple[str, str], str]) -> list[tuple[str, list[str]]]:
    """Each first piece of advice once, with the names it is for."""
    out: dict[str, list[str]] = {}
    for c in cells:
        if c.what_to_do:
            out.setdefault(c.what_to_do[0], []).append(names[c.model, c.benchmark])
    return list(out.items())


def _title(run: RunVerdict) -> str:
    benchmarks = sorted({c.benchmark for c in run.cells})
    models = sorted({c.model for c in run.cells})
    who = models[0] if len(models) == 1 else f"{len(models)} models"
    where = benchmarks[0] if len(benchmarks) == 1 else f"{len(benchmarks)} benchmarks"
    mark = "" if all(r.complete for r in run.rows) else "Incomplete: "
    return f"{mark}Can the score be trusted? {who} on {where}"


def _subtitle(run: RunVerdict, total_rows: int) -> str:
    sizes = sorted({c.n_questions for c in run.cells})
    asked = count(sizes[0]) if len(sizes) == 1 else f"{count(sizes[0])} to {count(sizes[-1])}"
    routers = sorted({r for c in run.cells for r in c.routers})
    spread = "" if not routers else f", r = {routers[0]}" + (f" to {routers[-1]}" if len(routers) > 1 else "")
    return f"Router-worker audit: {asked} questions a model{spread}, {count(total_rows)} answers."
