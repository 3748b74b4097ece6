"""What follows from a verdict.json: pass, review, block or no decision, and the exit code that says so."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from audit.audits import AUDITS, every_audit, part_of
from audit.exits import FAILED
from audit.judging.ladder import Decision as Decision
from audit.judging.ladder import Grade
from audit.records import CellRows
from audit.verdict import forms
from audit.verdict.vocabulary import EARLIER, VerdictWord, grade_of, subtitle

# Of a panel. Something that settles nothing is worse than something a person can weigh: an approval must not carry it.
WORST_FIRST = (Decision.BLOCK, Decision.NO_DECISION, Decision.REVIEW, Decision.PASS)
# As a page shows them; what each means for a job that asks the gate.
SHOWN: dict[Decision, VerdictWord] = {
    Decision.BLOCK: VerdictWord(
        "Block", "▲", "^",
        "Do not deploy: something was found. The gate stops this model; only people can let it pass.",
        Grade.FOUND_STRONG,
    ),
    Decision.REVIEW: VerdictWord(
        "Review", "▼", "v",
        "Something stands out, and another cause is not excluded. The gate stops until a person has decided "
        "(audit review).",
        Grade.CAUSE_UNKNOWN,
    ),
    Decision.NO_DECISION: VerdictWord(
        "No decision", "✚", "P",
        "Neither approve nor reject the model: the evidence neither accuses nor clears it. The gate stops.",
        Grade.UNDECIDED,
    ),
    Decision.PASS: VerdictWord("Pass", "●", "o", "The gate lets this model pass.", Grade.CLEARED),
}  # fmt: skip


@dataclass(frozen=True)
class CellRuling:
    """One model on one benchmark. failed_gates: (name, what was found). not_run: controls. plain: the verdict in plain
    words. context: where the benchmark has several."""

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
    """A field in which a run is not what was sealed; None where one side lacks it."""

    field: str
    sealed: Any
    run: Any


@dataclass(frozen=True)
class Seal:
    """What was signed before a run of this audit (`governance.sealed`). signer: None where no signature was checked.
    detects: of each model and benchmark, the smallest effect that the design finds."""

    audit: str
    signer: str | None
    sealed: str
    changed: tuple[Changed, ...]
    detects: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Try:
    """An earlier run of the same audit, model and benchmark. decision: "" of one without a verdict."""

    run: str
    started: str
    decision: str
    differs: tuple[str, ...]

    @property
    def same_design(self) -> bool:
        """Whether no more than the drawn questions differ."""
        return set(self.differs) <= {"questions"}


@dataclass(frozen=True)
class Ruling:
    """What a gate says of a run.

    verdict_decision: what the verdict alone says. problem: why there is no verdict to go by. incomplete: where
    answers are missing. together: what several audits say as one. rules: of a suite, what the source's thresholds say
    beside our verdict, and which of them gates; and the thresholds of a run that are not those that ship.
    own_thresholds: these alone. scope: of a pass of several audits, which forms of contamination it speaks of. said:
    what people decided, a sentence each. overridden: the run passes because of them. seals: what was planned, of each
    run that has one. tries: the earlier runs that are known.
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
    said: tuple[str, ...] = ()
    overridden: bool = False
    own_thresholds: tuple[str, ...] = ()
    seals: tuple[Seal, ...] = ()
    tries: tuple[Try, ...] = ()


def words() -> dict[str, VerdictWord]:
    """Every audit's verdicts, by the word that verdict.json has."""
    return {verdict: word for name in every_audit() for verdict, word in part_of(name, "vocabulary").VERDICTS.items()}


_NO_SUITE: Mapping[str, Any] = {"source": (), "gate": "ours", "sentences": ()}


def rule(verdict: Mapping[str, Any], run: str = "") -> Ruling:
    """The ruling on what verdict.json holds; a panel is ruled by its worst cell. One with missing rows, or of which an
    audit measured nothing, has failed.

    Raises ValueError for an unknown verdict; KeyError, TypeError or AttributeError for what is no verdict at all.
    """
    known = words()
    parts = parts_of(verdict)
    each = [tuple(_cell(name, cell, known, block_at(part)) for cell in part["cells"]) for name, part in parts]
    suite = verdict.get("suite") or _NO_SUITE
    cells = tuple(gated(cell, suite) for own in each for cell in own)
    own = (*_thresholds(parts), *_suite_rule(suite))
    rules = (*map(str, suite["sentences"]), *own)
    rows = (CellRows(**rows) for _, part in parts for rows in part["rows"])
    incomplete = tuple(one for one in rows if not one.complete)
    joint = verdict.get("joint", ())
    together = tuple(f"{one['model']} on {one['benchmark']}: {said}" for one in joint for said in one["together"])
    if incomplete or not all(each) or not each:
        return replace(failed(run, ""), incomplete=incomplete, cells=cells, together=together, rules=rules)
    worst = min((cell.decision for cell in cells), key=WORST_FIRST.index)
    decision, unmet, said = _scoped(worst, joint, suite)
    rules += unmet
    return Ruling(
        run, decision, decision.exit_code, decision, cells=cells, together=together, rules=rules, scope=said,
        own_thresholds=own,
    )  # fmt: skip


