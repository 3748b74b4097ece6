"""Show the runs of different audits on the same model and benchmark on one page.

Each audit's own report is built beside the page, which links to it.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from audit.config.audits import audit_of, every_audit, part_of
from audit.core.errors import ConfigError
from audit.core.exits import FAILED, printable
from audit.core.package_data import shipped_table
from audit.judging import forms
from audit.judging.decision import (
    SHOWN,
    CellRuling,
    Decision,
    Ruling,
    document_of,
    read_document,
    rule,
    words_of,
)
from audit.judging.document import AuditVerdict, Cell
from audit.judging.instrument import KINDS, TITLES, Finding, Seen, finding, looked_for, synthesis
from audit.judging.result import json_ready, json_text
from audit.judging.together import Entry, JointVerdict
from audit.judging.vocabulary import subtitle, word_of
from audit.report.build import ReportPaths
from audit.report.page import NOT_CALIBRATED, Errors, Mark, render_page, words
from audit.shards.files import make_folder, write_file
from audit.shards.manifest import MANIFEST

SCHEMA = "joint verdict"
SCHEMA_VERSION = "2.2"
SUITE_TABLE = "calibration_suite.json"
# file of the figure that shows the "score without memory", drawn by the audit that estimates this
# score
PICTURE = "score_without_memory.svg"


def joint_report(
    run_dirs: Sequence[Path],
    out: Path,
    options: Mapping[str, Any],
    suite: Callable[[Mapping[str, AuditVerdict[Any]]], Mapping[str, Any]] | None = None,
    homes: Mapping[str, Path] | None = None,
) -> ReportPaths:
    """Build the report of every audit, and one page that summarises all reports.

    Parameters
    ----------
    run_dirs : sequence of Path
        Directories of the runs.
    out : Path
        The folder of the page.
    options : mapping
        Options of `audit report`. Only the option `seed` may be set.
    suite : callable or None
        Returns the section of the page on the suite. Its argument maps each audit to its verdict.
        With a suite, the audits need not share a model and benchmark.
    homes : mapping or None
        Maps each audit to the folder of its report. The default is `out`/<audit>.

    Returns
    -------
    ReportPaths
        The paths of the joint report.

    Raises
    ------
    ConfigError
        If no two audits share a model and benchmark, or if a model was run in two revisions.
    """
    by_audit: dict[str, list[Path]] = {}
    for run_dir in run_dirs:
        by_audit.setdefault(audit_of(run_dir).name, []).append(run_dir)
    for name, value in sorted(options.items()):
        if name != "seed" and value is not None:
            option = name.replace("_", "-")
            raise ConfigError(
                f"--{option} is an option of one audit. Use it to build the report of one run."
            )
    homes = homes or {audit: out / audit for audit in by_audit}
    verdicts: dict[str, Any] = {}
    links: dict[str, str] = {}
    tables: list[Path] = []
    figures: list[Path] = []
    incomplete: list[Any] = []
    for audit, dirs in by_audit.items():
        build = part_of(audit, "report").REPORT.of_runs
        paths = build(dirs, homes[audit], {"seed": options.get("seed")})
        verdicts[audit] = paths.content
        links[audit] = Path(os.path.relpath(paths.html, out)).as_posix()
        tables += paths.tables
        figures += paths.figures
        incomplete += paths.incomplete
    joint = content(verdicts, suite(verdicts) if suite else None)
    make_folder(out)
    for folder in _left(out, homes.values()):
        shutil.rmtree(folder)
    html = out / "report.html"
    drawn = {}
    for path in figures:
        if path.name == PICTURE:
            drawn[path.stem] = path.read_text(encoding="utf-8")
    write_file(html, printable(page(joint, links, drawn)).encode("utf-8", "backslashreplace"))
    write_file(out / "verdict.json", json_text(joint.plain).encode())
    return ReportPaths(
        html, out / "verdict.json", tuple(tables), tuple(figures), tuple(incomplete), joint
    )


def _left(out: Path, homes: Iterable[Path]) -> list[Path]:
    """Return the folders of audits that only an earlier joint report includes.

    These folders must be removed. Otherwise they would look like parts of the new report.
    """
    try:
        earlier = read_document(out / "verdict.json")
    except (OSError, ConfigError):  # A missing or damaged report has no folders to remove.
        return []
    if not isinstance(earlier, JointVerdict):
        return []
    parts = {out / audit for audit in every_audit() if audit in earlier.audits} - set(homes)
    # A folder with a manifest holds a run, and is never deleted.
    return sorted(part for part in parts if part.is_dir() and not any(part.rglob(MANIFEST)))


def content(
    verdicts: Mapping[str, AuditVerdict[Any]], suite: Mapping[str, Any] | None = None
) -> JointVerdict:
    """Join the verdicts of all audits, with the findings on each model and benchmark.

    Parameters
    ----------
    verdicts : mapping
        Maps each audit to its verdict.
    suite : mapping or None
        Content of the section on the suite; None without a suite.

    Returns
    -------
    JointVerdict
        The content of verdict.json.

    Raises
    ------
    ConfigError
        If the runs share no model and benchmark, or if a model was run in two revisions.
    """
    seen: dict[tuple[str, str], list[Finding]] = {}
    judged: dict[tuple[str, str], list[forms.Judged]] = {}
    for audit, verdict in verdicts.items():
        vocabulary = part_of(audit, "vocabulary")
        for cell in verdict.cells:
            key = cell.model, cell.benchmark
            alpha = float(verdict.thresholds.get("alpha", 0.05))
            f = finding(vocabulary.INSTRUMENT, cell, word_of(vocabulary.VERDICTS, cell), alpha)
            seen.setdefault(key, []).append(f)
            if audit in forms.AUDITS:
                examined = {kind for kind in f.sees if f.kinds[kind] != Seen.COULD_NOT_TELL}
                record = forms.Judged(audit, cell, frozenset(examined), verdict.thresholds)
                judged.setdefault(key, []).append(record)
    _check(verdicts, seen, in_suite=suite is not None)
    joint: list[dict[str, Any]] = []
    cells = list(chain.from_iterable(verdict.cells for verdict in verdicts.values()))
    for (model, benchmark), findings in sorted(seen.items()):
        scope = forms.scope(judged.get((model, benchmark), []), shipped_table(SUITE_TABLE))
        sentences = []
        for of_model, on_benchmark, sentence in _without_memory(cells):
            if (of_model, on_benchmark) == (model, benchmark):
                sentences.append(sentence)
        sentences += synthesis(findings)
        sentences += forms.sentences(scope) if scope else ()
        row = {"model": model, "benchmark": benchmark, "instruments": findings}
        joint.append({**row, "together": tuple(sentences), "forms": scope})
    section = {} if suite is None else {"suite": dict(suite)}
    parts = {audit: verdict.plain for audit, verdict in verdicts.items()}
    head = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION}
    document = document_of(json_ready({**head, **section, "joint": joint, "audits": parts}))
    assert isinstance(document, JointVerdict)  # noqa: S101 - narrows the type for mypy
    return document


def _without_memory(cells: Iterable[Cell]) -> list[tuple[str, str, str]]:
    """Return (model, benchmark, sentence) for each estimated "score without memory"."""
    return [(c.model, c.benchmark, c.without_memory.sentence) for c in cells if c.without_memory]


def _check(
    verdicts: Mapping[str, AuditVerdict[Any]],
    seen: Mapping[tuple[str, str], Sequence[Finding]],
    *,
    in_suite: bool,
) -> None:
    """Raise ConfigError if the runs share no model and benchmark, or a model has two revisions.

    If `in_suite` is true, the runs need not share a model and benchmark.
    """
    shared = False
    for findings in seen.values():
        shared |= len({finding.audit for finding in findings}) > 1
    if not in_suite and not shared:
        cells = "; ".join(f"{audit}: {_cells_of(verdict)}" for audit, verdict in verdicts.items())
        raise ConfigError(
            f"These runs share no model and benchmark ({cells}). Build a report for each run."
        )
    revisions: dict[tuple[str, str], set[str]] = {}
    for run in chain.from_iterable(verdict.runs for verdict in verdicts.values()):
        for entry in run.models:
            revisions.setdefault((entry.model, entry.benchmark), set()).add(entry.revision)
    for (model, benchmark), names in sorted(revisions.items()):
        if len(names) > 1:
            listed = ", ".join(sorted(names))
            raise ConfigError(
                f"{model} on {benchmark} was run in {len(names)} revisions: {listed}. Expected one."
            )


def _cells_of(verdict: AuditVerdict[Any]) -> str:
    cells = {f"{cell.model} on {cell.benchmark}" for cell in verdict.cells}
    return ", ".join(sorted(cells)) or "nothing"


Placed = tuple[str, str, Finding]  # model, benchmark, finding


def in_order(joint: Sequence[Entry]) -> list[Placed]:
    """Return the findings, sorted by model, then by audit, then by benchmark."""
    findings: list[Placed] = []
    for entry in joint:
        findings += [(entry.model, entry.benchmark, finding) for finding in entry.instruments]
    order = every_audit().index

    def place(placed: Placed) -> tuple[Any, ...]:
        model, benchmark, finding = placed
        return model, order(finding.audit), benchmark, finding.context

    return sorted(findings, key=place)


@dataclass(frozen=True)
class Looked:
    """Hold a table of the kinds of memory that each audit looked for in one model, and detected.

    Parameters
    ----------
    model : str
        The model's name.
    columns : tuple of (str, str)
        For each verdict, the name of its audit, and its benchmark if several benchmarks were
        audited (else "").
    rows : mapping
        Maps each kind of memory to one mark for each column. The last row summarises all kinds.
    """

    model: str
    columns: tuple[tuple[str, str], ...]
    rows: Mapping[str, tuple[Seen, ...]]


def matrices(findings: Sequence[Placed]) -> list[Looked]:
    """Return a table of detected kinds of memory for each model.

    A table has a row for each kind of memory and a column for each audit.
    """
    by_model: dict[str, list[tuple[str, Finding]]] = {}
    for model, benchmark, entry in findings:
        by_model.setdefault(model, []).append((benchmark, entry))
    made = []
    for model, pairs in by_model.items():
        benchmarks, entries = zip(*pairs, strict=True)
        several = len(set(benchmarks)) > 1
        titles = map(_column, entries)
        subjects = benchmarks if several else [""] * len(entries)
        columns = tuple(zip(titles, subjects, strict=True))
        made.append(Looked(model, columns, looked_for(entries)))
    return made


def why(ruling: Ruling, names: Mapping[str, str]) -> str:
    """Explain the decision of the gate in one or two sentences.

    Parameters
    ----------
    ruling : Ruling
        Decision of the gate.
    names : mapping
        Maps each audit to its name in the text.

    Returns
    -------
    str
        One or two sentences.
    """
    if ruling.exit_code == FAILED:
        return (
            "Answers are missing, or an audit measured nothing. The other results decide nothing."
        )
    deciding = [cell for cell in ruling.cells if cell.decision == ruling.decision]
    if ruling.decision == Decision.PASS:
        sentence = (
            f"No audit found anything. The pass covers {ruling.scope or 'no form of memory'}."
        )
        if "not examined" in ruling.scope:
            sentence += " Not examined means that no audit here is known to find it in 80 % of the models that have it."
        return sentence
    if not deciding:  # every audit passes, but a further requirement of the suite is not met
        return ruling.rules[-1]
    audits = dict.fromkeys(f"{_audit_of(cell, names)} ({cell.plain})" for cell in deciding)
    finding = f"{len(deciding)} of {len(ruling.cells)} verdicts {_PHRASES[ruling.decision]}"
    sentences = [f"{finding}: {', '.join(audits)}."]
    if ruling.decision != Decision.NO_DECISION:
        sentences += [cell.headline for cell in deciding[:2]]
    return " ".join(sentences)


def _audit_of(cell: CellRuling, names: Mapping[str, str]) -> str:
    """Return the name of the audit that gave a verdict.

    The name of the context is added if parts of the benchmark are judged separately.
    """
    return f"{names[cell.audit]}, {cell.context}" if cell.context else names[cell.audit]


_PHRASES = {
    Decision.BLOCK: "found something",
    Decision.REVIEW: "saw something that another cause may explain",
    Decision.NO_DECISION: "could not tell",
}
_MARKS = {  # the glyph and the CSS class (colour) of each mark
    Seen.SEEN: ("▲", "bad"),
    Seen.SUGGESTED: ("△", "warn"),
    Seen.CAUSE_UNKNOWN: ("▼", "warn"),
    Seen.NOT_SEEN: ("●", "good"),
    Seen.COULD_NOT_TELL: ("✚", "mute"),
    Seen.BLIND: ("–", "mute"),
    Seen.NOT_RUN: ("○", "mute"),
}


def _column(entry: Finding) -> str:
    """Return a column's title, such as "Memory audit" or "Construct-validity audit (fact)"."""
    name = entry.name.removeprefix("the ")
    return name[0].upper() + name[1:]


