"""Derive a ruling from a verdict.json: pass, review, block or no decision, with an exit code."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit.config.audits import AUDITS, every_audit, part_of
from audit.core.errors import ConfigError
from audit.core.exits import FAILED
from audit.core.guarded_files import read_json
from audit.core.records import CellRows
from audit.judging import forms
from audit.judging.document import AuditVerdict, Cell
from audit.judging.ladder import Decision as Decision
from audit.judging.ladder import Grade
from audit.judging.result import Status
from audit.judging.together import Document, Entry, JointVerdict, SuiteRules, parse, parts_of
from audit.judging.vocabulary import VerdictWord, subtitle

# Order of the decisions in a panel, the worst first. "No decision" is worse than "review".
# Otherwise a person's approval could let an audit pass that reached no conclusion.
WORST_FIRST = (Decision.BLOCK, Decision.NO_DECISION, Decision.REVIEW, Decision.PASS)
# Display text of each decision on a page, with the meaning of the decision for a job that calls
# `audit gate`.
SHOWN: dict[Decision, VerdictWord] = {
    Decision.BLOCK: VerdictWord(
        "Block",
        "▲",
        "^",
        "Do not deploy: something was found. The gate stops this model; only people can let it pass.",
        Grade.FOUND_STRONG,
    ),
    Decision.REVIEW: VerdictWord(
        "Review",
        "▼",
        "v",
        "Something stands out, and another cause is not excluded. The gate stops until a person has decided "
        "(audit review).",
        Grade.CAUSE_UNKNOWN,
    ),
    Decision.NO_DECISION: VerdictWord(
        "No decision",
        "✚",
        "P",
        "Neither approve nor reject the model: the evidence neither accuses nor clears it. The gate stops.",
        Grade.UNDECIDED,
    ),
    Decision.PASS: VerdictWord("Pass", "●", "o", "The gate lets this model pass.", Grade.CLEARED),
}


@dataclass(frozen=True)
class CellRuling:
    """Hold the ruling on one model and benchmark.

    Attributes
    ----------
    not_run : tuple of str
        Names of the controls that were not run.
    failed_gates : tuple of (str, str)
        Name of each failed gate, with the sentence that states its result.
    plain : str
        Short phrase that states the verdict in plain words.
    context : str
        Name of the context if the benchmark has several contexts; otherwise "".
    """

    audit: str
    model: str
    benchmark: str
    verdict: str
    grade: Grade
    decision: Decision
    headline: str
    reasons: tuple[str, ...] = ()
    what_to_do: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()
    failed_gates: tuple[tuple[str, str], ...] = ()
    plain: str = ""
    context: str = ""


@dataclass(frozen=True)
class Changed:
    """Hold a field whose value differs between a run and its sealed plan.

    A value is None if the run (or the plan) does not have the field.
    """

    field: str
    sealed: Any
    run: Any


@dataclass(frozen=True)
class Seal:
    """Hold the seal of an audit. A sealed plan is fixed and signed before the run
    (`governance.sealed`).

    Attributes
    ----------
    signer : str or None
        Identity of the signer; None if no signature was checked.
    sealed : str
        Time at which the plan was sealed.
    changed : tuple of Changed
        Fields in which the run differs from the plan.
    detects : tuple of mapping
        For each model and benchmark, the smallest effect that the design detects.
    """

    audit: str
    signer: str | None
    sealed: str
    changed: tuple[Changed, ...]
    detects: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Try:
    """Hold an earlier run of the same audit on the same model and benchmark.

    Attributes
    ----------
    decision : str
        Decision on the earlier run; "" if this run has no verdict.
    differs : tuple of str
        Fields of the configuration in which the earlier run differs from the run under judgement.
    """

    run: str
    started: str
    decision: str
    differs: tuple[str, ...]

    @property
    def same_design(self) -> bool:
        """Return whether the earlier run has the same design as the run under judgement.

        Two runs of the same design may differ in the questions that were drawn.

        Returns
        -------
        bool
            True if the configurations are equal, or differ only in the questions that were drawn.
        """
        return set(self.differs) <= {"questions"}


@dataclass(frozen=True)
class Ruling:
    """Hold the ruling of `audit gate` on a run.

    Parameters
    ----------
    run : str
        Name of the run.
    decision, exit_code
        Final decision and its exit code. Recorded decisions of people are taken into account.
    verdict_decision : Decision
        Decision that follows from the verdict, without the decisions of people.
    problem : str
        Reason why the run has no usable verdict; "" if it has a verdict.
    incomplete : tuple of CellRows
        Cells with missing answers.
    cells : tuple of CellRuling
        Ruling on each cell.
    together : tuple of str
        Sentences that combine the statements of several audits.
    rules : tuple of str
        Sentences on the applied rules:

        - the decision by the thresholds of a suite's source;
        - which thresholds decide;
        - which thresholds differ from the shipped thresholds.
    scope : str
        Forms of contamination that a pass of several audits excludes, as a phrase.
    decided : tuple of str
        Decisions of people, one sentence each.
    overridden : bool
        True if the run passes because of a person's decision.
    own_thresholds : tuple of str
        Sentences on thresholds that differ from the shipped thresholds.
    seals : tuple of Seal
        Seal of each run with a sealed plan.
    tries : tuple of Try
        Known earlier runs of the same audit.
    """

    run: str
    decision: Decision
    exit_code: int
    verdict_decision: Decision
    problem: str = ""
    incomplete: tuple[CellRows, ...] = ()
    cells: tuple[CellRuling, ...] = ()
    together: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    scope: str = ""
    decided: tuple[str, ...] = ()
    overridden: bool = False
    own_thresholds: tuple[str, ...] = ()
    seals: tuple[Seal, ...] = ()
    tries: tuple[Try, ...] = ()

    @property
    def decisions(self) -> tuple[object, ...]:
        """Return the decision on the run and on each cell, without sentences.

        Returns
        -------
        tuple
            The decision from the verdict, and for each cell its audit, model, benchmark, verdict,
            grade and decision, in an order that does not depend on that of the audits.
        """
        cells = []
        for cell in self.cells:
            cells.append(
                (cell.audit, cell.model, cell.benchmark, cell.verdict, cell.grade, cell.decision)
            )
        return (self.verdict_decision, *sorted(cells))


def words() -> dict[str, VerdictWord]:
    """Return the display words of the verdicts of all audits.

    Returns
    -------
    dict
        Mapping from the code of a verdict in verdict.json to its display words.
    """
    by_verdict: dict[str, VerdictWord] = {}
    for name in every_audit():
        by_verdict |= words_of(name)
    return by_verdict


def words_of(audit: str) -> Mapping[str, VerdictWord]:
    """Return the display words of the verdicts of one audit.

    Parameters
    ----------
    audit : str
        Name of the audit.

    Returns
    -------
    mapping
        Mapping from the code of a verdict in verdict.json to its display words.
    """
    verdicts: Mapping[str, VerdictWord] = part_of(audit, "vocabulary").VERDICTS
    return verdicts


# Map names of codes and rates in files of earlier versions to their present names.
_EARLIER = {"brittle": "no_excess_detected", "brittle_cause_unknown": "drop_cause_unknown"}
_EARLIER_RATES = {"clean_brittle": "clean_unknown", "memorised_brittle": "memorised_unknown"}


def document_of(plain: Any, file: str = "verdict.json") -> Document:
    """Return the JSON value of a verdict.json as a typed model.

    Parameters
    ----------
    plain : object
        The JSON value.
    file : str
        Name of the file in error messages.

    Returns
    -------
    Document
        The verdict of one audit, or of several audits.

    Raises
    ------
    ConfigError
        If a field is missing or has a wrong type, or if a verdict is unknown. The message names the
        field.

    Notes
    -----
    Cells of earlier versions are converted: their fields get the present names, and a cell without
    a grade gets the grade of its verdict.
    """
    document = parse(
        _renamed(plain), lambda audit: part_of(audit, "vocabulary").INSTRUMENT.cell, file
    )
    for audit, part in parts_of(document):
        known = words_of(audit)
        for k, cell in enumerate(part.cells):
            if cell.verdict not in known:
                expected = ", ".join(map(str, known))
                raise ConfigError(
                    f"{file}: the verdict of cells[{k}] ({audit}) is {cell.verdict!r}. Expected "
                    f"one of {expected}."
                )
    return document


def verdict_of(plain: Any, file: str = "verdict.json") -> AuditVerdict[Any]:
    """Return the verdict of one audit as a typed model.

    Parameters
    ----------
    plain : object
        The JSON value, as returned by `JudgedRun.to_dict`.
    file : str
        Name of the file in error messages.

    Returns
    -------
    AuditVerdict
        The verdict.

    Raises
    ------
    ConfigError
        If the value is not valid (see `document_of`), or is a verdict of several audits.
    """
    document = document_of(plain, file)
    if isinstance(document, JointVerdict):
        raise ConfigError(
            f"{file} has the verdicts of {len(document.audits)} audits. Expected one. Example: "
            "audit report RUN"
        )
    return document


def read_document(path: Path) -> Document:
    """Return a verdict.json as a typed model.

    Parameters
    ----------
    path : Path
        Path of the verdict.json.

    Returns
    -------
    Document
        The verdict of one audit, or of several audits.

    Raises
    ------
    OSError
        If the file cannot be read.
    ConfigError
        If the file is not a valid verdict.json (see `document_of`).
    """
    return document_of(_json(path), str(path))


def read_verdict(path: Path) -> AuditVerdict[Any]:
    """Return the verdict.json of one audit.

    Parameters
    ----------
    path : Path
        Path of the verdict.json.

    Returns
    -------
    AuditVerdict
        The verdict.

    Raises
    ------
    OSError
        If the file cannot be read.
    ConfigError
        If the file is not a valid verdict.json (see `document_of`), or is a verdict of several
        audits.
    """
    return verdict_of(_json(path), str(path))


def _json(path: Path) -> Any:
    try:
        return read_json(path)
    except ValueError as error:
        raise ConfigError(
            f"{path} is not JSON ({error}). Expected a verdict.json. Example: audit report RUN"
        ) from error


def _renamed(plain: Any) -> Any:
    """Return the JSON value with names of earlier versions replaced by the present names in every
    cell.

    A cell without a grade gets the grade of its verdict.
    """
    if not isinstance(plain, dict):
        return plain
    if isinstance(plain.get("audits"), dict):
        return {
            **plain,
            "audits": {audit: _renamed(part) for audit, part in plain["audits"].items()},
        }
    cells = plain.get("cells")
    if not isinstance(cells, list) or plain.get("audit") not in every_audit():
        return plain
    known = words_of(plain["audit"])
    return {**plain, "cells": [_renamed_cell(cell, known) for cell in cells]}


def _renamed_cell(cell: Any, known: Mapping[str, VerdictWord]) -> Any:
    if not isinstance(cell, dict) or not isinstance(cell.get("verdict"), str):
        return cell
    cell = {**cell, "verdict": _EARLIER.get(cell["verdict"], cell["verdict"])}
    calibration = cell.get("calibration")
    if isinstance(calibration, dict) and isinstance(calibration.get("rates"), dict):
        rates = {}
        for name, rate in calibration["rates"].items():
            rates[_EARLIER_RATES.get(name, name)] = rate
        cell["calibration"] = {**calibration, "rates": rates}
    if "grade" in cell or cell["verdict"] not in known:
        return cell
    evidence = cell.get("evidence")
    archetype = evidence.get("archetype") if isinstance(evidence, dict) else None
    word = known[cell["verdict"]].of(archetype if isinstance(archetype, str) else None)
    return {**cell, "grade": str(word.grade)}


def rule(document: Document, run: str = "") -> Ruling:
    """Return the ruling on a verdict.json.

    Parameters
    ----------
    document : Document
        The verdict.
    run : str
        Name of the run, for the ruling.

    Returns
    -------
    Ruling
        The ruling. Its decision is that of the worst cell. If rows are missing or an audit measured
        nothing, its decision is "no decision".
    """
    parts = parts_of(document)
    joint, suite = (
        (document.joint, document.suite) if isinstance(document, JointVerdict) else ((), None)
    )
    cells: list[CellRuling] = []
    incomplete: list[CellRows] = []
    for name, part in parts:
        for cell in part.cells:
            cells.append(gated(_cell(name, cell, part.block_at), suite))
        for rows in part.rows:
            if not rows.complete:
                incomplete.append(rows)
    own_thresholds = (*_thresholds(parts), *_suite_rule(suite))
    rules = (*(suite.sentences if suite else ()), *own_thresholds)
    sentences: list[str] = []
    for statements in joint:
        about = f"{statements.model} on {statements.benchmark}"
        sentences += [f"{about}: {statement}" for statement in statements.together]
    together = tuple(sentences)
    if incomplete or not parts or not all(part.cells for _, part in parts):
        return replace(
            failed(run, ""),
            incomplete=tuple(incomplete),
            cells=tuple(cells),
            together=together,
            rules=rules,
        )
    worst = min((cell.decision for cell in cells), key=WORST_FIRST.index)
    decision, unmet, scope = _scoped(worst, joint, suite)
    rules += unmet
    return Ruling(
        run,
        decision,
        decision.exit_code,
        decision,
        cells=tuple(cells),
        together=together,
        rules=rules,
        scope=scope,
        own_thresholds=own_thresholds,
    )


def shipped_alone(ruling: Ruling) -> Ruling:
    """Return the ruling if the shipped thresholds were used; otherwise return a ruling of "no
    decision".

    Parameters
    ----------
    ruling : Ruling
        Any ruling.

    Returns
    -------
    Ruling
        The given ruling, or a ruling of "no decision" (`failed`) if other thresholds were used.
    """
    if ruling.problem or not ruling.own_thresholds:
        return ruling
    thresholds = " ".join(ruling.own_thresholds)
    return failed(
        ruling.run,
        f"{thresholds} Expected the shipped thresholds, because of --rule shipped. Build the "
        "report with them.",
    )


def _thresholds(parts: Iterable[tuple[str, AuditVerdict[Any]]]) -> Iterator[str]:
    """Yield a sentence for each audit whose thresholds differ from the shipped thresholds.

    The reader needs this sentence, since any model would pass with sufficiently lax thresholds.
    """
    for audit, part in parts:
        if audit not in AUDITS:
            continue
        shipped = getattr(part_of(audit, "design"), f"{audit.capitalize()}Thresholds")().to_dict()
        thresholds = part.thresholds.items()
        other = []
        for name, value in thresholds:
            if shipped.get(name, value) != value:
                other.append(f"{name} {value} ({shipped[name]})")
        if other:
            yield (
                f"{audit}: these thresholds differ from the shipped ones (in brackets): "
                f"{', '.join(other)}."
            )


def _suite_rule(suite: SuiteRules | None) -> Iterator[str]:
    """Yield a sentence if the decision uses the thresholds of a suite's source instead of our
    verdict.
    """
    if suite is not None and suite.gate == "source":
        yield "The thresholds of the suite's source decide here (gate: source)."


def _scoped(
    worst: Decision, joint: Iterable[Entry], suite: SuiteRules | None
) -> tuple[Decision, tuple[str, ...], str]:
    """Return the decision, the problems, and the forms of contamination that a pass excludes.

    A suite may require that certain forms are examined. If a required form was not examined, a pass
    becomes "no decision", and the problem names the form.
    """
    if worst != Decision.PASS:
        return worst, (), ""
    scopes = []
    for entry in joint:
        if entry.forms:
            scopes.append(entry.forms)
    if open_ := forms.unmet(scopes, suite.forms_required if suite else {}):
        return Decision.NO_DECISION, (open_,), ""
    return worst, (), forms.words(scopes) if scopes else ""


def gated(cell: CellRuling, suite: SuiteRules | None) -> CellRuling:
    """Return the ruling on a cell with the decision that applies in its suite.

    Parameters
    ----------
    cell : CellRuling
        Ruling by our thresholds.
    suite : SuiteRules or None
        The suite; None if the run belongs to no suite.

    Returns
    -------
    CellRuling
        The ruling on the cell. If the suite's `gate` is "source", the decision follows from the
        thresholds of the suite's source.

    Notes
    -----
    If the verdict is withheld, the cell cannot pass, whatever the source's thresholds say.
    Otherwise a model without any right answer would pass, since its contamination score is 0.
    """
    if suite is None or suite.gate != "source":
        return cell
    key = (cell.audit, cell.model, cell.benchmark)
    ruled = []
    for ruling in suite.source:
        if key == (ruling.audit, ruling.model, ruling.benchmark):
            ruled.append(ruling.decision)
    measured = cell.grade not in (Grade.CHECK_FAILED, Grade.NOT_IDENTIFIED)
    if not ruled or (ruled[0] == Decision.PASS and not measured):
        return cell
    reason = f"decided by the source's thresholds; our own verdict means {cell.decision}"
    return replace(cell, decision=ruled[0], reasons=(reason, *cell.reasons))


def failed(run: str, problem: str) -> Ruling:
    """Return the ruling on a run without a verdict. A person's decision cannot turn this ruling
    into a pass.

    Parameters
    ----------
    run : str
        Name of the run.
    problem : str
        Reason why there is no verdict.

    Returns
    -------
    Ruling
        A ruling of "no decision".
    """
    return Ruling(run, Decision.NO_DECISION, FAILED, Decision.NO_DECISION, problem=problem)


def _cell(audit: str, cell: Cell, blocks: str) -> CellRuling:
    failed_gates = []
    for gate in cell.gates:
        if gate.status == Status.FAIL:
            failed_gates.append((gate.name, gate.detail))
    return CellRuling(
        audit=audit,
        model=cell.model,
        benchmark=cell.benchmark,
        verdict=cell.verdict,
        grade=cell.grade,
        decision=cell.grade.decision(blocks),
        headline=cell.headline,
        reasons=cell.reasons,
        what_to_do=cell.what_to_do,
        not_run=cell.controls_missing,
        failed_gates=tuple(failed_gates),
        plain=subtitle(words_of(audit), cell),
        context=cell.context or "",
    )
