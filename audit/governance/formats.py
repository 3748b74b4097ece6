"""A ruling as text, JSON, JUnit XML, GitHub annotations and markdown. Every text in it may be hostile."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from audit.decision import CellRuling, Decision, Ruling, Seal
from audit.exits import one_line
from audit.json_types import attributes, plain

# With an entity in their place none of these starts emphasis, a link, a mention, a table cell, HTML or mathematics.
_MARKDOWN = re.compile(r"[&<>\\`*_\[\]|~:@/#$^!]|(?<=[wW])\.")


def markdown(text: object) -> str:
    """Text that GitHub's markdown shows as it is.

    >>> markdown("[a](http://b) | *c*")
    '&#91;a&#93;(http&#58;&#47;&#47;b) &#124; &#42;c&#42;'
    """
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", one_line(text))


_GLYPHS = {Decision.PASS: "✅", Decision.REVIEW: "🔎", Decision.BLOCK: "⛔", Decision.NO_DECISION: "❔"}


def _incomplete(ruling: Ruling) -> list[str]:
    return [f"{rows.watermark.upper()}: {rows.model} on {rows.benchmark}" for rows in ruling.incomplete]


def _disclosed(ruling: Ruling) -> list[tuple[str, str]]:
    """(label, sentence) of what stands beside the verdict: rules, seals and their deviations, earlier tries."""
    lines = [("rule", one) for one in ruling.rules]
    lines += [line for seal in ruling.seals for line in seal_lines(seal)]
    if ruling.tries:
        same = [one.decision or "unfinished" for one in ruling.tries if one.same_design]
        each = f", {len(same)} of the same design ({', '.join(same)})" if same else ", none of the same design"
        lines.append(("tried", f"{len(ruling.tries)} earlier runs of this audit, model and benchmark{each}"))
    return lines


def seal_lines(seal: Seal) -> list[tuple[str, str]]:
    kept = f"{len(seal.changed)} fields differ" if seal.changed else "the run is as sealed"
    by = f"signed by {seal.signer}" if seal.signer else "SIGNATURE NOT CHECKED"
    lines = [("seal", f"audit {seal.audit}, sealed {seal.sealed}, {by}: {kept}")]
    return lines + [("deviation", f"{c.field}: sealed {short(c.sealed)}, run {short(c.run)}") for c in seal.changed]


def short(value: Any) -> str:
    """A value of a configuration, in at most 60 characters."""
    text = "nothing" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def as_text(ruling: Ruling) -> str:
    """The ruling and the exit code. A problem is for the error stream."""
    return f"{as_sentences(ruling)}exit code {ruling.exit_code}\n"


def as_sentences(ruling: Ruling) -> str:
    """Each cell's verdict in plain words, its reasons and what to do, then what people decided, and the decision."""
    lines = _incomplete(ruling)
    several = len({cell.audit for cell in ruling.cells}) > 1
    for cell in ruling.cells:
        lines.append(f"{cell.audit + ': ' if several else ''}{cell.verdict.replace('_', ' ').upper()}  {cell.plain}")
        lines.append(f"  {cell.headline}")
        lines += [f"  - {reason}" for reason in cell.reasons]
        lines += [f"  not run: {control}" for control in cell.not_run]
        lines += [f"  to do: {step}" for step in cell.what_to_do]
    lines += [f"TOGETHER  {one}" for one in ruling.together]
    lines += [f"{label.upper()}  {one}" for label, one in _disclosed(ruling)]
    lines += [f"decided: {said}" for said in ruling.said]
    lines.append(f"{'' if ruling.decision == Decision.NO_DECISION else 'decision '}{_decision(ruling)}")
    return "".join(f"{one_line(line)}\n" for line in lines)


def as_json(ruling: Ruling) -> str:
    """Everything a ruling holds; non-ASCII characters escaped, so that no reader has to know an encoding."""
    whole: dict[str, Any] = {
        "schema": "gate",
        "schema_version": "1.2",
        **attributes(ruling, "run", "decision", "exit_code", "verdict_decision", "overridden"),
        "problem": ruling.problem or None,
        "incomplete": [attributes(r, "model", "benchmark", "found", "expected") for r in ruling.incomplete],
        "together": list(ruling.together),
        "rules": list(ruling.rules),
        "scope": ruling.scope or None,
        "decided": list(ruling.said),
        "seals": plain(ruling.seals),
        "tries": plain(ruling.tries),
        "cells": [
            {
                **attributes(c, "audit", "model", "benchmark", "verdict", "grade", "decision", "headline"),
                "reasons": list(c.reasons),
                "what_to_do": list(c.what_to_do),
                "controls_missing": list(c.not_run),
                "failed_gates": [{"name": name, "detail": detail} for name, detail in c.failed_gates],
            }
            for c in ruling.cells
        ],
    }
    return json.dumps(whole, indent=2, sort_keys=True) + "\n"


