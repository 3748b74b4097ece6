"""Format a ruling as text, JSON, JUnit XML, GitHub annotations or markdown.

Any text in a ruling, such as a question, may be hostile. Therefore each format escapes all texts.
"""

import json
import re
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from audit.core.exits import one_line
from audit.core.json_types import attributes, plain
from audit.judging.decision import CellRuling, Decision, Ruling, Seal

# In GitHub's markdown, these characters start emphasis, links, mentions, table cells, HTML or
# mathematics. They are replaced by HTML entities.
_MARKDOWN = re.compile(r"[&<>\\`*_\[\]|~:@/#$^!]|(?<=[wW])\.")


def markdown(text: object) -> str:
    """Escape text so that GitHub's markdown shows it unchanged.

    Parameters
    ----------
    text : object
        A value, which is first converted to one line of text.

    Returns
    -------
    str
        Text without active markdown or HTML.

    Examples
    --------
    >>> markdown("[a](http://b) | *c*")
    '&#91;a&#93;(http&#58;&#47;&#47;b) &#124; &#42;c&#42;'
    """
    return _MARKDOWN.sub(lambda match: f"&#{ord(match[0])};", one_line(text))


_GLYPHS = {
    Decision.PASS: "✅",
    Decision.REVIEW: "🔎",
    Decision.BLOCK: "⛔",
    Decision.NO_DECISION: "❔",
}


def _incomplete(ruling: Ruling) -> list[str]:
    sentences = []
    for rows in ruling.incomplete:
        sentences.append(f"{rows.watermark.upper()}: {rows.model} on {rows.benchmark}")
    return sentences


def _disclosed(ruling: Ruling) -> list[tuple[str, str]]:
    """Return the (label, sentence) pairs that are shown beside the verdict.

    The sentences describe rules, seals (plans that were signed before the run), deviations from a
    seal, and earlier runs.
    """
    lines = [("rule", rule) for rule in ruling.rules]
    for seal in ruling.seals:
        lines += seal_lines(seal)
    if ruling.tries:
        decisions = []
        for run in ruling.tries:
            if run.same_design:
                decisions.append(run.decision or "unfinished")
        listed = f", {len(decisions)} of the same design ({', '.join(decisions)})"
        same_design = listed if decisions else ", none of the same design"
        n = len(ruling.tries)
        counted = f"{n} earlier run{'s' if n > 1 else ''}"
        lines.append(("tried", f"{counted} of this audit, model and benchmark{same_design}"))
    return lines


def seal_lines(seal: Seal) -> list[tuple[str, str]]:
    """Return (label, sentence) pairs that describe a seal (the plan that was signed before a run).

    The first pair describes the seal. Each further pair describes a field in which the run differs
    from the seal.
    """
    deviations = f"{len(seal.changed)} fields differ" if seal.changed else "the run is as sealed"
    signature = f"signed by {seal.signer}" if seal.signer else "SIGNATURE NOT CHECKED"
    lines = [("seal", f"audit {seal.audit}, sealed {seal.sealed}, {signature}: {deviations}")]
    changed_fields = []
    for change in seal.changed:
        changed_fields.append(
            ("deviation", f"{change.field}: sealed {short(change.sealed)}, run {short(change.run)}")
        )
    return lines + changed_fields


def short(value: Any) -> str:
    """Format a value of a configuration as a text of at most 60 characters."""
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def as_text(ruling: Ruling) -> str:
    """Return the ruling as sentences and its exit code. The caller prints a problem to stderr."""
    return f"{as_sentences(ruling)}exit code {ruling.exit_code}\n"