def page(
    joint: JointVerdict,
    links: Mapping[str, str] | None = None,
    drawn: Mapping[str, str] | None = None,
) -> str:
    """Return the joint page as HTML: the decision of the gate, then the evidence for this decision.

    Parameters
    ----------
    joint : JointVerdict
        The joined verdicts of all audits.
    links : mapping or None
        Maps each audit to the address of its page. The default is a page in a folder with the
        audit's name.
    drawn : mapping or None
        Maps the name of each figure of the audits to its SVG document.

    Returns
    -------
    str
        The HTML document.
    """
    # This import loads matplotlib, which `audit gate` does not need.
    from audit.report.canvas import inline_svg

    cells = _by_place(joint)
    rows = list(chain.from_iterable(verdict.rows for verdict in joint.audits.values()))
    links = links or {audit: f"{audit}/report.html" for audit in joint.audits}
    findings = in_order(joint.joint)
    looked, ruling, suite = matrices(findings), rule(joint), joint.suite
    names = {audit: part_of(audit, "vocabulary").INSTRUMENT.name for audit in joint.audits}
    who = looked[0].model if len(looked) == 1 else f"{len(looked)} models"
    steps = _steps(ruling, names)
    figures = {}
    for name, svg in (drawn or {}).items():
        figures[name] = inline_svg(svg, name, words(name))
    return render_page(
        "report/joint.html.j2",
        rows=rows,
        title=f"Suite {suite.audit_suite_id}: {who}"
        if suite
        else f"{len(names)} audits together: {who}",
        ruling=ruling,
        decision=SHOWN[ruling.decision],
        why=why(ruling, names),
        steps=steps,
        marks=_marks(findings, cells, links),
        without=_without_memory(cells.values()),
        figures=figures,
        looked=looked,
        joint=joint.joint,
        findings=findings,
        cells=cells,
        kinds=KINDS,
        titles=TITLES,
        seen=_MARKS,
        errors=_errors(findings, cells, joint.joint),
        sensitivity=_sensitivity(findings),
        suite=suite,
        links=links,
        lookers=_lookers(),
    )