def as_junit(ruling: Ruling) -> str:
    """One suite, one case a cell: a block or a review is a failure, no decision an error. A problem is a case."""
    suite = TestSuite(one_line(f"audit gate: {ruling.run}"))
    suite.add_property("decision", one_line(_decision(ruling)))
    suite.add_property("exit_code", str(ruling.exit_code))
    for number, (label, line) in enumerate((*_disclosed(ruling), *(("decided", one) for one in ruling.said)), 1):
        suite.add_property(f"{label}.{number}", one_line(line))
    if ruling.problem or not ruling.cells:
        _case(suite, "run", ruling.run, Error("no decision", "no decision"), [ruling.problem or "no cell was measured"])
    for rows in ruling.incomplete:
        _case(suite, rows.benchmark, rows.model, Error(one_line(rows.watermark), "incomplete"), [rows.watermark])
    for cell in ruling.cells:
        result = None
        if not ruling.overridden and cell.decision != Decision.PASS:
            kind = Error if cell.decision == Decision.NO_DECISION else Failure
            result = kind(one_line(f"{cell.decision}: {cell.headline}"), one_line(cell.verdict))
        _case(suite, f"{cell.audit}.{cell.benchmark}", cell.model, result, [cell.headline, *_why(cell), *ruling.said])
    if ruling.exit_code and not ruling.overridden and not any(case.result for case in suite):
        # A rejected run whose cells all pass: it must not look green.
        _case(suite, "run", ruling.run, Failure(one_line(_decision(ruling)), "decided"), ruling.said)
    xml = JUnitXml()
    xml.add_testsuite(suite)
    xml.update_statistics()
    text: str = xml.tostring().decode("utf-8")
    return text + "\n"


def _why(cell: CellRuling) -> list[str]:
    """Reasons, checks that failed where no reason has them, and what to do."""
    told = "\n".join(cell.reasons)
    failed = [f"{name}: {found}" for name, found in cell.failed_gates if found not in told]
    return [*cell.reasons, *failed, *cell.what_to_do]


def _case(suite: TestSuite, group: str, name: str, result: Failure | Error | None, lines: Iterable[str]) -> None:
    case = TestCase(one_line(name), one_line(group))
    text = "\n".join(one_line(line) for line in lines if line)
    if result is None:
        case.system_out = text
    else:
        result.text = text
        case.result = [result]
    suite.add_testcase(case)


def as_github(ruling: Ruling) -> str:
    """Workflow commands: an annotation for what is not a pass, a warning for a review, a notice for an override."""
    out = []
    if ruling.problem:
        out.append(_command("error", "audit gate: no decision", ruling.problem))
    out += [_command("error", "audit gate: incomplete", line) for line in _incomplete(ruling)]
    for cell in ruling.cells:
        if cell.decision == Decision.PASS:
            continue
        level = "warning" if ruling.overridden or cell.decision == Decision.REVIEW else "error"
        title = f"{cell.decision}: {cell.model} on {cell.benchmark}"
        out.append(_command(level, title, cell.headline or cell.verdict))
    out += [_command("notice", f"audit gate: {label}", one) for label, one in _disclosed(ruling)]
    out += [_command("notice", "audit gate: decided by people", said) for said in ruling.said]
    out.append(_command("notice" if not ruling.exit_code else "error", "audit gate", f"decision {_decision(ruling)}"))
    return "".join(out)


def _command(level: str, title: str, message: str) -> str:
    """A GitHub workflow command, whose texts cannot end it or begin another."""
    name, text = (one_line(one).replace("%", "%25") for one in (title, message))
    return f"::{level} title={name.replace(':', '%3A').replace(',', '%2C')}::{text}\n"


def as_markdown(ruling: Ruling) -> str:
    """A step summary: the decision, a table of cells, and what failed."""
    title = f"## {_GLYPHS[ruling.decision]} Benchmark audit: {markdown(_decision(ruling))}"
    lines = [title, "", markdown(ruling.run), ""]
    if ruling.problem:
        lines += [markdown(ruling.problem), ""]
    lines += [f"- **{markdown(line)}**" for line in _incomplete(ruling)]
    told = [("together", one) for one in ruling.together] + _disclosed(ruling)
    lines += [f"- {label}: {markdown(one)}" for label, one in (*told, *(("decided", said) for said in ruling.said))]
    if ruling.cells:
        lines += ["", "| | decision | audit | model | benchmark | verdict | |", "|---|---|---|---|---|---|---|"]
    for cell in ruling.cells:
        row = (cell.decision, cell.audit, cell.model, cell.benchmark, cell.verdict.replace("_", " "), cell.headline)
        lines.append(f"| {_GLYPHS[cell.decision]} | {' | '.join(map(markdown, row))} |")
    for cell in ruling.cells:
        if cell.decision != Decision.PASS and _why(cell):
            lines += ["", f"{markdown(cell.model)} on {markdown(cell.benchmark)}:", ""]
            lines += [f"- {markdown(one)}" for one in _why(cell)]
    return "\n".join(lines) + f"\n\nExit code {ruling.exit_code}.\n"


def _decision(ruling: Ruling) -> str:
    if ruling.decision != ruling.verdict_decision:
        return f"{ruling.decision}, decided by people; the verdict alone says {ruling.verdict_decision}"
    return f"{ruling.decision}: {ruling.scope}" if ruling.scope else str(ruling.decision)


FORMATS: dict[str, Callable[[Ruling], str]] = {
    "text": as_text,
    "json": as_json,
    "junit": as_junit,
    "github": as_github,
    "markdown": as_markdown,
}