def as_sentences(ruling: Ruling) -> str:
    """Describe a ruling in plain sentences, one sentence per line.

    Parameters
    ----------
    ruling : Ruling
        A ruling with or without people's decisions.

    Returns
    -------
    str
        The verdict on each cell (model and benchmark) with its reasons and advice, then people's
        decisions, and the decision that results.
    """
    lines = _incomplete(ruling)
    several = len({cell.audit for cell in ruling.cells}) > 1
    for cell in ruling.cells:
        prefix = f"{cell.audit}: " if several else ""
        lines.append(f"{prefix}{cell.verdict.replace('_', ' ').upper()}  {cell.plain}")
        lines.append(f"  {cell.headline}")
        lines += [f"  - {reason}" for reason in cell.reasons]
        lines += [f"  not run: {control}" for control in cell.not_run]
        lines += [f"  to do: {step}" for step in cell.what_to_do]
    lines += [f"TOGETHER  {sentence}" for sentence in ruling.together]
    lines += [f"{label.upper()}  {sentence}" for label, sentence in _disclosed(ruling)]
    lines += [f"decided: {sentence}" for sentence in ruling.decided]
    label = "" if ruling.decision == Decision.NO_DECISION else "decision "
    lines.append(f"{label}{_decision(ruling)}")
    return "".join(f"{one_line(line)}\n" for line in lines)