def _by_place(joint: JointVerdict) -> dict[tuple[str, str, str, str], Cell]:
    """Map each (audit, model, benchmark, context) to its cell."""
    by_place = {}
    for audit, verdict in joint.audits.items():
        for cell in verdict.cells:
            by_place[audit, cell.model, cell.benchmark, cell.context or ""] = cell
    return by_place


def _lookers() -> dict[str, list[str]]:
    """Map each kind of memory to the names of the audits that can detect this kind."""
    lookers: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for audit in every_audit():
        instrument = part_of(audit, "vocabulary").INSTRUMENT
        for kind in KINDS:
            if kind in instrument.sees:
                lookers[kind].append(instrument.name)
    return lookers


def _steps(ruling: Ruling, names: Mapping[str, str]) -> dict[tuple[str, str], None]:
    """Return pairs (name of the audit, recommended first step).

    Only verdicts that determine the gate's decision are included.
    """
    steps: dict[tuple[str, str], None] = {}
    for cell in ruling.cells:
        if cell.decision == ruling.decision != Decision.PASS and cell.what_to_do:
            steps[_audit_of(cell, names), cell.what_to_do[0]] = None
    return steps


def _errors(
    findings: Sequence[Placed],
    cells: Mapping[tuple[str, str, str, str], Cell],
    joint: Sequence[Entry],
) -> list[Errors]:
    """Return the false positive rates on clean models, for each audit and for all together."""
    errors: dict[tuple[str, str], Errors] = {}
    uncalibrated: dict[str, dict[str, None]] = {}
    for model, benchmark, entry in findings:
        calibration = cells[entry.audit, model, benchmark, entry.context].calibration
        sentence = calibration.sentence if calibration else NOT_CALIBRATED
        who, rate = _column(entry), entry.measured.false_alarms
        if rate is None:
            uncalibrated.setdefault(sentence, {})[who] = None
        else:
            row = (f"{who}: a clean model is accused", rate, None)
            errors[who, sentence] = Errors(who, (row,), sentence)
    for sentence, names in uncalibrated.items():
        errors["", sentence] = Errors(", ".join(names), (), sentence)
    for joint_entry in joint:
        if joint_entry.forms is not None and joint_entry.forms.error is not None:
            share = joint_entry.forms.error.any_finding["clean"].share
            row = ("All audits together: a clean model is accused", share, None)
            errors["", str(share)] = Errors("", (row,), "")
    return list(errors.values())


