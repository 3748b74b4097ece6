"""Reanalyse a published model-by-router table: `audit reanalyze [song2026|CSV] [--out DIR] [--n
100] [--chance 0.25]`.

Without a file it takes song2026's Table 2, which ships with the package, recomputes Tables 1 and 3,
and lists which printed cells do not follow. A table of this form is read and checked against itself
first. It needs neither an engine nor Ray, and takes seconds.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.core.errors import DataError
from audit.core.number_text import percent
from audit.judging.tables import csv_text
from audit.papers import write_all

if TYPE_CHECKING:  # --help needs neither arrays nor statistics
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

    from audit.papers.song2026_reanalysis import Panel, PrintedTable, Reanalysis
    from audit.sweep.paper import SettingRow


def shipped(name: str) -> str:
    """Return a published table that ships with the package (audit/data/song2026/README.md names the
    source)."""
    return resources.files("audit").joinpath("data", "song2026", f"{name}.csv").read_text("utf-8")


ALPHA = 0.05
COLUMNS = ("model", "routers", "clean_accuracy", "noisy_accuracy", "gain", "improve", "degrade")
EXAMPLE = "Llama-3.1-8B,6,0.26,0.43,0.17,21,4"
TABLE1_COLUMNS = (
    "violation_count",
    "violation_rate",
    "max_positive_excess",
    "mean_positive_excess",
    "mean_gain",
)
TABLE3_COLUMNS = (
    "violating_models",
    "violation_rate",
    "mean_positive_excess",
    "improve",
    "degrade",
    "net_improve",
)


def analyse(
    table2: str,
    *,
    printed: tuple[str, str] | None = None,
    n: int = 100,
    chance: float = 0.25,
    simulations: int = 2_000,
    source: str = "table",
    chance_assumed: bool = False,
) -> tuple[Reanalysis, list[str]]:
    """Analyse a published table.

    Parameters
    ----------
    table2 : str
        Csv text of the settings.
    printed : tuple of str or None
        Csv texts of the printed Tables 1 and 3.
    n : int
        Number of questions behind each accuracy.
    chance : float
        Expected accuracy of guessing.
    simulations : int
        Number of simulated panels without an effect.
    source : str
        Name of the table in messages.
    chance_assumed : bool
        True if the source does not print the number of options.

    Returns
    -------
    result : Reanalysis
        The analysis.
    contradictions : list of str
        Cells whose own numbers contradict each other.

    Raises
    ------
    DataError
        If an argument or the table is invalid.
    """
    import numpy as np

    from audit.papers.song2026_reanalysis import reanalyse

    if n < 1:
        raise DataError(
            f"--n is the number of questions behind each accuracy, such as 100; found {n}."
        )
    if not 0 < chance <= 0.5:
        raise DataError(
            f"--chance is the expected accuracy of guessing, such as 0.25 for four options; found {chance}."
        )
    rows, contradictions = read_settings(table2, n, source)
    summaries = None
    if printed is not None:
        summaries = (
            read_printed(printed[0], "model", TABLE1_COLUMNS, "Table 1"),
            read_printed(printed[1], "routers", TABLE3_COLUMNS, "Table 3"),
        )
    rng = np.random.default_rng(42)
    result = reanalyse(
        rows,
        chance,
        rng=rng,
        printed=summaries,
        simulations=simulations,
        chance_assumed=chance_assumed,
    )
    return result, contradictions


def as_json(result: Reanalysis, contradictions: Sequence[str]) -> dict[str, Any]:
    """Return the analysis as plain numbers; equal table and seed give equal bytes.

    Parameters
    ----------
    result : Reanalysis
        The analysis.
    contradictions : sequence of str
        Lines of `analyse`.

    Returns
    -------
    dict
        JSON content.
    """
    raw, after_holm, after_bh = result.rejected
    return {
        "sentence": result.sentence,
        "n": result.n,
        "alpha": ALPHA,
        "settings": len(result.settings),
        "violations": result.violations,
        "p_below_alpha": raw,
        "p_below_alpha_holm": after_holm,
        "p_below_alpha_benjamini_hochberg": after_bh,
        "compared_cells": result.compared_cells,
        "mismatches": [asdict(m) for m in result.mismatches],
        "contradictions": list(contradictions),
        "chance": {m: asdict(c) for m, c in result.chance.items()},
        "chance_assumed": result.chance_assumed,
        "exact_values": [
            [r.model, r.routers, r.clean_accuracy, r.noisy_accuracy] for r in result.exact_values
        ],
        "discordance": result.discordance,
        "minimum_detectable_gain": {
            "one_setting": result.mde_single,
            "one_model": result.mde_model,
            "panel": result.mde_panel,
        },
        "without_any_effect": asdict(result.no_effect),
        "table1": [asdict(m) for m in result.models],
        "table3": [asdict(r) for r in result.routers],
        "panels": [_panel_json(panel) for panel in result.panels],
    }


def _panel_json(panel: Panel) -> dict[str, Any]:
    return {
        "name": panel.name,
        "settings": panel.settings,
        "net_improve": {str(r.routers): r.net_improve for r in panel.routers},
        "heterogeneity": asdict(panel.heterogeneity),
        "trend": asdict(panel.trend) | {"pvalue": panel.trend.pvalue},
    }


def figures(result: Reanalysis) -> dict[str, Figure]:
    """Return Figures 2 to 5 of the paper from the table's counts, with the Wilson intervals that it
    does not print."""
    from scipy.stats import binomtest

    from audit.sweep import figures as paper
    from audit.sweep.paper import breadths, router_summary

    def score(routers: int, accuracy: float) -> paper.Score:
        ends = binomtest(round(accuracy * result.n), result.n).proportion_ci(method="wilson")
        return paper.Score(routers, accuracy, ends.low, ends.high)

    rows = [t.row for t in result.settings]
    of_model = {m.model: [row for row in rows if row.model == m.model] for m in result.models}
    scores = [
        paper.ModelScores(
            model,
            score(1, settings[0].clean_accuracy),
            tuple(score(row.routers, row.noisy_accuracy) for row in settings),
            chance=None if result.chance_assumed else result.chance[model].chance,
        )
        for model, settings in of_model.items()
    ]
    names = {(row.model, row.benchmark): row.model for row in rows}
    other = {panel.name: panel for panel in result.panels}.get("without_exact")
    without = (
        {} if other is None else {"figure4_without_exact_cells": paper.transitions(other.routers)}
    )
    return {
        **without,
        "figure2_violation_pattern": paper.violation_pattern(router_summary(rows)),
        "figure3_noisy_against_clean": paper.small_multiples(scores),
        "figure4_transitions": paper.transitions(router_summary(rows)),
        "figure5_violation_breadth": paper.breadth(breadths(rows, names)),
    }


def write(result: Reanalysis, contradictions: Sequence[str], out: Path) -> list[Path]:
    """Write reanalysis.json, the tables as csv and the figures into a folder.

    Parameters
    ----------
    result : Reanalysis
        The analysis.
    contradictions : sequence of str
        Lines of `analyse`.
    out : Path
        The folder.

    Returns
    -------
    list of Path
        The files.
    """
    settings = [
        asdict(t.row)
        | {"pvalue": t.pvalue, "holm": t.holm, "benjamini_hochberg": t.benjamini_hochberg}
        for t in result.settings
    ]
    tables = {
        "settings.csv": csv_text(list(settings[0]), map(dict.values, settings)),
        "table1.csv": _csv(result.models),
        "table3.csv": _csv(result.routers),
        "mismatches.csv": _csv(
            result.mismatches, "table", "key", "column", "printed", "recomputed"
        ),
        "net_improve.csv": _net_improve_csv(result.panels),
    }
    return write_all(out, as_json(result, contradictions), tables, figures(result))


def _net_improve_csv(panels: Sequence[Panel]) -> str:
    """Return net improve by router count, a row for each selection of settings."""
    rows = [
        (panel.name, r.routers, r.models, r.net_improve) for panel in panels for r in panel.routers
    ]
    return csv_text(("settings", "routers", "models", "net_improve"), rows)


def _csv(records: Sequence[Any], *empty: str) -> str:
    """Return records as csv; `empty` is the header without records."""
    rows = [asdict(record) for record in records]
    return csv_text(list(rows[0]) if rows else empty, map(dict.values, rows))


def show(result: Reanalysis, contradictions: Sequence[str], console: Console) -> None:
    """Print the tables and findings."""
    from rich.box import SIMPLE
    from rich.table import Table

    odd = {(m.table, m.key, m.column): m for m in result.mismatches}

    def cell(table: str, key: str, column: str, text: str) -> str:
        mismatch = odd.get((table, key, column))
        return text if mismatch is None else f"[bold red]{text}*[/]"

    def table(title: str, *names: str, caption: str | None = None) -> Table:
        made = Table(
            title=title, title_justify="left", caption=caption, caption_justify="left", box=SIMPLE
        )
        for name in names:
            made.add_column(
                name, justify="left" if name == "model" else "right", no_wrap=name == "model"
            )
        return made

    note = "* not what is printed, see below" if odd else None
    names = (
        "model",
        "viol.",
        "rate",
        "max exc.",
        "mean exc.",
        "mean gain",
        "clean",
        "above chance",
    )
    t1 = table("Table 1, recomputed", *names, caption=note)
    for m in result.models:
        c = result.chance[m.model]
        values = [cell("Table 1", m.model, k, f"{getattr(m, k):.3f}") for k in TABLE1_COLUMNS[1:]]
        above = "yes" if c.above else "[bold red]no[/]"
        count = cell("Table 1", m.model, "violation_count", str(m.violation_count))
        t1.add_row(m.model, count, *values, f"{c.accuracy:.2f}", above)
    console.print(t1)
    t3 = table(
        "Table 3, recomputed",
        "routers",
        "violating",
        "rate",
        "mean excess",
        "improve",
        "degrade",
        "net",
    )
    for r in result.routers:
        shown = {"violation_rate": ".3f", "mean_positive_excess": ".3f"}
        values = [
            cell("Table 3", str(r.routers), k, f"{getattr(r, k):{shown.get(k, 'g')}}")
            for k in TABLE3_COLUMNS
        ]
        t3.add_row(str(r.routers), *values)
    console.print(t3)
    title = f"Settings with an exact one-sided McNemar p < {ALPHA:g}"
    tests = table(title, "model", "r", "gain", "improve", "degrade", "p", "Holm", "BH")
    for t in sorted(result.settings, key=lambda t: t.pvalue):
        if t.pvalue < ALPHA:
            style = "bold" if t.holm < ALPHA else ""
            row = t.row
            counts = (f"{row.gain:+.2f}", f"{row.improve:g}", f"{row.degrade:g}")
            adjusted = (f"{t.pvalue:.5f}", f"{t.holm:.4f}", f"{t.benjamini_hochberg:.4f}")
            tests.add_row(row.model, str(row.routers), *counts, *adjusted, style=style)
    console.print(tests)
    if result.panels:
        console.print(_panel_table(result.panels, table))
    for line in findings(result, contradictions):
        console.print(f"- {line}", highlight=False, markup=False, soft_wrap=True)
    console.print()
    console.print(result.sentence, style="bold", highlight=False, markup=False, soft_wrap=True)


PANEL_NAMES = {
    "all": "as printed",
    "without_exact": "without cells of exactly 0 or 1",
    "without_their_models": "without the models of these cells",
}


def _panel_table(panels: Sequence[Panel], table: Callable[..., Table]) -> Table:
    """Return net improve by r and the p-values of H2 and H3, a row for each selection."""
    routers = [r.routers for r in panels[0].routers]
    title = "Net improve (improve - degrade), and the paper's H2 and H3 on the printed counts"
    made: Table = table(title, "model", *(f"r={r}" for r in routers), "H2 p, at most", "H3 p")
    for panel in panels:
        net = {r.routers: r.net_improve for r in panel.routers}
        cells = [f"{net[r]:+g}" if r in net else "" for r in routers]
        pvalues = (f"{panel.heterogeneity.pvalue:.3f}", f"{panel.trend.pvalue:.3f}")
        made.add_row(PANEL_NAMES[panel.name], *cells, *pvalues)
    return made


def findings(result: Reanalysis, contradictions: Sequence[str]) -> list[str]:
    """Return the findings beside the tables, one line each.

    Parameters
    ----------
    result : Reanalysis
        The analysis.
    contradictions : sequence of str
        Lines of `analyse`.

    Returns
    -------
    list of str
        Lines.
    """
    e = result.no_effect
    lines = [
        f"Without any effect ({e.simulations} simulated panels of the same accuracies and discordance): "
        f"{percent(e.setting_rate)} of settings and {percent(e.model_rate)} of models would violate, "
        f"{percent(e.broad_rate)} of models in 7 of 9 settings; {e.violations:.0f} violations ({e.violations_low:.0f} "
        f"to {e.violations_high:.0f}); a share of {e.pvalue:.3f} of panels has {result.violations} or more.",
        f"Minimum detectable gain at n={result.n} (power 80 %, discordance {result.discordance:.2f}): "
        f"{result.mde_single:.3f} for one setting, {result.mde_model:.3f} for one model's settings, "
        f"{result.mde_panel:.3f} for the panel.",
    ]
    low = [f"{m} ({c.accuracy:.2f})" for m, c in result.chance.items() if not c.above]
    if low:
        threshold = next(iter(result.chance.values())).threshold
        assumed = ", four options assumed" if result.chance_assumed else ""
        lines.append(
            f"Clean accuracy not above chance + 2 SE ({threshold:.3f}{assumed}): {', '.join(low)}."
        )
    if result.exact_values:
        named = ", ".join(
            f"{r.model} r={r.routers} ({r.noisy_accuracy:.2f})" for r in result.exact_values
        )
        lines.append(
            f"{len(result.exact_values)} cells at exactly 0 or 1, which suggests unparsed output: {named}."
        )
    lines += [_hypotheses(panel) for panel in result.panels]
    if result.compared_cells:
        lines.append(
            f"{result.compared_cells} printed cells of Tables 1 and 3 compared, {len(result.mismatches)} do not follow."
        )
        lines += [
            f"{m.table}, {m.key}, {m.column}: printed {m.printed:g}, recomputed {m.recomputed:.4f}."
            for m in result.mismatches
        ]
    lines.append(
        f"{len(contradictions)} rows whose own numbers contradict each other."
        if contradictions
        else "Every row agrees with itself: gain = noisy - clean = (improve - degrade) / n."
    )
    return lines + list(contradictions)


def _hypotheses(panel: Panel) -> str:
    h2, h3 = panel.heterogeneity, panel.trend
    return (
        f"{PANEL_NAMES[panel.name].capitalize()} ({panel.settings} settings): the models' mean gains differ by "
        f"{100 * h2.spread:.1f} points beyond sampling (H2, Cochran's Q, p at most {h2.pvalue:.3f}); each router adds "
        f"{h3.improve:+.2f} improvements (p = {h3.p_improve:.3f}) and {h3.degrade:+.2f} degradations "
        f"(p = {h3.p_degrade:.3f}) a model (H3, exact sign flips over {h3.models} models)."
    )


def add_words(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Exact tests, corrections and consistency checks for a published model-by-router table."
    )
    parser.epilog = (
        f"The csv has the columns {', '.join(COLUMNS)}; a row looks like: {EXAMPLE}. With li2026 in place of a csv: "
        "the tables of the construct-validity paper."
    )
    parser.add_argument(
        "csv",
        nargs="?",
        type=Path,
        help="table to analyse; song2026 or nothing: the paper's Table 2",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("outputs/reanalysis"), help="folder for json and csv"
    )
    parser.add_argument("--json", action="store_true", help="print the json in place of the tables")
    parser.add_argument(
        "--n", type=int, default=100, help="questions behind each accuracy (default 100)"
    )
    parser.add_argument(
        "--chance",
        type=float,
        help="expected accuracy of guessing (default 0.25, four options: an assumption)",
    )


def run(asked: argparse.Namespace) -> int:
    """Analyse, print and write.

    Parameters
    ----------
    asked : Namespace
        Arguments of the command.

    Returns
    -------
    int
        Exit code 0.

    Raises
    ------
    AuditError
        If the input cannot be used.
    """
    given = None if asked.csv == Path("song2026") else asked.csv
    result, contradictions = analyse(
        _text(given) if given else shipped("table2_model_router"),
        printed=None
        if given
        else (shipped("table1_model_summary"), shipped("table3_router_summary")),
        n=asked.n,
        chance=0.25 if asked.chance is None else asked.chance,
        chance_assumed=asked.chance is None and not given,
        source=given.name if given else "song2026, Table 2",
    )
    paths = write(result, contradictions, asked.out)
    if asked.json:
        print(
            next(path for path in paths if path.suffix == ".json").read_text(encoding="utf-8"),
            end="",
        )
        return 0
    from rich.console import Console

    console = Console()
    show(result, contradictions, console)
    console.print(f"Written: {', '.join(str(p) for p in paths)}", highlight=False, soft_wrap=True)
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise DataError(f"Cannot read {path}: {reason}. Expected a csv file in UTF-8.") from problem


def read_settings(text: str, n: int, source: str = "table") -> tuple[list[SettingRow], list[str]]:
    """Read a model-by-router csv.

    Parameters
    ----------
    text : str
        Csv text.
    n : int
        Number of questions behind each accuracy. Accuracies may be rounded: an accuracy stands for
        the whole number of items that rounds to it.
    source : str
        Name of the table in messages.

    Returns
    -------
    rows : list of SettingRow
        Rows formed from counts.
    contradictions : list of str
        Cells whose printed numbers contradict each other.

    Raises
    ------
    DataError
        If no n items can give a number, or a setting occurs twice; the message names the row.
    """
    from audit.sweep.paper import setting_row

    rows: list[SettingRow] = []
    contradictions: list[str] = []
    seen: set[tuple[str, int]] = set()
    clean_of: dict[str, int] = {}
    for line, cells in _read_csv(text, COLUMNS, source):
        model = cells["model"]
        where = f"{source}, line {line} ({model}, routers={cells['routers']})"
        routers = _whole(cells["routers"], "routers", where)
        improve, degrade = (
            _whole(cells["improve"], "improve", where),
            _whole(cells["degrade"], "degrade", where),
        )
        clean = _items(cells["clean_accuracy"], "clean_accuracy", n, where)
        noisy = _items(cells["noisy_accuracy"], "noisy_accuracy", n, where)
        gain = _number(cells["gain"], "gain", where)
        if degrade > clean:
            raise DataError(
                f"{where}: degrade is {degrade}, but only {clean} of {n} items were right when clean."
            )
        if improve > n - clean:
            raise DataError(
                f"{where}: improve is {improve}, but only {n - clean} of {n} items were wrong when clean."
            )
        if (model, routers) in seen:
            raise DataError(
                f"{where}: this setting occurs twice; every model and router count occurs once."
            )
        seen.add((model, routers))
        net = improve - degrade
        if abs(net / n - gain) > _half_digit(cells["gain"]) + 1e-9:
            contradictions.append(
                f"{where}: gain {gain:+g}, but (improve - degrade) / n = {net / n:+g}"
            )
        if noisy - clean != net:
            contradictions.append(
                f"{where}: noisy - clean = {noisy - clean} items, improve - degrade = {net}"
            )
        first = clean_of.setdefault(model, clean)
        if first != clean:
            contradictions.append(
                f"{where}: clean accuracy {clean / n:g}, {first / n:g} in its first row"
            )
        rows.append(setting_row(model, routers, clean, improve, degrade, n))
    return rows, contradictions


def read_printed(text: str, key: str, columns: Sequence[str], source: str) -> PrintedTable:
    """Read a printed summary csv.

    Parameters
    ----------
    text : str
        Csv text.
    key : str
        Column that names the rows.
    columns : sequence of str
        Columns to read.
    source : str
        Name of the table in messages.

    Returns
    -------
    dict
        {row key: {column: (value, half of its last printed digit)}}.
    """
    out = {}
    for line, cells in _read_csv(text, (key, *columns), source):
        where = f"{source}, line {line} ({cells[key]})"
        out[cells[key]] = {c: (_number(cells[c], c, where), _half_digit(cells[c])) for c in columns}
    return out


def _read_csv(text: str, columns: Sequence[str], source: str) -> list[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(text.splitlines())
    missing = [c for c in columns if c not in (reader.fieldnames or [])]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise DataError(
            f"{source} lacks the column{plural} {', '.join(missing)}; found "
            f"{', '.join(reader.fieldnames or ['nothing'])}. Expected the header: {','.join(columns)}"
        )
    out = []
    for cells in reader:
        line = reader.line_num
        if any(cells[c] is None for c in columns):
            raise DataError(
                f"{source}, line {line}: fewer cells than the header has. A row looks like: {EXAMPLE}"
            )
        out.append((line, {c: cells[c].strip() for c in columns}))
    if not out:
        raise DataError(f"{source} has a header and no rows. A row looks like: {EXAMPLE}")
    return out


def _number(cell: str, column: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(
            f"{where}: {column} is {cell!r}, expected a number such as 0.26. A row looks like: {EXAMPLE}"
        )
    return value


def _whole(cell: str, column: str, where: str) -> int:
    value = _number(cell, column, where)
    if value < 0 or value != int(value):
        raise DataError(f"{where}: {column} is {cell}, expected a whole number >= 0 such as 21.")
    return int(value)


def _items(cell: str, column: str, n: int, where: str) -> int:
    """Return the number of items that an accuracy over n items stands for."""
    value = _number(cell, column, where)
    if not 0 <= value <= 1:
        raise DataError(
            f"{where}: {column} is {cell}, expected a share between 0 and 1 such as 0.26 (not per cent)."
        )
    count = round(value * n)
    if abs(count / n - value) > _half_digit(cell) + 1e-9:
        raise DataError(f"{where}: no count of {n} items gives {column} {cell}. Is --n {n} right?")
    return count


def _half_digit(cell: str) -> float:
    """Return half of the last printed digit: '0.178' -> 0.0005."""
    digits = cell.split(".")[1] if "." in cell else ""
    return 0.5 * 10 ** -len(digits) if digits else 0.0
