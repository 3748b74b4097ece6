"""Render the shell of every report's page, with two defences against hostile text.

The first is escaping: jinja2 escapes all that it prints, and a page's script sets `textContent`
alone. The second is the Content-Security-Policy. It allows one script and one style sheet, by
their hashes, and no request.
"""

import base64
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined

from audit.core.number_text import (
    DASH,
    bare_pvalue,
    drop_points,
    percent,
    pvalue,
    scaled,
    signed_points,
)
from audit.core.records import CellRows
from audit.judging.decision import rule, verdict_of
from audit.judging.result import Gate
from audit.judging.run import CellResult, JudgedRun
from audit.judging.vocabulary import COMPLETE_IT, GateWord, VerdictWord, subtitle, word_of

NOT_CALIBRATED = (
    "No calibration is given for this design. "
    "audit calibrate measures how often the procedure is wrong on it."
)

# Seconds after which the page of a run in progress reloads itself (`audit report --follow`). With
# 0 the page never reloads.
REFRESH_S: ContextVar[int] = ContextVar("refresh_s", default=0)
SO_FAR: ContextVar[str] = ContextVar("so_far", default="")  # how far the run is


@dataclass(frozen=True)
class RunFacts:
    """Hold the facts of one run's manifest as texts: main facts, further facts, prompt
    templates."""

    title: str
    main: tuple[tuple[str, str], ...] = ()
    more: tuple[tuple[str, str], ...] = ()
    prompts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Gated:
    """Hold a column of the gate matrix.

    Parameters
    ----------
    label : str
        The column's title.
    gates : sequence of Gate
        The gates of the column.
    where : mapping
        Values of the page's filters that show this column's questions alone.
    """

    label: str
    gates: Sequence[Gate]
    where: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Mark:
    """Hold an entry of the decision strip: what an audit says about a model, in plain words.

    Parameters
    ----------
    audit, who : str
        The audit and the model.
    word : VerdictWord
        The verdict in words.
    note : str
        A remark beside the verdict.
    href : str
        The link to the evidence.
    sure : str
        How sure the verdict is.
    decision : str
        What the gate decides from this entry alone; empty if the page states it elsewhere.
    """

    audit: str
    who: str
    word: VerdictWord
    note: str = ""
    href: str = "#verdict"
    sure: str = ""
    decision: str = ""


@dataclass(frozen=True)
class Errors:
    """Hold how often a procedure is wrong.

    Parameters
    ----------
    who : str
        The model.
    rates : tuple of (str, float, float or None)
        What happens to models whose truth is known, its rate (0-1), and the rate's standard error.
    sentence : str
        All measured rates in words.
    sensitivity : tuple of str
        Sentences on what the audit is known to find.
    """

    who: str
    rates: tuple[tuple[str, float, float | None], ...]
    sentence: str
    sensitivity: tuple[str, ...] = ()


def errors_of(results: Sequence[CellResult], named: Mapping[str, str]) -> list[Errors]:
    """Return the error rates of each calibrated design, each once.

    Parameters
    ----------
    results : sequence of CellResult
        The results.
    named : mapping
        What each rate of the table counts, by its key, in the order of the page.

    Returns
    -------
    list of Errors
        One entry for each design.
    """
    designs: dict[str, Errors] = {}
    for r in results:
        rates, sentence = (
            (r.calibration.rates, r.calibration.sentence) if r.calibration else ({}, NOT_CALIBRATED)
        )
        rows = []
        for key, share_of in named.items():
            rate = rates.get(key)
            if rate is not None:
                rows.append((share_of, rate, rates.get(f"{key}_se")))
        errors = designs.setdefault(sentence, Errors(r.model, tuple(rows), sentence))
        if r.sensitivity and r.sensitivity not in errors.sensitivity:
            designs[sentence] = replace(errors, sensitivity=(*errors.sensitivity, r.sensitivity))
    return list(designs.values())


def marks_of(verdict: JudgedRun[Any, Any], words: Mapping[Any, VerdictWord]) -> list[Mark]:
    """Return the decision strip of one audit's page.

    Parameters
    ----------
    verdict : JudgedRun
        The verdict.
    words : mapping
        The words of each verdict of this audit.

    Returns
    -------
    list of Mark
        One entry for each cell.
    """
    several = len({r.benchmark for r in verdict.results}) > 1
    marks = []
    document = verdict_of(verdict.to_dict())
    rulings = rule(document).cells
    for k, (c, ruling) in enumerate(zip(document.cells, rulings, strict=True), start=1):
        who = (
            c.model
            + (f" on {c.benchmark}" if several else "")
            + (f" ({c.context})" if c.context else "")
        )
        note = "; ".join(filter(None, (c.watermark, subtitle(words, c))))
        word, decision = word_of(words, c), str(ruling.decision)
        marks.append(Mark(verdict.audit, who, word, note, f"#cell-{k}", decision=decision))
    return marks


def share(value: float | None) -> str:
    """Format 0.71 as "71.0 %". All have one decimal, so that a column is aligned."""
    return percent(value, whole=False)