def _sensitivity(findings: Sequence[Placed]) -> list[str]:
    """Return sentences on how often the audits detect planted memory.

    Each sentence begins with the names of the audits to which it applies.
    """
    audits: dict[str, list[str]] = {}
    for _, _, entry in findings:
        audits.setdefault(entry.sensitivity, []).append(entry.name)
    sentences = []
    for sentence, names in audits.items():
        listed = ", ".join(dict.fromkeys(names))
        sentences.append(f"{listed[0].upper()}{listed[1:]}: {sentence}")
    return sentences


def _marks(
    findings: Sequence[Placed],
    cells: Mapping[tuple[str, str, str, str], Cell],
    links: Mapping[str, str],
) -> list[Mark]:
    """Return the entries at the top of the page, one for each verdict.

    An entry names the benchmark if an audit has several verdicts on a model.
    """
    several = len({(model, _column(entry)) for model, _, entry in findings}) < len(findings)
    marks = []
    for model, benchmark, entry in findings:
        cell, known = cells[entry.audit, model, benchmark, entry.context], words_of(entry.audit)
        who, note = (f"{model} on {benchmark}", "") if several else (model, f"on {benchmark}")
        shown = cell.sound and entry.measured.supports(entry.grade)
        figure = (str(entry.measured) if shown else "") or subtitle(known, cell)
        text = "; ".join(filter(None, (cell.watermark, note, figure)))
        marks.append(Mark(_column(entry), who, word_of(known, cell), text, links[entry.audit]))
    return marks
