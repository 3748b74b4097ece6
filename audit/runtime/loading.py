"""Load a finished or interrupted run as tables (`audit.load`), and list the runs in a folder.

Tables are pyarrow tables. With `to="pandas"` or `to="polars"`, tables are returned as data frames,
if that package is installed (docs/reference/python.md). Ray is not loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from audit.config.audits import Audit, audit_of, part_of
from audit.core.aliases import named
from audit.core.errors import AuditError, ConfigError, DataError, check_known
from audit.core.exits import one_line
from audit.core.guarded_files import nearest, read_text
from audit.core.json_types import attributes
from audit.core.records import CellRows
from audit.judging.decision import read_verdict
from audit.judging.document import AuditVerdict, Cell
from audit.judging.run import CellResult
from audit.runtime.summary import summarise
from audit.shards.complete import Seen, cell_rows, contents, count_rows
from audit.shards.files import SHARDS
from audit.shards.manifest import MANIFEST, Manifest
from audit.shards.object_store import is_url
from audit.shards.read import load_cells, open_dataset
from audit.shards.working_copy import run_folder

if TYPE_CHECKING:  # only figures need matplotlib
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Report:
    """Hold the path of a report's page. A notebook displays the page in a frame."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        page = escape(read_text(self.path))
        return (
            f'<iframe sandbox="allow-scripts" width="100%" height="700" srcdoc="{page}"></iframe>'
        )


@dataclass(frozen=True)
class Figure:
    """Hold the path of one figure of a report. A notebook displays the figure."""

    path: Path

    def _repr_svg_(self) -> str:
        return read_text(self.path)


_TO = ("arrow", "pandas", "polars")
_TEXTS = ("prompt", "response")
_SETTING = {
    "model": pa.string(),
    "benchmark": pa.string(),
    "arm": pa.string(),
    "level": pa.int16(),
    "replicate": pa.int16(),
}
_MEASURED = {
    "n": pa.int64(),
    "answered": pa.int64(),
    "accuracy": pa.float64(),
    "standard_error": pa.float64(),
    "parse_rate": pa.float64(),
    "errors": pa.int64(),
    "gain": pa.float64(),
    "improve": pa.float64(),
    "degrade": pa.float64(),
}