def shipped_alone(ruling: Ruling) -> Ruling:
    """Return the ruling, failed if it was reached with other thresholds than those that ship (pure)."""
    if ruling.problem or not ruling.own_thresholds:
        return ruling
    said = " ".join(ruling.own_thresholds)
    return failed(ruling.run, f"{said} Expected those that ship, as --rule shipped asks. Build the report with them.")


def block_at(verdict: Mapping[str, Any]) -> str:
    """Return the weakest finding that blocks, of a verdict.json of one audit."""
    return str(verdict.get("thresholds", {}).get("block_at", "strong"))


def _thresholds(parts: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """Which thresholds of each audit are not those that ship: larger ones may let anything pass."""
    for audit, part in parts:
        if audit not in AUDITS:
            continue
        shipped = getattr(part_of(audit, "design"), f"{audit.capitalize()}Thresholds")().to_dict()
        told = part.get("thresholds", {}).items()
        other = [f"{name} {value} ({shipped[name]})" for name, value in told if shipped.get(name, value) != value]
        if other:
            yield f"{audit}: these thresholds are not those that ship (in brackets): {', '.join(other)}."


def _suite_rule(suite: Mapping[str, Any]) -> Iterator[str]:
    """Yield that the numbers of a suite decide in place of our verdict, if they do."""
    if suite["gate"] == "source":
        yield "The suite's own numbers decide here (gate: source)."


def _scoped(
    worst: Decision, joint: Iterable[Mapping[str, Any]], suite: Mapping[str, Any]
) -> tuple[Decision, tuple[str, ...], str]:
    """(what the worst cell comes to, the forms that a pass had to examine and did not, the forms it speaks of)."""
    if worst != Decision.PASS:
        return worst, (), ""
    scopes = [one["forms"] for one in joint if one.get("forms")]
    if open_ := forms.unmet(scopes, suite.get("forms_required", {})):
        return Decision.NO_DECISION, (open_,), ""
    return worst, (), forms.words(scopes) if scopes else ""


def gated(cell: CellRuling, suite: Mapping[str, Any]) -> CellRuling:
    """A cell as the suite has it gated: where `gate` is "source", the source's thresholds decide; but they pass nothing
    that could not be measured (withheld): of no right answer at all their score is 0."""
    own = {"audit": cell.audit, "model": cell.model, "benchmark": cell.benchmark}
    ruled = [one["decision"] for one in suite["source"] if own.items() <= one.items()]
    measured = cell.grade not in (Grade.CHECK_FAILED, Grade.NOT_IDENTIFIED)
    if suite["gate"] != "source" or not ruled or (ruled[0] == Decision.PASS and not measured):
        return cell
    said = f"decided by the source's thresholds; our verdict says {cell.decision}"
    return replace(cell, decision=Decision(ruled[0]), reasons=(said, *cell.reasons))


def parts_of(verdict: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """(audit, its verdict): of a page of several audits each, else the one."""
    if "audits" in verdict:
        return list(verdict["audits"].items())
    return [(str(verdict["audit"]), verdict)]


def failed(run: str, problem: str) -> Ruling:
    """The ruling on a run without a verdict: never a pass, whatever anybody decided."""
    return Ruling(run, Decision.NO_DECISION, FAILED, Decision.NO_DECISION, problem=problem)


def _cell(audit: str, cell: Mapping[str, Any], known: Mapping[str, VerdictWord], blocks: str) -> CellRuling:
    if EARLIER.get(cell["verdict"], cell["verdict"]) not in known:
        raise ValueError(f"unknown verdict {cell['verdict']!r}; expected one of {', '.join(map(str, known))}")
    gates, grade = cell.get("gates", ()), grade_of(known, cell)
    return CellRuling(
        audit=audit,
        model=str(cell.get("model", "")),
        benchmark=str(cell.get("benchmark", "")),
        verdict=str(cell["verdict"]),
        grade=grade,
        decision=grade.decision(blocks),
        headline=str(cell.get("headline", "")),
        reasons=tuple(map(str, cell.get("reasons", ()))),
        what_to_do=tuple(map(str, cell.get("what_to_do", ()))),
        not_run=tuple(map(str, cell.get("controls_missing", ()))),
        failed_gates=tuple((str(g["name"]), str(g.get("detail", ""))) for g in gates if g.get("status") == "fail"),
        plain=subtitle(known, cell),
        context=str(cell.get("context") or ""),
    )
