"""Runs of one model and benchmark by different audits on one page. Each audit's own report is built beside it and
linked."""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from audit.audits import audit_of, every_audit, part_of
from audit.decision import SHOWN, CellRuling, Decision, Ruling, document_of, read_document, rule, words_of
from audit.errors import ConfigError
from audit.exits import FAILED, printable
from audit.report.build import ReportPaths
from audit.report.page import Mark, render_page, words
from audit.shards.files import make_folder, write_file
from audit.shards.manifest import MANIFEST
from audit.verdict import forms
from audit.verdict.document import AuditVerdict, Cell
from audit.verdict.instrument import KINDS, TITLES, Finding, Seen, finding, looked_for, synthesis
from audit.verdict.result import json_ready, json_text
from audit.verdict.shipped import shipped_table
from audit.verdict.together import Entry, JointVerdict
from audit.verdict.vocabulary import subtitle, word_of

SCHEMA = "joint verdict"
SCHEMA_VERSION = "2.2"
SUITE_TABLE = "calibration_suite.json"
PICTURE = "score_without_memory.svg"  # of the audit that estimates it


def joint_report(
    run_dirs: Sequence[Path],
    out: Path,
    asked: Mapping[str, Any],
    suite: Callable[[Mapping[str, AuditVerdict[Any]]], Mapping[str, Any]] | None = None,
    homes: Mapping[str, Path] | None = None,
) -> ReportPaths:
    """Build every audit's report, and the page of all of them into `out`.

    suite: what a suite says of the verdicts by audit; its audits need have no model and benchmark in common. homes:
    where each audit's own report goes; `out`/<audit> by default. ConfigError where no model and benchmark was seen by
    two audits, or in two revisions.
    """
    by_audit: dict[str, list[Path]] = {}
    for run_dir in run_dirs:
        by_audit.setdefault(audit_of(run_dir).name, []).append(run_dir)
    if own := sorted(name for name, value in asked.items() if name != "seed" and value is not None):
        raise ConfigError(f"--{own[0].replace('_', '-')} belongs to one audit. Build that run's own report with it.")
    homes = homes or {audit: out / audit for audit in by_audit}
    made = {
        audit: part_of(audit, "report").report_runs(dirs, homes[audit], {"seed": asked.get("seed")})
        for audit, dirs in by_audit.items()
    }
    verdicts = {audit: paths.content for audit, paths in made.items()}
    whole = content(verdicts, suite(verdicts) if suite else None)
    make_folder(out)
    for folder in _left(out, homes.values()):
        shutil.rmtree(folder)
    html = out / "report.html"
    links = {audit: Path(os.path.relpath(paths.html, out)).as_posix() for audit, paths in made.items()}
    tables, figures, incomplete = (
        tuple(chain.from_iterable(getattr(paths, kind) for paths in made.values()))
        for kind in ("tables", "figures", "incomplete")
    )
    drawn = {path.stem: path.read_text(encoding="utf-8") for path in figures if path.name == PICTURE}
    write_file(html, printable(page(whole, links, drawn)).encode("utf-8", "backslashreplace"))
    write_file(out / "verdict.json", json_text(whole.plain).encode())
    return ReportPaths(html, out / "verdict.json", tables, figures, incomplete, whole)


def _left(out: Path, homes: Iterable[Path]) -> list[Path]:
    """Parts of the joint report that is in this folder, of audits that the new one has not: nobody would know their
    pages from its own."""
    try:
        earlier = read_document(out / "verdict.json")
    except (OSError, ConfigError):  # there is none, or a damaged one, which is written again
        return []
    if not isinstance(earlier, JointVerdict):
        return []
    parts = {out / audit for audit in every_audit() if audit in earlier.audits} - set(homes)
    return sorted(part for part in parts if part.is_dir() and not any(part.rglob(MANIFEST)))  # never a run


def content(verdicts: Mapping[str, AuditVerdict[Any]], suite: Mapping[str, Any] | None = None) -> JointVerdict:
    """Return every audit's verdict, and for each model and benchmark the findings and the sentences. suite: what a
    suite says of them."""
    seen: dict[tuple[str, str], list[Finding]] = {}
    judged: dict[tuple[str, str], list[forms.Judged]] = {}
    for audit, verdict in verdicts.items():
        told = part_of(audit, "vocabulary")
        for cell in verdict.cells:
            key = cell.model, cell.benchmark
            alpha = float(verdict.thresholds.get("alpha", 0.05))
            f = finding(told.INSTRUMENT, cell, word_of(told.VERDICTS, cell), alpha)
            seen.setdefault(key, []).append(f)
            if audit in forms.AUDITS:
                examined = frozenset(kind for kind in f.sees if f.kinds[kind] != Seen.COULD_NOT_TELL)
                judged.setdefault(key, []).append(forms.Judged(audit, cell, examined, verdict.thresholds))
    _check(verdicts, seen, apart=suite is not None)
    joint = []
    for (model, benchmark), some in sorted(seen.items()):
        scope = forms.scope(judged.get((model, benchmark), []), shipped_table(SUITE_TABLE))
        cells = [cell for verdict in verdicts.values() for cell in verdict.cells]
        without = [s for *key, s in _without_memory(cells) if key == [model, benchmark]]
        said = (*without, *synthesis(some), *(forms.sentences(scope) if scope else ()))
        joint.append({"model": model, "benchmark": benchmark, "instruments": some, "together": said, "forms": scope})
    own = {} if suite is None else {"suite": dict(suite)}
    parts = {audit: verdict.plain for audit, verdict in verdicts.items()}
    head = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION}
    document = document_of(json_ready({**head, **own, "joint": joint, "audits": parts}))
    assert isinstance(document, JointVerdict)  # noqa: S101 - narrows the type for mypy
    return document