def number(value: Any) -> str:
    """Format a number with four significant digits, or a whole number with separators.

    Other values are returned as text.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return DASH
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}".replace("-", "−")


def count(value: float | None) -> str:
    """Format a count as `number` does; a fraction, such as a mean over replicates, has one
    decimal."""
    return number(value) if value is None or float(value).is_integer() else f"{value:,.1f}"


def words(name: str) -> str:
    """Format "false_positive_rate" as "False positive rate"."""
    text = str(name).replace("_", " ").strip()
    return text[:1].upper() + text[1:]


def environment() -> Environment:
    """Return the jinja2 environment of all templates. It escapes all text and refuses undefined
    names."""
    made = Environment(
        loader=PackageLoader("audit", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "pct": share,
        "points": signed_points,
        "drop": drop_points,
        "p": pvalue,
        "pvalue": bare_pvalue,
        "number": number,
        "count": count,
        "words": words,
        "size": lambda x: signed_points(x).removeprefix("+"),  # for values without a direction
        "limit": lambda x: (
            "none" if x is not None and x >= 1 else signed_points(x).removeprefix("+")
        ),
        "bare_points": lambda x: signed_points(x).removesuffix(" points"),  # for intervals
        "bare_pct": lambda x: share(x).removesuffix(" %"),
        "scaled": scaled,
        "three": lambda x: f"{x + 0.0:.3f}".replace("-0.000", "0.000"),  # as the paper prints
        "finite": lambda x: x if x is not None and math.isfinite(x) else None,
    }
    return made


def render_page(
    template: str | Path,
    *,
    rows: Sequence[CellRows],
    scripts: Sequence[str] = (),
    css: str = "",
    gates: Mapping[str, GateWord] | None = None,
    gated: Sequence[Gated] = (),
    labels: Mapping[str, str] | None = None,
    **values: Any,
) -> str:
    """Render a page in the shell of all reports.

    Parameters
    ----------
    template : str or Path
        A template of the package, such as "perturb/page.html.j2", or the file of another package.
    rows : sequence of CellRows
        The rows of every model and benchmark.
    scripts : sequence of str
        Further scripts of the package, after shared.js.
    css : str
        Further styles, after page.css.
    gates : mapping or None
        The words for gate names.
    gated : sequence of Gated
        The columns of the gate matrix.
    labels : mapping or None
        The words for other names that the template prints.
    values : Any
        Further values of the template.

    Returns
    -------
    str
        HTML.
    """
    style = _read("report/page.css") + css
    js = "".join(map(_read, ("report/shared.js", *scripts)))
    made = environment()
    made.filters["gate"] = lambda name: (
        gates[name].title if gates and name in gates else words(name)
    )
    made.filters["gate_input"] = lambda name: gates[name].reads if gates and name in gates else ""
    made.filters["words"] = lambda name: labels[name] if labels and name in labels else words(name)
    missing = [r for r in rows if not r.complete]
    if isinstance(template, Path):
        made.loader = ChoiceLoader([PackageLoader("audit", ""), FileSystemLoader(template.parent)])
        template = template.name
    gate_names: set[str] = set()
    for column in gated:
        gate_names.update(gate.name for gate in column.gates if gate.items)
    return made.get_template(template).render(
        policy=policy(js, style),
        css=style,
        js=js,
        missing=missing,
        complete_it=COMPLETE_IT,
        many=len(rows) > 1,
        refresh_s=REFRESH_S.get(),
        so_far=SO_FAR.get(),
        gated=gated,
        gate_names=sorted(gate_names),
        **values,
    )


def _read(name: str) -> str:
    return files("audit").joinpath(name).read_text(encoding="utf-8")


def policy(js: str, css: str) -> str:
    """Return the Content-Security-Policy. It allows one script and one style sheet, and no
    request."""
    return (
        f"default-src 'none'; script-src '{_sha256(js)}'; style-src '{_sha256(css)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    if re.search(r"</(script|style)", text, re.IGNORECASE) or "\r" in text:
        raise ValueError(
            "The page's script or style sheet holds its end tag or a carriage return. "
            "Expected neither, since such text cannot be embedded."
        )
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


Segments = list[tuple[str, str]]  # text, and its state: "" (kept), "new" or "gone"


def word_diff(original: str, other: str) -> Segments:
    """Compare two texts word by word.

    Parameters
    ----------
    original, other : str
        The texts.

    Returns
    -------
    list of (str, str)
        Texts, each with its state: "" (kept), "new" (only in `other`) or "gone" (only in
        `original`).

    Examples
    --------
    >>> word_diff("What is the capital?", "What city is the main one?")
    [('What ', ''), ('city ', 'new'), ('is the ', ''), ('capital? ', 'gone'), ('main one?', 'new')]
    """
    a, b = original.split(), other.split()
    if a == b:  # Only blanks differ, so the text is shown as unchanged.
        return [(other, "")]
    segments: Segments = []
    for tag, from_, to, start, end in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if from_ < to and tag != "equal":
            segments.append((" ".join(a[from_:to]) + " ", "gone"))
        if start < end:
            text = " ".join(b[start:end]) + (" " if end < len(b) else "")
            segments.append((text, "" if tag == "equal" else "new"))
    return segments
