"""Print the table of measured figures at the end of a run, before any verdict."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from audit.config.audits import Audit, Roles
from audit.config.base import RunConfig
from audit.core.aliases import named
from audit.core.exits import lines, one_line, refused
from audit.core.json_types import plain
from audit.core.records import Setting
from audit.engines.config import LIKELIHOODS
from audit.judging.vocabulary import sizes_of
from audit.shards.object_store import is_url
from audit.statistics.chance import chance_level
from audit.statistics.paired import CellOutcomes, FloatArray, State
from audit.statistics.values import settings_values, to_values

if TYPE_CHECKING:
    from audit.judging.document import AuditVerdict, Cell
    from audit.judging.together import Document
    from audit.report.build import ReportPaths


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """Hold the figures of one setting of one cell (a model on a benchmark).

    The accuracy (0-1) and its standard error are computed from the parsed answers.
    """

    setting: Setting
    n: int
    answered: int
    accuracy: float
    standard_error: float
    parse_rate: float
    errors: int
    # Gain, improve and degrade compare this setting with the baseline, over items answered in both.
    # They are None for the baseline itself.
    gain: float | None
    improve: float | None  # number of items; if there are replicates, the mean number
    degrade: float | None


def summarise(cell: CellOutcomes, roles: Roles) -> list[SummaryRow]:
    """Return one row of figures for each setting, in the audit's order of arms.

    Each setting is compared with the mean of the baseline's replicates.
    """
    base = []
    for s in cell.settings:
        if roles.is_baseline(s):
            base.append(s)
    baseline = settings_values(cell, base) if base else None
    settings = sorted(cell.settings, key=lambda s: (roles.arms.index(s.arm), s.level, s.replicate))
    return [_row(cell.row(s), s, None if s in base else baseline) for s in settings]


def _row(state: np.ndarray, setting: Setting, baseline: FloatArray | None) -> SummaryRow:
    values = to_values(state)
    n, failed = int((state != State.ABSENT).sum()), int((state == State.ERROR).sum())
    k = int((~np.isnan(values)).sum())
    accuracy = float(np.nanmean(values)) if k else math.nan
    gain = improve = degrade = None
    if baseline is not None:
        both = ~np.isnan(values) & ~np.isnan(baseline)
        v, c = values[both], baseline[both]
        improve, degrade = float(((1 - c) * v).sum()), float((c * (1 - v)).sum())
        gain = (improve - degrade) / int(both.sum()) if both.any() else math.nan
    error = math.sqrt(accuracy * (1 - accuracy) / k) if k else math.nan
    parsed = k / (n - failed) if n > failed else math.nan
    return SummaryRow(setting, n, k, accuracy, error, parsed, failed, gain, improve, degrade)


def print_cells(
    cells: Sequence[CellOutcomes], audit: Audit, console: Console | None = None
) -> None:
    """Print one table for each cell (a model on a benchmark).

    Names come from configurations and files, so markup in names is not interpreted.
    """
    console = console or Console(highlight=False, width=None)
    for cell in cells:
        chance = chance_level(cell.n_options)
        title = f"{cell.model} on {cell.benchmark}: n={cell.n}, chance {chance:.3f}, {cell.reading}"
        title += f", {cell.draws} draws" if cell.draws else ""
        table = Table(title=Text(title), title_justify="left", box=None, pad_edge=False)
        table.add_column("arm")
        level = audit.schema.level[0]  # only the first letter, since the table must be narrow
        for heading in (
            level,
            "rep",
            "accuracy",
            "s.e.",
            "gain",
            "improve",
            "degrade",
            "parsed",
            "errors",
        ):
            table.add_column(heading, justify="right")
        for row in summarise(cell, audit.roles):
            s = row.setting
            if not row.n:  # no question was asked in this setting
                continue
            moved = (
                ("",) * 3
                if row.gain is None
                else (f"{row.gain:+.3f}", f"{row.improve:.3g}", f"{row.degrade:.3g}")
            )
            shares = (
                f"{row.accuracy:.3f}",
                f"{row.standard_error:.3f}",
                *moved,
                f"{row.parse_rate:.3f}",
            )
            # A share is NaN if no answer could be parsed.
            known = []
            for share in shares:
                known.append("–" if "nan" in share else share)
            table.add_row(str(s.arm), str(s.level), str(s.replicate), *known, str(row.errors))
        console.print(table)


def conclude(
    config: RunConfig, run_dir: Path, failed: Mapping[str, str], paths: ReportPaths | None
) -> int:
    """Print the end of a run, and return its exit code.

    The text states the paths, the failed models, the verdict, the advice and the next command.
    `paths` holds the paths of the report; None if no report was requested.
    """
    code, config.run_dir = 0, str(run_dir)  # `audit.run` continues from this result
    print(f"shards   {named(run_dir / 'shards')}\nmanifest {named(run_dir / 'manifest.json')}")
    print_failed(failed)
    if paths is not None:
        from audit.registry import finish

        print(f"report   {named(paths.html)}", flush=True)
        finish.finished(config.registry, run_dir)
        code = print_end(paths.content, [run_dir])
    if failed:
        return 1
    return code if config.gate else 0


def print_end(content: Document, run_dirs: Sequence[Path]) -> int:
    """Print each verdict in plain words, with its figures and advice, and return the exit code.

    For a single run, the next command is printed too.
    """
    from audit.governance.ruling import print_content
    from audit.judging.together import JointVerdict
    from audit.shards.manifest import MANIFEST, Manifest

    code = print_content(content)
    if (
        len(run_dirs) == 1
        and not isinstance(content, JointVerdict)
        and (run_dirs[0] / MANIFEST).is_file()
    ):
        manifest = plain(asdict(Manifest.load(run_dirs[0])))
        if short := out_of_reach([(content, manifest)]):
            print(f"note: {one_line(short)}")
        command = next_command(content, manifest, named(run_dirs[0]))
        if command:
            print(f"next: {one_line(command)}", flush=True)
    return code


def print_failed(failed: Mapping[str, str]) -> None:
    """Print the models that did not finish; `failed` maps the name of each such model to the
    reason.
    """
    for name, why in failed.items():
        refused(f"model {name} failed: {why}", lines)


if TYPE_CHECKING:
    # For each audit, the pair of its verdict and its manifest.
    Parts = Sequence[tuple[AuditVerdict[Any], Mapping[str, Any]]]
# These options describe the audited model, so the command of another audit of this model repeats
# them.
_SUBJECT = ("hydra", "model", "benchmark", "endpoint", "model_id", "data")


def next_command(content: AuditVerdict[Any], manifest: Mapping[str, Any], run_dir: str) -> str:
    """Return the command to type after a run of one audit; "" if no command fits.

    The returned command depends on the result of the run:

    - Rows are missing: the same command again.
    - The run had too few questions: the same command with more questions.
    - The benchmark itself has too few questions: the command that plans the run.
    - The verdict is withheld: the command that follows the advice, or that opens the report.
    - In all other cases: the command that plans another audit.

    `manifest` is the run's manifest as JSON, and `run_dir` is the directory as a person types it.
    """
    typed, audit = manifest["config"].get("typed"), content.audit
    if typed is None:
        return ""
    words = _without(typed, "plan=")
    if not all(rows.complete for rows in content.rows):
        return _going_on(audit, words, manifest)
    if larger_one := _enlarged(audit, words, [(content, manifest)]):
        return larger_one
    verdicts = {cell.verdict for cell in content.cells}
    if verdicts & {"withheld", "underpowered"}:
        to_do = _mending(content, ("audit", audit, *words), manifest)
        return to_do or ("" if is_url(run_dir) else shlex.join(["audit", "open", run_dir]))
    others = ["perturb", "sweep"]
    if all(model["engine"] in LIKELIHOODS for model in manifest["models"].values()):
        others.insert(0, "memory")
    other = others[1] if others[0] == audit else others[0]
    same = []
    for word in words:
        if word.partition("=")[0].partition(".")[0] in _SUBJECT:
            same.append(word)
    return shlex.join(["audit", "plan", f"audit={other}", *same])


def _without(words: Sequence[str], *starts: str) -> list[str]:
    """Return the arguments of a command without those that begin with one of `starts`."""
    return [word for word in words if not word.startswith(starts)]


def _going_on(audit: str, words: Sequence[str], manifest: Mapping[str, Any]) -> str:
    """Return the command that continues the run, with a larger `cost.max` if the money was spent.

    Return "" if the canary (the check of the first answers) stopped the run, since the canary would
    stop the run again.
    """
    stopped = manifest["models_stopped"].values()
    if "canary" in set(map(itemgetter("code"), stopped)):
        return ""
    if not stopped:
        return shlex.join(["audit", audit, *words])
    most = max(map(itemgetter("cost_max"), stopped))
    return shlex.join(["audit", audit, *_without(words, "cost.max="), f"cost.max={most:g}"])


def _enlarged(audit: str, words: Sequence[str], parts: Parts) -> str:
    """Return the command that runs enough questions.

    If the benchmark has too few questions, return the command that plans a run of all its
    questions. Return "" if the run already has enough questions.
    """
    # The number of questions is planned for two replicates, so options that set one replicate are
    # removed.
    repeated = []
    for word in words:
        if word not in ("clean_replicates=1", "noisy_replicates=1"):
            repeated.append(word)
    more = more_questions(parts)
    if more is not None:
        return larger(("audit", audit, *repeated), "n", more)
    if not out_of_reach(parts):
        return ""
    design = _without(repeated, "n=", "run_dir=")
    return shlex.join(["audit", "plan", f"audit={audit}", *design, "n=all"])


def _mending(
    content: AuditVerdict[Any], command: Sequence[str], manifest: Mapping[str, Any]
) -> str:
    """Return the command that follows the advice of a withheld verdict.

    Return "" if a person must first read or correct something.
    """
    cells: list[Cell] = []
    to_do: set[str] = set()
    for cell in content.cells:
        if cell.verdict == "withheld":
            cells.append(cell)
            to_do.update(map(attrgetter("code"), cell.advice_codes))
    if to_do & {"gate_parseability", "mend_unparsed"} and any(map(_calls_failed, cells)):
        retry = "store.retry_errors=true"
        return "" if retry in command else shlex.join([*command, retry])
    if content.audit == "sweep" and "gate_noise_floor" in to_do:
        return larger(command, "seed", manifest["config"]["seed"] + 1)
    samples = manifest["benchmark"].values()
    if "ask_all" in to_do and any(sample["n"] < sample["n_distinct"] for sample in samples):
        return larger(command, "n", "all")
    return ""


def _calls_failed(cell: Cell) -> bool:
    for gate in cell.gates:
        for name, share in gate.numbers.items():
            if share and name.endswith("_error"):
                return True
    return False


def larger(command: Sequence[str], key: str, n: int | str) -> str:
    """Return the command with the option `key` set to `n`, such as a larger number of questions.

    If the command names a run directory, the returned command names another directory, since a
    directory holds the rows of one design.
    """

    def other(word: str) -> str:
        quote = word[-1] if word[-1] in "'\"" else ""  # the quotation mark that closes a path
        return f"{word.removesuffix(quote)}_2{quote}" if word.startswith("run_dir=") else word

    return shlex.join([*map(other, _without(command, f"{key}=")), f"{key}={n}"])


def more_questions(parts: Parts) -> int | None:
    """Return the number of questions with which the run would be large enough.

    Return None if no cell was too small, or if the benchmarks of the small cells have too few
    questions.
    """
    needed_counts = []
    for _, n, needed, available in _too_small(parts):
        if n < needed <= available:
            needed_counts.append(needed)
    return max(needed_counts, default=None)


def out_of_reach(parts: Parts) -> str:
    """Return one line of text if a benchmark has too few questions for a verdict; otherwise ""."""
    short = []
    for name, _, needed, available in _too_small(parts):
        if needed > available:
            short.append((needed, available, name))
    if not short:
        return ""
    needed, available, name = max(short)
    return (
        f"{name} has {available:,} questions in all, and a verdict needs about {needed:,}: n=all is likely too few. "
        "Take a larger benchmark, or look for a larger effect (verdict.effect_of_interest)."
    )


def _too_small(parts: Parts) -> Iterator[tuple[str, int, int, int]]:
    """Yield the numbers of questions of every cell with too few questions.

    Each entry is (benchmark, questions asked, questions needed, questions available). Cells whose
    needed number of questions is unknown are left out.
    """
    for content, manifest in parts:
        for cell in content.cells:
            n, needed = sizes_of(cell)
            of = manifest["benchmark"].get(cell.benchmark, {})
            if cell.verdict == "underpowered" and n and needed:
                yield (
                    cell.benchmark,
                    of.get("n", int(n)),
                    int(needed),
                    of.get("n_distinct", int(needed)),
                )
