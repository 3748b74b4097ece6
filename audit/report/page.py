"""Render the common frame of all report pages: head, styles and scripts.

A page has two defences against hostile text:

- Escaping: jinja2 escapes all text, and the script of a page changes only `textContent`.
- The Content-Security-Policy: it allows one script and one style sheet, identified by their hashes,
  and no network requests.
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

# Number of seconds after which the page of a run in progress reloads itself (`audit report
# --follow`). With 0, the page never reloads.
REFRESH_S: ContextVar[int] = ContextVar("refresh_s", default=0)
SO_FAR: ContextVar[str] = ContextVar("so_far", default="")  # text on the progress of the run


@dataclass(frozen=True)
class RunFacts:
    """Hold the facts about one run as texts: main facts, further facts and prompt templates.

    The facts come from the manifest of the run.
    """

    title: str
    main: tuple[tuple[str, str], ...] = ()
    more: tuple[tuple[str, str], ...] = ()
    prompts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Gated:
    """Hold one column of the table of checks. The checks (gates) test the measurement.

    Parameters
    ----------
    label : str
        Title of the column.
    gates : sequence of Gate
        Results of the checks in this column.
    where : mapping
        Maps filters of the page to values. With these values, the page shows only the questions of
        this column.
    """

    label: str
    gates: Sequence[Gate]
    where: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Mark:
    """Hold one entry of the strip of decisions at the top of a page.

    An entry states the verdict of an audit on a model in plain language.

    Parameters
    ----------
    audit, who : str
        Names of the audit and of the judged model.
    word : VerdictWord
        Texts that describe the verdict, such as its label.
    note : str
        A remark beside the verdict.
    href : str
        The link to the evidence.
    sure : str
        A description of how certain the verdict is.
    decision : str
        The decision that the gate would make from this entry alone. It is empty if the page states
        the decision elsewhere.
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
    """Hold the error rates of an audit's decision procedure.

    Parameters
    ----------
    who : str
        Name of the model.
    rates : tuple of (str, float, float or None)
        For each kind of error, a tuple of its description, its rate (0-1) in simulated models, and
        the standard error of the rate.
    sentence : str
        A sentence that states all measured rates.
    sensitivity : tuple of str
        Sentences on how often the audit finds planted memory.
    """

    who: str
    rates: tuple[tuple[str, float, float | None], ...]
    sentence: str
    sensitivity: tuple[str, ...] = ()


def errors_of(results: Sequence[CellResult], named: Mapping[str, str]) -> list[Errors]:
    """Return the error rates of the calibrated designs of the given results.

    A design that several results share is returned once.

    Parameters
    ----------
    results : sequence of CellResult
        Results of the judged models.
    named : mapping
        Maps the key of each rate to a description of the errors that are counted, in the order of
        the page.

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
    """Return the entries of the strip of decisions at the top of an audit's page.

    Parameters
    ----------
    verdict : JudgedRun
        Verdict on the run.
    words : mapping
        Maps each verdict of this audit to its texts.

    Returns
    -------
    list of Mark
        One entry for each model and benchmark.
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
    """Format a share as a percentage, such as 0.71 as "71.0 %".

    All shares have one decimal, so that columns are aligned.
    """
    return percent(value, whole=False)


def number(value: Any) -> str:
    """Format a number with four significant digits, or a whole number with thousands separators.

    Other values are returned as text.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return DASH
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}".replace("-", "−")


def count(value: float | None) -> str:
    """Format a count as `number` does, but with one decimal if it is not a whole number.

    For example, a mean over replicates is not whole.
    """
    return number(value) if value is None or float(value).is_integer() else f"{value:,.1f}"


def words(name: str) -> str:
    """Convert a key to words, such as "false_positive_rate" to "False positive rate"."""
    text = str(name).replace("_", " ").strip()
    return text[:1].upper() + text[1:]


def environment() -> Environment:
    """Return the jinja2 environment of all templates.

    The environment escapes all text, and raises an error for undefined names.
    """
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
        # three decimals, as in the tables of the paper
        "three": lambda x: f"{x + 0.0:.3f}".replace("-0.000", "0.000"),
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
    """Render a template as a page within the common frame of all reports.

    Parameters
    ----------
    template : str or Path
        The name of a template in this package, such as "perturb/page.html.j2", or the path of a
        file in another package.
    rows : sequence of CellRows
        The numbers of stored and expected rows of every model and benchmark.
    scripts : sequence of str
        Further scripts of this package. They follow shared.js.
    css : str
        Further styles. They follow page.css.
    gates : mapping or None
        Maps the name of each check (gate) to its texts.
    gated : sequence of Gated
        Columns of the table of checks (gates).
    labels : mapping or None
        Maps further names to the texts that the template prints for these names.
    values : Any
        Further values that the template uses.

    Returns
    -------
    str
        The HTML document.
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
    """Return the Content-Security-Policy of a page.

    It allows only the given script and style sheet, and no network requests.
    """
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


Segments = list[tuple[str, str]]  # pairs of a text and its state: "" (kept), "new" or "gone"


def word_diff(original: str, other: str) -> Segments:
    """Compare two texts word by word.

    Parameters
    ----------
    original, other : str
        The texts.

    Returns
    -------
    list of (str, str)
        The pieces of both texts in order. Each piece has a state: "" (in both texts), "new" (only
        in `other`) or "gone" (only in `original`).

    Examples
    --------
    >>> word_diff("What is the capital?", "What city is the main one?")
    [('What ', ''), ('city ', 'new'), ('is the ', ''), ('capital? ', 'gone'), ('main one?', 'new')]
    """
    a, b = original.split(), other.split()
    if a == b:  # Only white space differs, so the text is shown as unchanged.
        return [(other, "")]
    segments: Segments = []
    for tag, from_, to, start, end in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if from_ < to and tag != "equal":
            segments.append((" ".join(a[from_:to]) + " ", "gone"))
        if start < end:
            text = " ".join(b[start:end]) + (" " if end < len(b) else "")
            segments.append((text, "" if tag == "equal" else "new"))
    return segments