def _without_memory(cells: Iterable[Cell]) -> list[tuple[str, str, str]]:
    """(model, benchmark, what its score would be without memory), of the audit that estimates it."""
    return [(c.model, c.benchmark, c.without_memory.sentence) for c in cells if c.without_memory]


def _check(
    verdicts: Mapping[str, AuditVerdict[Any]], seen: Mapping[tuple[str, str], Sequence[Finding]], *, apart: bool
) -> None:
    """apart: no two audits need have seen the same model and benchmark."""
    if not apart and not any(len({f.audit for f in found}) > 1 for found in seen.values()):
        each = "; ".join(
            f"{audit}: {', '.join(sorted({f'{c.model} on {c.benchmark}' for c in v.cells})) or 'nothing'}"
            for audit, v in verdicts.items()
        )
        raise ConfigError(f"These runs share no model and benchmark ({each}). Report them one by one.")
    revisions: dict[tuple[str, str], set[str]] = {}
    for verdict in verdicts.values():
        for one in (model for run in verdict.runs for model in run.models):
            revisions.setdefault((one.model, one.benchmark), set()).add(one.revision)
    for (model, benchmark), found in sorted(revisions.items()):
        if len(found) > 1:
            said = ", ".join(sorted(found))
            raise ConfigError(f"{model} on {benchmark} was run in {len(found)} revisions: {said}. Expected one.")


Said = tuple[str, str, Finding]  # model, benchmark, finding


def in_order(joint: Sequence[Entry]) -> list[Said]:
    """Return every finding: by model, in the order of the audits, then by benchmark."""
    found = [(one.model, one.benchmark, f) for one in joint for f in one.instruments]
    order = every_audit().index
    return sorted(found, key=lambda one: (one[0], order(one[2].audit), one[1], one[2].context))


@dataclass(frozen=True)
class Looked:
    """The matrix of one model. columns: (audit, on what) of each verdict; rows: kind -> its marks, the last of all."""

    model: str
    columns: tuple[tuple[str, str], ...]
    rows: Mapping[str, tuple[Seen, ...]]


def matrices(said: Sequence[Said]) -> list[Looked]:
    """What was looked for and seen, a matrix a model."""
    made = []
    for model in dict.fromkeys(model for model, _, _ in said):
        own = [(benchmark, found) for name, benchmark, found in said if name == model]
        several = len({benchmark for benchmark, _ in own}) > 1
        columns = tuple((_column(found), benchmark if several else "") for benchmark, found in own)
        made.append(Looked(model, columns, looked_for([found for _, found in own])))
    return made


def why(ruling: Ruling, names: Mapping[str, str]) -> str:
    """Why the decision is what it is, in a sentence or two. names: of the audits."""
    if ruling.exit_code == FAILED:
        return "Answers are missing, or an audit measured nothing. Nothing follows from what is there."
    own = [cell for cell in ruling.cells if cell.decision == ruling.decision]
    if ruling.decision == Decision.PASS:
        blind = " Not examined: no audit here is known to find it in 80 % of models that have it."
        covers = f"The pass covers {ruling.scope or 'no form of memory'}."
        return f"No audit found anything. {covers}{blind * ('not examined' in ruling.scope)}"
    if not own:  # every audit passes, and the suite asks for more
        return ruling.rules[-1]
    audits = list(dict.fromkeys(f"{_of(cell, names)} ({cell.plain})" for cell in own))
    said = f"{len(own)} of {len(ruling.cells)} verdicts {_SAID[ruling.decision]}: {', '.join(audits)}."
    if ruling.decision == Decision.NO_DECISION:
        return said
    return " ".join([said, *(cell.headline for cell in own[:2])])


def _of(cell: CellRuling, names: Mapping[str, str]) -> str:
    """The audit of a verdict, with its context where the benchmark has several."""
    return f"{names[cell.audit]}, {cell.context}" if cell.context else names[cell.audit]