def as_json(ruling: Ruling) -> str:
    """Return the whole content of a ruling as JSON.

    Parameters
    ----------
    ruling : Ruling
        A ruling with or without people's decisions.

    Returns
    -------
    str
        JSON with sorted keys. Non-ASCII characters are escaped, so that the text can be read in any
        encoding.
    """
    rows = [attributes(row, "model", "benchmark", "found", "expected") for row in ruling.incomplete]
    document: dict[str, Any] = {
        "schema": "gate",
        "schema_version": "1.2",
        **attributes(ruling, "run", "decision", "exit_code", "verdict_decision", "overridden"),
        "problem": ruling.problem or None,
        "incomplete": rows,
        "together": list(ruling.together),
        "rules": list(ruling.rules),
        "scope": ruling.scope or None,
        "decided": list(ruling.decided),
        "seals": plain(ruling.seals),
        "tries": plain(ruling.tries),
        "cells": [_cell_json(cell) for cell in ruling.cells],
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _cell_json(cell: CellRuling) -> dict[str, Any]:
    return {
        **attributes(
            cell, "audit", "model", "benchmark", "verdict", "grade", "decision", "headline"
        ),
        "reasons": list(cell.reasons),
        "what_to_do": list(cell.what_to_do),
        "controls_missing": list(cell.not_run),
        "failed_gates": [{"name": name, "detail": detail} for name, detail in cell.failed_gates],
    }


def as_junit(ruling: Ruling) -> str:
    """Return a ruling as JUnit XML: one suite with one test case for each cell.

    Parameters
    ----------
    ruling : Ruling
        A ruling with or without people's decisions.

    Returns
    -------
    str
        The XML. A cell (model and benchmark) with the decision block or review is a failure. A cell
        with a problem, missing rows or the result "no decision" is an error.
    """
    suite = TestSuite(one_line(f"audit gate: {ruling.run}"))
    suite.add_property("decision", one_line(_decision(ruling)))
    suite.add_property("exit_code", str(ruling.exit_code))
    decided = zip(repeat("decided"), ruling.decided)
    for number, (label, line) in enumerate((*_disclosed(ruling), *decided), 1):
        suite.add_property(f"{label}.{number}", one_line(line))
    if ruling.problem or not ruling.cells:
        _case(
            suite,
            "run",
            ruling.run,
            Error("no decision", "no decision"),
            [ruling.problem or "no cell was measured"],
        )
    for rows in ruling.incomplete:
        _case(
            suite,
            rows.benchmark,
            rows.model,
            Error(one_line(rows.watermark), "incomplete"),
            [rows.watermark],
        )
    for cell in ruling.cells:
        result = None
        if not ruling.overridden and cell.decision != Decision.PASS:
            kind = Error if cell.decision == Decision.NO_DECISION else Failure
            result = kind(one_line(f"{cell.decision}: {cell.headline}"), one_line(cell.verdict))
        _case(
            suite,
            f"{cell.audit}.{cell.benchmark}",
            cell.model,
            result,
            [cell.headline, *_why(cell), *ruling.decided],
        )
    if ruling.exit_code and not ruling.overridden and not any(case.result for case in suite):
        # People rejected this run, although all its cells pass. Without this test case the suite
        # would have no failure.
        _case(
            suite,
            "run",
            ruling.run,
            Failure(one_line(_decision(ruling)), "decided"),
            ruling.decided,
        )
    xml = JUnitXml()
    xml.add_testsuite(suite)
    xml.update_statistics()
    text: str = xml.tostring().decode("utf-8")
    return text + "\n"


def _why(cell: CellRuling) -> list[str]:
    """Return the reasons of a cell's verdict, the failed checks that no reason mentions, and the
    advice.
    """
    reasons = "\n".join(cell.reasons)
    failed = []
    for name, detail in cell.failed_gates:
        if detail not in reasons:
            failed.append(f"{name}: {detail}")
    return [*cell.reasons, *failed, *cell.what_to_do]


def _case(
    suite: TestSuite, group: str, name: str, result: Failure | Error | None, lines: Iterable[str]
) -> None:
    case = TestCase(one_line(name), one_line(group))
    shown = []
    for line in lines:
        if line:
            shown.append(one_line(line))
    text = "\n".join(shown)
    if result is None:
        case.system_out = text
    else:
        result.text = text
        case.result = [result]
    suite.add_testcase(case)


def as_github(ruling: Ruling) -> str:
    """Return a ruling as GitHub workflow commands.

    Parameters
    ----------
    ruling : Ruling
        A ruling with or without people's decisions.

    Returns
    -------
    str
        The commands.

        - An error for a problem, for missing rows, and for each cell (model and benchmark) that
          does not pass. The final decision is an error too, unless it is pass.
        - A warning for each cell that needs a review or was overridden.
        - A notice for everything else.
    """
    out = []
    if ruling.problem:
        out.append(_command("error", "audit gate: no decision", ruling.problem))
    out += _commands("error", "audit gate: incomplete", _incomplete(ruling))
    for cell in ruling.cells:
        if cell.decision == Decision.PASS:
            continue
        level = "warning" if ruling.overridden or cell.decision == Decision.REVIEW else "error"
        title = f"{cell.decision}: {cell.model} on {cell.benchmark}"
        out.append(_command(level, title, cell.headline or cell.verdict))
    out += [_command("notice", f"audit gate: {label}", line) for label, line in _disclosed(ruling)]
    out += _commands("notice", "audit gate: decided by people", ruling.decided)
    out.append(
        _command(
            "notice" if not ruling.exit_code else "error",
            "audit gate",
            f"decision {_decision(ruling)}",
        )
    )
    return "".join(out)


def _commands(level: str, title: str, messages: Iterable[str]) -> list[str]:
    return [_command(level, title, message) for message in messages]


def _command(level: str, title: str, message: str) -> str:
    """Return one GitHub workflow command.

    Texts in the command are escaped, so that no text can end the command or begin another command.
    """
    name = one_line(title).replace("%", "%25")
    text = one_line(message).replace("%", "%25")
    return f"::{level} title={name.replace(':', '%3A').replace(',', '%2C')}::{text}\n"


def as_markdown(ruling: Ruling) -> str:
    """Return a ruling as a GitHub step summary.

    Parameters
    ----------
    ruling : Ruling
        A ruling with or without people's decisions.

    Returns
    -------
    str
        Markdown with the decision, a table of the cells, and the reasons of each cell that does not
        pass.
    """
    title = f"## {_GLYPHS[ruling.decision]} Benchmark audit: {markdown(_decision(ruling))}"
    lines = [title, "", markdown(ruling.run), ""]
    if ruling.problem:
        lines += [markdown(ruling.problem), ""]
    lines += [f"- **{markdown(line)}**" for line in _incomplete(ruling)]
    together = zip(repeat("together"), ruling.together)
    decided = zip(repeat("decided"), ruling.decided)
    for label, line in (*together, *_disclosed(ruling), *decided):
        lines.append(f"- {label}: {markdown(line)}")
    if ruling.cells:
        lines += [
            "",
            "| | decision | audit | model | benchmark | verdict | |",
            "|---|---|---|---|---|---|---|",
        ]
    for cell in ruling.cells:
        row = (
            cell.decision,
            cell.audit,
            cell.model,
            cell.benchmark,
            cell.verdict.replace("_", " "),
            cell.headline,
        )
        lines.append(f"| {_GLYPHS[cell.decision]} | {' | '.join(map(markdown, row))} |")
    for cell in ruling.cells:
        if cell.decision != Decision.PASS and _why(cell):
            lines += ["", f"{markdown(cell.model)} on {markdown(cell.benchmark)}:", ""]
            lines += [f"- {markdown(line)}" for line in _why(cell)]
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
