"""Reanalyse a published model-by-router table.

    audit reanalyze [song2026|CSV] [--out DIR] [--n 100] [--chance 0.25]

Without a file, Table 2 of the paper song2026 is analysed, which ships with the package. Tables 1
and 3 of the paper are recomputed from Table 2, and printed cells that differ are listed. A file
must have the columns of Table 2. The consistency of a file is checked first. Neither an engine nor
Ray is needed.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import resources
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.core.errors import DataError
from audit.core.guarded_files import nearest
from audit.core.json_types import attributes
from audit.core.number_text import percent
from audit.judging.tables import csv_text
from audit.papers import ALPHA, place, print_json, write_all

if TYPE_CHECKING:  # Imported for types only, so that --help starts quickly.
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

    from audit.papers.song2026_reanalysis import Panel, PrintedTable, Reanalysis
    from audit.sweep.paper import SettingRow


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


def shipped(name: str) -> str:
    """Return a published table that ships with the package, as csv text.

    audit/data/song2026/README.md states the source of the tables.
    """
    return resources.files("audit").joinpath("data", "song2026", f"{name}.csv").read_text("utf-8")


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
        Csv text of the table, with one row for each setting.
    printed : tuple of str or None
        Csv texts of the printed Tables 1 and 3.
    n : int
        Number of questions behind each accuracy.
    chance : float
        Expected accuracy of guessing.
    simulations : int
        Number of simulated panels without an effect.
    source : str
        Name of the table in error messages.
    chance_assumed : bool
        True if the source of the table does not state the number of options, so that `chance` is
        assumed.

    Returns
    -------
    result : Reanalysis
        The analysis.
    contradictions : list of str
        Descriptions of rows with numbers that contradict each other.

    Raises
    ------
    DataError
        If an argument or the table is invalid.
    """
    import numpy as np

    from audit.papers.song2026_reanalysis import reanalyse

    if n < 1:
        raise DataError(
            f"--n is {n}. Expected the number of questions behind each accuracy. Example: --n 100."
        )
    if not 0 < chance <= 0.5:
        raise DataError(
            f"--chance is {chance}. Expected the accuracy of guessing, above 0 and at most 0.5. "
            "Example: --chance 0.25, for four options."
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
    """Return the analysis as JSON values. Equal tables and seeds give equal bytes.

    Parameters
    ----------
    result : Reanalysis
        The analysis.
    contradictions : sequence of str
        Descriptions of contradictions, as returned by `analyse`.

    Returns
    -------
    dict
        Content of the json file.
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
        "mismatches": _dicts(result.mismatches),
        "contradictions": list(contradictions),
        "chance": dict(zip(result.chance, _dicts(result.chance.values()), strict=True)),
        "chance_assumed": result.chance_assumed,
        "exact_values": _accuracies(result.exact_values),
        "discordance": result.discordance,
        "minimum_detectable_gain": {
            "one_setting": result.mde_single,
            "one_model": result.mde_model,
            "panel": result.mde_panel,
        },
        "without_any_effect": asdict(result.no_effect),
        "table1": _dicts(result.models),
        "table3": _dicts(result.routers),
        "panels": list(map(_panel_json, result.panels)),
    }


def _dicts(records: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the fields of dataclasses as dicts."""
    return [asdict(record) for record in records]


def _accuracies(rows: Iterable[SettingRow]) -> list[tuple[str, int, float, float]]:
    columns = attrgetter("model", "routers", "clean_accuracy", "noisy_accuracy")
    return list(map(columns, rows))


def _panel_json(panel: Panel) -> dict[str, Any]:
    return {
        "name": panel.name,
        "settings": panel.settings,
        "net_improve": {str(r.routers): r.net_improve for r in panel.routers},
        "heterogeneity": asdict(panel.heterogeneity),
        "trend": asdict(panel.trend) | {"pvalue": panel.trend.pvalue},
    }


def figures(result: Reanalysis) -> dict[str, Figure]:
    """Return Figures 2 to 5 of the paper, drawn from the counts of the table.

    Figure 3 has Wilson intervals, which the paper does not print.
    """
    from scipy.stats import binomtest

    from audit.papers.song2026_reanalysis import by_model
    from audit.sweep import figures as paper
    from audit.sweep.paper import breadths, router_summary

    def score(routers: int, accuracy: float) -> paper.Score:
        ends = binomtest(round(accuracy * result.n), result.n).proportion_ci(method="wilson")
        return paper.Score(routers, accuracy, ends.low, ends.high)

    rows = [test.row for test in result.settings]
    names = {(row.model, row.benchmark): row.model for row in rows}
    settings_of = by_model(rows)
    scores = []
    for summary in result.models:
        settings = settings_of[summary.model]
        clean = score(1, settings[0].clean_accuracy)
        noisy = tuple(score(row.routers, row.noisy_accuracy) for row in settings)
        chance = None if result.chance_assumed else result.chance[summary.model].chance
        scores.append(paper.ModelScores(summary.model, clean, noisy, chance=chance))
    drawn = {}
    for panel in result.panels:
        if panel.name == "without_exact":
            drawn["figure4_without_exact_cells"] = paper.transitions(panel.routers)
    return {
        **drawn,
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
        Contradictions that `analyse` returned.
    out : Path
        Folder to write into.

    Returns
    -------
    list of Path
        Paths of the written files.
    """
    settings = []
    for test in result.settings:
        pvalues = attributes(test, "pvalue", "holm", "benjamini_hochberg")
        settings.append(asdict(test.row) | pvalues)
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
    """Return as csv the net improvement by number of routers and selection of settings."""
    rows = []
    for panel in panels:
        rows += [(panel.name, r.routers, r.models, r.net_improve) for r in panel.routers]
    return csv_text(("settings", "routers", "models", "net_improve"), rows)


def _csv(records: Sequence[Any], *header: str) -> str:
    """Return records as csv; if there are no records, only the header."""
    rows = _dicts(records)
    return csv_text(list(rows[0]) if rows else header, map(dict.values, rows))


def show(result: Reanalysis, contradictions: Sequence[str], console: Console) -> None:
    """Print the tables, and the results as sentences below the tables."""
    mismatched = {(m.table, m.key, m.column) for m in result.mismatches}

    def cell(table: str, key: str, column: str, text: str) -> str:
        return f"[bold red]{text}*[/]" if (table, key, column) in mismatched else text

    note = "* differs from the printed value, see below" if mismatched else None
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
    t1 = _table("Table 1, recomputed", *names, caption=note)
    for m in result.models:
        c = result.chance[m.model]
        values = [cell("Table 1", m.model, "violation_count", str(m.violation_count))]
        for column in TABLE1_COLUMNS[1:]:
            values.append(cell("Table 1", m.model, column, f"{getattr(m, column):.3f}"))
        above = "yes" if c.above else "[bold red]no[/]"
        t1.add_row(m.model, *values, f"{c.accuracy:.2f}", above)
    console.print(t1)
    t3 = _table(
        "Table 3, recomputed",
        "routers",
        "violating",
        "rate",
        "mean excess",
        "improve",
        "degrade",
        "net",
    )
    shares = ("violation_rate", "mean_positive_excess")
    for r in result.routers:
        values = [str(r.routers)]
        for column in TABLE3_COLUMNS:
            form = ".3f" if column in shares else "g"
            values.append(cell("Table 3", str(r.routers), column, f"{getattr(r, column):{form}}"))
        t3.add_row(*values)
    console.print(t3)
    title = f"Settings with an exact one-sided McNemar p < {ALPHA:g}"
    tests = _table(title, "model", "r", "gain", "improve", "degrade", "p", "Holm", "BH")
    for t in sorted(result.settings, key=lambda t: t.pvalue):
        if t.pvalue < ALPHA:
            style = "bold" if t.holm < ALPHA else ""
            row = t.row
            counts = (f"{row.gain:+.2f}", f"{row.improve:g}", f"{row.degrade:g}")
            adjusted = (f"{t.pvalue:.5f}", f"{t.holm:.4f}", f"{t.benjamini_hochberg:.4f}")
            tests.add_row(row.model, str(row.routers), *counts, *adjusted, style=style)
    console.print(tests)
    if result.panels:
        console.print(_panel_table(result.panels))
    for line in findings(result, contradictions):
        console.print(f"- {line}", highlight=False, markup=False, soft_wrap=True)
    console.print()
    console.print(result.sentence, style="bold", highlight=False, markup=False, soft_wrap=True)


PANEL_NAMES = {
    "all": "as printed",
    "without_exact": "without cells of exactly 0 or 1",
    "without_their_models": "without the models of these cells",
}


def _table(title: str, *names: str, caption: str | None = None) -> Table:
    """Return an empty table with the given columns."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(
        title=title, title_justify="left", caption=caption, caption_justify="left", box=SIMPLE
    )
    for name in names:
        is_model = name == "model"
        table.add_column(name, justify="left" if is_model else "right", no_wrap=is_model)
    return table


def _panel_table(panels: Sequence[Panel]) -> Table:
    """Return a table with one row for each selection of settings: the net improvement for each
    number r of routers, and the p-values of H2 and H3.
    """
    headings = {r.routers: f"r={r.routers}" for r in panels[0].routers}
    title = "Net improve (improve - degrade), and the paper's H2 and H3 on the printed counts"
    table = _table(title, "model", *headings.values(), "H2 p, at most", "H3 p")
    for panel in panels:
        net = {r.routers: f"{r.net_improve:+g}" for r in panel.routers}
        cells = [net.get(routers, "") for routers in headings]
        pvalues = (f"{panel.heterogeneity.pvalue:.3f}", f"{panel.trend.pvalue:.3f}")
        table.add_row(PANEL_NAMES[panel.name], *cells, *pvalues)
    return table


def findings(result: Reanalysis, contradictions: Sequence[str]) -> list[str]:
    """Return the lines below the printed tables, one line for each result.

    Parameters
    ----------
    result : Reanalysis
        The analysis.
    contradictions : sequence of str
        Contradictions that `analyse` returned.

    Returns
    -------
    list of str
        The lines.
    """
    e = result.no_effect
    lines = [
        f"Without any effect ({e.simulations} simulated panels of the same accuracies and "
        f"discordance): {percent(e.setting_rate)} of settings and {percent(e.model_rate)} of models "
        f"would violate, {percent(e.broad_rate)} of models in 7 of 9 settings; "
        f"{e.violations:.0f} violations ({e.violations_low:.0f} to {e.violations_high:.0f}); "
        f"a share of {e.pvalue:.3f} of panels has {result.violations} or more.",
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
        cells = []
        for r in result.exact_values:
            cells.append(f"{r.model} r={r.routers} ({r.noisy_accuracy:.2f})")
        lines.append(
            f"{len(cells)} cells at exactly 0 or 1, which suggests unparsed output: "
            f"{', '.join(cells)}."
        )
    lines += map(_hypotheses, result.panels)
    if result.compared_cells:
        lines.append(
            f"{result.compared_cells} printed cells of Tables 1 and 3 compared, "
            f"{len(result.mismatches)} do not follow."
        )
    for m in result.mismatches:
        values = f"printed {m.printed:g}, recomputed {m.recomputed:.4f}"
        lines.append(f"{m.table}, {m.key}, {m.column}: {values}.")
    lines.append(
        f"{len(contradictions)} rows whose own numbers contradict each other."
        if contradictions
        else "Every row agrees with itself: gain = noisy - clean = (improve - degrade) / n."
    )
    return lines + list(contradictions)


def _hypotheses(panel: Panel) -> str:
    """Return the sentence on the hypotheses H2 and H3 for a selection of settings."""
    h2, h3 = panel.heterogeneity, panel.trend
    return (
        f"{PANEL_NAMES[panel.name].capitalize()} ({panel.settings} settings): "
        f"the models' mean gains differ by {100 * h2.spread:.1f} points beyond sampling "
        f"(H2, Cochran's Q, p at most {h2.pvalue:.3f}); each router adds "
        f"{h3.improve:+.2f} improvements (p = {h3.p_improve:.3f}) and {h3.degrade:+.2f} degradations "
        f"(p = {h3.p_degrade:.3f}) a model (H3, exact sign flips over {h3.models} models)."
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `audit reanalyze` to its parser."""
    parser.description = (
        "Exact tests, corrections and consistency checks for a published model-by-router table."
    )
    parser.epilog = (
        f"The csv has the columns {', '.join(COLUMNS)}; a row looks like: {EXAMPLE}. "
        "With li2026 in place of a csv, the tables are those of the construct-validity paper."
    )
    parser.add_argument(
        "csv",
        nargs="?",
        type=Path,
        help="table to analyse; song2026 (the default) is the paper's Table 2",
    )
    default = "outputs/reanalysis"
    folder = f"folder for json and csv files (default: {default}, for a table {default}_NAME)"
    parser.add_argument("--out", type=Path, help=folder)
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser.add_argument("--json", action="store_true", help="print the json instead of the tables")
    parser.add_argument(
        "--n", type=int, default=100, help="number of questions behind each accuracy (default 100)"
    )
    parser.add_argument(
        "--chance",
        type=float,
        help="expected accuracy of guessing (default 0.25, four options: an assumption)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Analyse the table, print the results, and write the files.

    Parameters
    ----------
    arguments : Namespace
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
    of_paper = arguments.csv in (None, Path("song2026"))
    default = "outputs/reanalysis" if of_paper else f"outputs/reanalysis_{arguments.csv.stem}"
    out = place(arguments.out, default, force=arguments.force)
    chance = 0.25 if arguments.chance is None else arguments.chance
    if of_paper:
        result, contradictions = analyse(
            shipped("table2_model_router"),
            printed=(shipped("table1_model_summary"), shipped("table3_router_summary")),
            n=arguments.n,
            chance=chance,
            chance_assumed=arguments.chance is None,
            source="song2026, Table 2",
        )
    else:
        result, contradictions = analyse(
            _text(arguments.csv), n=arguments.n, chance=chance, source=arguments.csv.name
        )
    paths = write(result, contradictions, out)
    if arguments.json:
        print_json(paths)
        return 0
    from rich.console import Console

    console = Console()
    show(result, contradictions, console)
    console.print(f"Written: {', '.join(map(str, paths))}", highlight=False, soft_wrap=True)
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise DataError(
            f"Cannot read {path}: {reason}.{nearest(path)} Expected a csv file in UTF-8."
        ) from problem


def read_settings(text: str, n: int, source: str = "table") -> tuple[list[SettingRow], list[str]]:
    """Read a model-by-router table from csv text.

    Parameters
    ----------
    text : str
        The csv text.
    n : int
        Number of questions behind each accuracy. A printed accuracy may be rounded. It is replaced
        by the number k of right answers for which k / n rounds to the printed accuracy.
    source : str
        Name of the table in error messages.

    Returns
    -------
    rows : list of SettingRow
        Settings with numbers of items instead of accuracies.
    contradictions : list of str
        Descriptions of rows with printed numbers that contradict each other.

    Raises
    ------
    DataError
        If a printed accuracy is not k / n for any number k of items, or if a setting occurs twice.
        The message names the row.
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
                f"{where}: the column degrade states {degrade} items, "
                f"but only {clean} of {n} items were answered right in the clean condition."
            )
        if improve > n - clean:
            raise DataError(
                f"{where}: the column improve states {improve} items, "
                f"but only {n - clean} of {n} items were answered wrongly in the clean condition."
            )
        if (model, routers) in seen:
            raise DataError(
                f"{where}: this setting occurs twice. Expected each model and router count once."
            )
        seen.add((model, routers))
        net = improve - degrade
        if abs(net / n - gain) > _half_digit(cells["gain"]) + 1e-9:
            contradictions.append(
                f"{where}: gain is {gain:+g}, but (improve - degrade) / n is {net / n:+g}"
            )
        if noisy - clean != net:
            contradictions.append(
                f"{where}: noisy - clean is {noisy - clean} items, but improve - degrade is {net}"
            )
        first = clean_of.setdefault(model, clean)
        if first != clean:
            contradictions.append(
                f"{where}: clean accuracy is {clean / n:g}, but {first / n:g} in the first row"
            )
        rows.append(setting_row(model, routers, clean, improve, degrade, n))
    return rows, contradictions


def read_printed(text: str, key: str, columns: Sequence[str], source: str) -> PrintedTable:
    """Read a printed summary table from csv text.

    Parameters
    ----------
    text : str
        The csv text.
    key : str
        Column that names the rows.
    columns : sequence of str
        Columns to read.
    source : str
        Name of the table in error messages.

    Returns
    -------
    dict
        Map each row and column to the printed value, and half a unit of the last printed digit.
    """
    table = {}
    for line, cells in _read_csv(text, (key, *columns), source):
        where = f"{source}, line {line} ({cells[key]})"
        row = {}
        for column in columns:
            row[column] = _number(cells[column], column, where), _half_digit(cells[column])
        table[cells[key]] = row
    return table


def _read_csv(text: str, columns: Sequence[str], source: str) -> list[tuple[int, dict[str, str]]]:
    """Return the line number of every row, and the cells of the row by column."""
    reader = csv.DictReader(text.splitlines())
    header = reader.fieldnames or []
    missing = [column for column in columns if column not in header]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise DataError(
            f"{source} lacks the column{plural} {', '.join(missing)}; "
            f"found {', '.join(header) or 'nothing'}. Expected the header: {','.join(columns)}"
        )
    rows = []
    for cells in reader:
        row = {column: cells[column] for column in columns}
        if None in row.values():
            raise DataError(
                f"{source}, line {reader.line_num}: the row has fewer cells than the header. "
                f"A row looks like: {EXAMPLE}"
            )
        rows.append((reader.line_num, {column: cell.strip() for column, cell in row.items()}))
    if not rows:
        raise DataError(f"{source} has a header and no rows. A row looks like: {EXAMPLE}")
    return rows


def _number(cell: str, column: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(
            f"{where}: {column} is {cell!r}. Expected a number, such as 0.26. "
            f"A row looks like: {EXAMPLE}"
        )
    return value


def _whole(cell: str, column: str, where: str) -> int:
    value = _number(cell, column, where)
    if value < 0 or value != int(value):
        raise DataError(
            f"{where}: {column} is {cell}. Expected a whole number of 0 or more, such as 21."
        )
    return int(value)


def _items(cell: str, column: str, n: int, where: str) -> int:
    """Return the number of items that corresponds to an accuracy over n items."""
    value = _number(cell, column, where)
    if not 0 <= value <= 1:
        raise DataError(
            f"{where}: {column} is {cell}. "
            "Expected a share between 0 and 1, such as 0.26 (not per cent)."
        )
    count = round(value * n)
    if abs(count / n - value) > _half_digit(cell) + 1e-9:
        raise DataError(
            f"{where}: {column} is {cell}, but no number of right answers out of {n} gives this "
            "share. Expected --n with the number of questions behind the table."
        )
    return count


def _half_digit(cell: str) -> float:
    """Return half a unit of the last printed digit of a number: '0.178' -> 0.0005."""
    _, _, digits = cell.partition(".")
    return 0.5 * 10 ** -len(digits) if digits else 0.0