@dataclass(frozen=True, repr=False)
class Run:
    """Give access to the files of a run. `audit.load` returns this object.

    - `manifest`: the configuration, versions and times of the run.
    - `rows`: the numbers of stored and expected rows for each model and benchmark.
    """

    path: Path
    audit: Audit
    manifest: Manifest
    rows: tuple[CellRows, ...]

    @property
    def watermark(self) -> str:
        """Return a text such as "incomplete, 512 of 1,000 answers", or "" for a complete run."""
        answers = expected = 0
        for rows in self.rows:
            answers += rows.found
            expected += rows.found if rows.expected is None else rows.expected
        return CellRows("", "", answers, expected).watermark

    def verdict_json(self) -> dict[str, Any]:
        """Return the content of report/verdict.json as JSON types.

        Raises the same errors as `document`.
        """
        return self.document().plain

    def document(self) -> AuditVerdict[Any]:
        """Return the content of report/verdict.json as a typed object.

        Raises ConfigError if the report does not exist, was built from other shards, or has a field
        of a wrong type."""
        path = self.path / "report" / "verdict.json"
        try:
            report = read_verdict(path)
        except FileNotFoundError:
            raise ConfigError(
                f"{path} does not exist. Build it: audit report {self.path}"
            ) from None
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be read ({error}). Build it: audit report {self.path}"
            ) from error
        stored = contents(count_rows(self.path, self.audit.schema))
        if stored not in [run.contents for run in report.runs]:
            raise ConfigError(
                f"{path} was not made from the answers that the shards hold now. Build it: audit report {self.path}"
            )
        return report

    def verdict(self, to: str = "arrow", *, trust_report: bool = False) -> Any:
        """Return a table of verdicts, with a row for each cell (model and benchmark).

        The columns are the fields of verdict.json that are not nested. `verdict_json` returns the
        nested fields too. The verdict is recomputed from the answers, and ConfigError is raised if
        the result differs from the stored verdict. trust_report=True skips this slow check.
        """
        document = self.document()
        stored = sorted((cell.model, cell.benchmark, cell.verdict) for cell in document.cells)
        if not trust_report:
            computed = sorted((r.model, r.benchmark, str(r.verdict)) for r in self.results())
            if stored != computed:
                path = self.path / "report" / "verdict.json"
                raise ConfigError(
                    f"The verdict in {path} is {stored}, but the answers give {computed}. Build "
                    f"it again: audit report {self.path}"
                )
        first, cells = ["model", "benchmark", "verdict", "headline"], document.plain["cells"]
        plain = set()
        for cell in cells:
            for name, value in cell.items():
                if not isinstance(value, list | dict):
                    plain.add(name)
        names = [*first, *sorted(plain - {*first, "sensitivity"})]
        columns = {}
        for name in names:
            columns[name] = [cell.get(name) for cell in cells]
        return _as(pa.table(columns), to)

    def results(self) -> tuple[CellResult, ...]:
        """Return the result of each judged cell as a dataclass of the audit.

        The results are recomputed from the shards, as in `audit gate`.
        """
        report = part_of(self.audit.name, "report").REPORT
        return report.judge([self.path], **report.options([self.path], {}))[0].results

    def report(self) -> Report:
        """Build the report from the shards, and return its page.

        The report is written to `<run directory>/report`.
        """
        return Report(
            part_of(self.audit.name, "report")
            .REPORT.of_runs([self.path], self.path / "report", {})
            .html
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the accuracy of each setting with its 95 % interval (1.96 standard errors).

        Each setting has a line in the plot. A setting without an accuracy is left out. `ax` are the
        axes to draw on; None creates a new figure.
        """
        rows = []
        for row in self.settings().to_pylist():
            if row["n"] and row["standard_error"] is not None:
                rows.append(row)
        if ax is None:
            from matplotlib.figure import Figure as Canvas

            ax = Canvas(figsize=(7, 1 + 0.3 * len(rows)), layout="constrained").subplots()
        half = [1.96 * row["standard_error"] for row in rows]
        ax.errorbar(
            [row["accuracy"] for row in rows], range(len(rows)), xerr=half, fmt="o", capsize=3
        )
        several = len({(row["model"], row["benchmark"]) for row in rows}) > 1
        name = ("{model} on {benchmark}: " if several else "") + "{arm} {level}, {replicate}"
        ax.set_yticks(range(len(rows)), [name.format(**row) for row in rows])
        ax.invert_yaxis()
        ax.set_xlabel("accuracy, 95 % interval")
        return ax

    def settings(self, to: str = "arrow") -> Any:
        """Return a table with a row for each setting of each cell (model and benchmark).

        The columns include the accuracy (0-1), and the gain in accuracy over the baseline. A run
        prints the same numbers at its end.
        """
        rows = []
        for cell in load_cells(self.path, self.audit.schema):
            for row in summarise(cell, self.audit.roles):
                of = attributes(cell, "model", "benchmark") | attributes(
                    row.setting, "arm", "level", "replicate"
                )
                rows.append(of | attributes(row, *_MEASURED))
        return _as(pa.Table.from_pylist(rows, pa.schema((_SETTING | _MEASURED).items())), to)

    def answers(self, columns: Sequence[str] | None = None, to: str = "arrow") -> Any:
        """Return a table with a row for each stored answer.

        `columns` selects columns of the table (docs/reference/columns.md).
        """
        known = self.audit.schema.columns.names
        for name in columns or ():
            check_known("column", name, known)
        wanted = None if columns is None else list(columns)
        return _as(open_dataset(self.path, self.audit.schema).to_table(columns=wanted), to)

    def messages(self, to: str = "arrow") -> Any:
        """Return a table with a row for each prompt, response or other message.

        The columns are:

        - the key of the answer to which the message belongs,
        - the role: "prompt", "response", or the role of the calls that precede the answer,
        - the index, which numbers the calls that precede the answer,
        - the text. A model's text may be hostile, so escape the text before you display it.
        """
        key, role = self.audit.schema.key, self.audit.prepare_role
        several = f"{role}_messages"
        table = self.answers([*key, *_TEXTS, *([several] if role else [])])
        keys = table.select(key)
        zeros = pa.array([0] * len(table), pa.int32())
        parts = [_texts(keys, name, zeros, table.column(name)) for name in _TEXTS]
        if role:
            lists = table.column(several).combine_chunks()
            owner = pa.compute.list_parent_indices(lists)
            starts = pa.compute.take(lists.offsets, owner)
            index = pa.compute.subtract(pa.array(range(len(owner)), pa.int32()), starts)
            parts.append(
                _texts(
                    keys.take(owner), role, index.cast(pa.int32()), pa.compute.list_flatten(lists)
                )
            )
        return _as(
            pa.concat_tables(parts).sort_by([(name, "ascending") for name in (*key, "index")]), to
        )

    def figure(self, name: str) -> Figure:
        """Return the figure of the report with the given name, such as "evidence".

        Raises ConfigError, with the names of all figures, if no figure has this name.
        """
        known = {path.stem: path for path in (self.path / "report" / "figures").glob("*.svg")}
        if not known:
            raise ConfigError(
                f"{self.path} has no figures. Build its report: audit report {self.path}"
            )
        check_known("figure", name, known)
        return Figure(known[name])

    def _repr_html_(self) -> str:
        try:
            shown = [[c.model, c.benchmark, c.verdict, c.headline] for c in self.document().cells]
        except AuditError as error:
            shown = [[str(error)]]
        table = []
        for row in shown:
            table.append("".join(f"<td>{escape(str(value))}</td>" for value in row))
        mark = f"<p><b>{escape(self.watermark.upper())}</b></p>" if self.watermark else ""
        head = f"<p>{escape(self.audit.name)} in {escape(named(self.path))}</p>{mark}"
        return f"{head}<table><tr>{'</tr><tr>'.join(table)}</tr></table>"

    def __repr__(self) -> str:
        return f"Run({entry_line(_entry(self))})"


@dataclass(frozen=True)
class RunEntry:
    """Hold the facts about one run in a list of runs.

    - `found` and `expected`: the numbers of stored and expected rows. `expected` is None without a
      manifest.
    - `problem`: the reason why the run cannot be read.
    - `cells`: the results in the run's verdict, one for each model and benchmark.
    - `reason`: the reason why the verdict has no results.
    """

    path: Path
    audit: str = ""
    status: str = ""
    started: str = ""
    models: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    found: int = 0
    expected: int | None = None
    cells: tuple[Cell, ...] = field(default=(), repr=False)
    problem: str = ""
    reason: str = ""

    @property
    def verdicts(self) -> tuple[str, ...]:
        return tuple(cell.verdict for cell in self.cells)


def load(run_dir: Path | str) -> Run:
    """Load a run from its directory or from an s3:// URL.

    For a URL, the run is copied to a temporary folder, which is deleted when this process ends.
    Raises ConfigError if no run is found, and ShardError if the shards of the run cannot be read.
    """
    path = run_folder(run_dir)
    manifest, audit = Manifest.load(path), audit_of(path)
    # A run without shards was stopped before its first rows were stored.
    begun = manifest.shards or any((path / SHARDS).glob("[!.]*"))
    return Run(
        path, audit, manifest, cell_rows(path, count_rows(path, audit.schema) if begun else Seen())
    )


def find_runs(folder: Path | str = "outputs") -> list[RunEntry]:
    """Return every run in a folder and its subfolders, the latest run first.

    Raises ConfigError if the folder does not exist.
    """
    if is_url(folder):
        place = str(folder).partition("?")[0]
        raise ConfigError(
            f"Runs cannot be listed at a URL ({place}). Load a run by its address: "
            "audit.load('s3://my-bucket/my_run')."
        )
    root = Path(folder)
    if not root.is_dir():
        raise ConfigError(
            f"There is no folder {root.resolve()}.{nearest(root)} Expected a folder with runs, such as outputs."
        )
    entries = []
    for path in root.rglob(MANIFEST):
        try:
            entries.append(_entry(load(path.parent)))
        except AuditError as error:
            entries.append(RunEntry(path.parent, problem=str(error).splitlines()[0]))
        # Another program wrote this manifest.json.
        except (
            AttributeError,
            KeyError,
            TypeError,
            ValueError,
            OSError,
        ) as error:
            entries.append(
                RunEntry(path.parent, problem=f"{path} is not the manifest of a run ({error!r})")
            )
    return sorted(entries, key=lambda entry: (entry.started, str(entry.path)), reverse=True)


def entry_line(entry: RunEntry) -> str:
    """Format the facts about a run as the line that `audit runs` prints."""
    if entry.problem:
        return f"{entry.path}  cannot be read: {entry.problem}"
    rows = f"{entry.found:,}" + ("" if entry.expected is None else f" of {entry.expected:,}")
    ends = (
        ", the same command continues the run"
        if entry.found == entry.expected and entry.status == "stopped"
        else ""
    )
    verdicts = ", ".join(entry.verdicts) or f"no verdict ({entry.reason})"
    subject = f"{','.join(entry.models)} on {','.join(entry.benchmarks)}"
    return one_line(
        f"{entry.started[:16]}  {entry.audit:<8} {entry.status:<9} {rows} rows{ends}  {subject}: "
        f"{verdicts}  {named(entry.path)}"
    )


def _entry(run: Run) -> RunEntry:
    manifest, reason = run.manifest, ""
    cells: tuple[Cell, ...] = ()
    try:
        cells = run.document().cells
    except AuditError as error:
        reason = _why(run, error)
    answers, expected = 0, []
    for rows in run.rows:
        answers += rows.found
        expected.append(rows.expected)
    return RunEntry(
        run.path,
        run.audit.name,
        manifest.status,
        manifest.started,
        tuple(manifest.models),
        tuple(manifest.benchmark),
        found=answers,
        expected=None if None in expected else sum(filter(None, expected)),
        cells=cells,
        reason=reason,
    )


def _why(run: Run, error: AuditError) -> str:
    """Return the reason why a run has no verdict on its current rows."""
    failed = run.manifest.models_failed
    if failed:
        how = dict.fromkeys(failed, "failed") | dict.fromkeys(
            run.manifest.models_stopped, "stopped"
        )
        failures = []
        for name, why in failed.items():
            failures.append(f"{name} {how[name]}: {str(why).splitlines()[0]}")
        return "; ".join(failures)
    if run.manifest.status in ("running", "stopped"):
        return "the run is in progress or was stopped; the same command continues it"
    return str(error).splitlines()[0].replace(str(run.path), str(named(run.path)))


def _texts(keys: pa.Table, role: str, index: pa.Array, text: Any) -> pa.Table:
    roles = pa.array([role] * len(keys), pa.string())
    return (
        keys.append_column("role", roles).append_column("index", index).append_column("text", text)
    )


def _as(table: pa.Table, to: str) -> Any:
    """Convert a pyarrow table to the requested library (arrow, pandas or polars)."""
    check_known("to", to, _TO)
    if to == "arrow":
        return table
    try:
        library = import_module(to)
    except ImportError as error:
        raise DataError(
            f"to={to!r} needs {to}, which is not installed: pip install {to}. Or use to='arrow'."
        ) from error
    if to == "polars":
        return library.from_arrow(table)
    # A null value means "no answer", so it must not become False.
    return table.to_pandas(types_mapper={pa.bool_(): library.BooleanDtype()}.get)