_SAID = {
    Decision.BLOCK: "found something",
    Decision.REVIEW: "saw something that another cause may explain",
    Decision.NO_DECISION: "could not tell",
}
_MARKS = {  # (glyph, tone)
    Seen.SEEN: ("▲", "bad"), Seen.SUGGESTED: ("△", "warn"), Seen.CAUSE_UNKNOWN: ("▼", "warn"),
    Seen.NOT_SEEN: ("●", "good"),
    Seen.COULD_NOT_TELL: ("✚", "mute"), Seen.BLIND: ("–", "mute"), Seen.NOT_RUN: ("○", "mute"),
}  # fmt: skip


def _column(found: Finding) -> str:
    """Such as "Memory audit", or "Construct-validity audit (fact)"."""
    name = found.name.removeprefix("the ")
    return name[0].upper() + name[1:]


def page(whole: JointVerdict, links: Mapping[str, str] | None = None, drawn: Mapping[str, str] | None = None) -> str:
    """Return the page as text: the gate's decision, then what it rests on. links: audit -> its own page; in a folder of
    its name. drawn: figures of the audits, name -> SVG document."""
    from audit.report.canvas import inline_svg  # here: the gate needs no matplotlib

    cells = _by_place(whole)
    rows = [row for verdict in whole.audits.values() for row in verdict.rows]
    links = links or {audit: f"{audit}/report.html" for audit in whole.audits}
    said = in_order(whole.joint)
    looked, ruling, suite = matrices(said), rule(whole), whole.suite
    names = {audit: part_of(audit, "vocabulary").INSTRUMENT.name for audit in whole.audits}
    who = looked[0].model if len(looked) == 1 else f"{len(looked)} models"
    return render_page(
        "report/joint.html.j2", rows=rows,
        title=f"Suite {suite.audit_suite_id}: {who}" if suite else f"{len(names)} audits together: {who}",
        ruling=ruling, decision=SHOWN[ruling.decision], why=why(ruling, names),
        steps=_steps(ruling, names),
        marks=_marks(said, cells, links), without=_without_memory(cells.values()),
        figures={name: inline_svg(svg, name, words(name)) for name, svg in (drawn or {}).items()}, looked=looked,
        joint=whole.joint, said=said, cells=cells, kinds=KINDS, titles=TITLES, seen=_MARKS,
        sensitivity=_sensitivity(said), suite=suite, links=links, lookers=_lookers(),
    )  # fmt: skip


def _by_place(whole: JointVerdict) -> dict[tuple[str, str, str, str], Cell]:
    """Return the cells of every audit by (audit, model, benchmark, context)."""
    every = [(audit, cell) for audit, verdict in whole.audits.items() for cell in verdict.cells]
    return {(audit, cell.model, cell.benchmark, cell.context or ""): cell for audit, cell in every}


def _lookers() -> dict[str, list[str]]:
    """Return the audits that see each kind of memory."""
    instruments = [part_of(audit, "vocabulary").INSTRUMENT for audit in every_audit()]
    return {kind: [one.name for one in instruments if kind in one.sees] for kind in KINDS}


def _steps(ruling: Ruling, names: Mapping[str, str]) -> dict[tuple[str, str], None]:
    """Return what to do first about each verdict that decides, with whose it is."""
    deciding = [cell for cell in ruling.cells if cell.decision == ruling.decision != Decision.PASS]
    return dict.fromkeys((_of(cell, names), cell.what_to_do[0]) for cell in deciding if cell.what_to_do)


def _sensitivity(said: Sequence[Said]) -> list[str]:
    """Each sentence once, after the audits that have it."""
    own: dict[str, list[str]] = {}
    for _, _, found in said:
        own.setdefault(found.sensitivity, []).append(found.name)
    whose = ((", ".join(dict.fromkeys(names)), sentence) for sentence, names in own.items())
    return [f"{names[0].upper()}{names[1:]}: {sentence}" for names, sentence in whose]


def _marks(
    said: Sequence[Said], cells: Mapping[tuple[str, str, str, str], Cell], links: Mapping[str, str]
) -> list[Mark]:
    """The decision strip: a row a model; a row a model and benchmark where one audit saw several benchmarks."""
    apart = len({(model, _column(found)) for model, _, found in said}) < len(said)
    marks = []
    for model, benchmark, found in said:
        cell, known = cells[found.audit, model, benchmark, found.context], words_of(found.audit)
        who, note = (f"{model} on {benchmark}", "") if apart else (model, f"on {benchmark}")
        figure = (str(found.measured) if cell.sound else "") or subtitle(known, cell)
        said_of_it = "; ".join(filter(None, (cell.watermark, note, figure)))
        marks.append(Mark(_column(found), who, word_of(known, cell), said_of_it, links[found.audit]))
    return marks
