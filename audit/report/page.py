"""The shell of every report's page, and the two walls between hostile text and the reader: jinja2 escapes everything it
prints and a page's script sets nothing but `textContent`; the Content-Security-Policy runs only the one script and
style sheet whose hashes it names, and allows no request."""

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

from audit.decision import verdict_of
from audit.records import CellRows
from audit.verdict.result import DASH, Gate, bare_pvalue, drop_points, percent, pvalue, scaled, signed_points
from audit.verdict.run import CellResult, JudgedRun
from audit.verdict.vocabulary import COMPLETE_IT, GateWord, VerdictWord, subtitle, word_of

NOT_CALIBRATED = (
    "No calibration is given for this design. audit calibrate measures how often the procedure is wrong on it."
)

# Seconds after which a page loads itself again: of a run that goes on (`audit report --follow`). 0: it stays.
REFRESH_S: ContextVar[int] = ContextVar("refresh_s", default=0)
SO_FAR: ContextVar[str] = ContextVar("so_far", default="")  # how far it is


@dataclass(frozen=True)
class RunFacts:
    """What a manifest says about one run, as texts: the main facts, everything else, and the templates of prompts."""

    title: str
    main: tuple[tuple[str, str], ...] = ()
    more: tuple[tuple[str, str], ...] = ()
    prompts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Gated:
    """A column of the gate matrix. where: what filters the list of questions to this model's, by control."""

    label: str
    gates: Sequence[Gate]
    where: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Mark:
    """A place of the decision strip: what an audit says of a model. note: in plain words; href: where it says why."""

    audit: str
    who: str
    word: VerdictWord
    note: str = ""
    href: str = "#verdict"
    sure: str = ""


@dataclass(frozen=True)
class Errors:
    """How often a procedure is wrong. rates: (what happens to models of known truth, how often, its standard error),
    0-1. sentence: all that was measured; sensitivity: what the audit was measured to notice."""

    who: str
    rates: tuple[tuple[str, float, float | None], ...]
    sentence: str
    sensitivity: tuple[str, ...] = ()


def errors_of(results: Sequence[CellResult], named: Mapping[str, str]) -> list[Errors]:
    """The rates of each calibrated design once. named: a rate of the table -> what it is the share of, in order."""
    found: dict[str, Errors] = {}
    for r in results:
        rates, said = (r.calibration.rates, r.calibration.sentence) if r.calibration else ({}, NOT_CALIBRATED)
        known = ((k, what, rates.get(k)) for k, what in named.items())
        rows = ((what, rate, rates.get(f"{k}_se")) for k, what, rate in known if rate is not None)
        one = found.setdefault(said, Errors(r.model, tuple(rows), said))
        if r.sensitivity and r.sensitivity not in one.sensitivity:
            found[said] = replace(one, sensitivity=(*one.sensitivity, r.sensitivity))
    return list(found.values())


def marks_of(verdict: JudgedRun[Any, Any], words: Mapping[Any, VerdictWord]) -> list[Mark]:
    """The decision strip of one audit's page."""
    several = len({r.benchmark for r in verdict.results}) > 1
    marks = []
    for k, c in enumerate(verdict_of(verdict.to_dict()).cells, start=1):
        who = c.model + (f" on {c.benchmark}" if several else "") + (f" ({c.context})" if c.context else "")
        note = "; ".join(filter(None, (c.watermark, subtitle(words, c))))
        marks.append(Mark(verdict.audit, who, word_of(words, c), note, f"#cell-{k}"))
    return marks


def share(value: float | None) -> str:
    """0.71 -> '71.0 %': one decimal, so that a column of them stands in line."""
    return percent(value, whole=False)


def number(value: Any) -> str:
    """Four significant digits, whole numbers whole and with separators, texts as they are."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return DASH
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}".replace("-", "−")


def count(value: float | None) -> str:
    """As `number`, but fractions (expected numbers over replicates) with one decimal."""
    return number(value) if value is None or float(value).is_integer() else f"{value:,.1f}"


def words(name: str) -> str:
    """'false_positive_rate' -> 'False positive rate'."""
    text = str(name).replace("_", " ").strip()
    return text[:1].upper() + text[1:]


def environment() -> Environment:
    """What every report's template is rendered by: everything escaped, nothing undefined, numbers printed one way."""
    made = Environment(
        loader=PackageLoader("audit", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {
        "pct": share, "points": signed_points, "drop": drop_points,
        "p": pvalue, "pvalue": bare_pvalue, "number": number, "count": count, "words": words,
        "size": lambda x: signed_points(x).removeprefix("+"),  # of what has no direction
        "limit": lambda x: "none" if x is not None and x >= 1 else signed_points(x).removeprefix("+"),  # 1: everything
        "bare_points": lambda x: signed_points(x).removesuffix(" points"),  # for intervals
        "bare_pct": lambda x: share(x).removesuffix(" %"),
        "scaled": scaled,
        "three": lambda x: f"{x + 0.0:.3f}".replace("-0.000", "0.000"),  # as the paper prints
        "finite": lambda x: x if x is not None and math.isfinite(x) else None,
    }  # fmt: skip
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
    """A page of the shell, as text. template: such as "perturb/page.html.j2", or the file of an audit outside the
    package.

    rows: of every model and benchmark. scripts: files of the package, after shared.js; css: after page.css. gates: the
    words for gate names; gated: the columns of the gate matrix. labels: of the other names that the template prints
    with `words`. values: what else it prints.
    """
    style = _read("report/page.css") + css
    js = "".join(map(_read, ("report/shared.js", *scripts)))
    made = environment()
    made.filters["gate"] = lambda name: gates[name].title if gates and name in gates else words(name)
    made.filters["gate_input"] = lambda name: gates[name].reads if gates and name in gates else ""
    made.filters["words"] = lambda name: labels[name] if labels and name in labels else words(name)
    missing = [r for r in rows if not r.complete]
    if isinstance(template, Path):
        made.loader = ChoiceLoader([PackageLoader("audit", ""), FileSystemLoader(template.parent)])
        template = template.name
    return made.get_template(template).render(
        policy=policy(js, style), css=style, js=js, missing=missing, complete_it=COMPLETE_IT, many=len(rows) > 1,
        refresh_s=REFRESH_S.get(), so_far=SO_FAR.get(),
        gated=gated, gate_names=sorted({g.name for one in gated for g in one.gates if g.items}), **values,
    )  # fmt: skip


def _read(name: str) -> str:
    return files("audit").joinpath(name).read_text(encoding="utf-8")


def policy(js: str, css: str) -> str:
    """The Content-Security-Policy: one script and one style sheet by hash; no request to anywhere."""
    return (
        f"default-src 'none'; script-src '{_sha256(js)}'; style-src '{_sha256(css)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    if re.search(r"</(script|style)", text, re.IGNORECASE) or "\r" in text:
        raise ValueError("A script or style sheet of the page holds its own end tag or a CR; neither can be embedded.")
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


Segments = list[tuple[str, str]]  # text, and what became of it: "" kept, "new", or "gone"


def word_diff(original: str, other: str) -> Segments:
    """The words of `other`, with those marked that `original` does not have there, and those of `original` that went.

    >>> word_diff("What is the capital?", "What city is the main one?")
    [('What ', ''), ('city ', 'new'), ('is the ', ''), ('capital? ', 'gone'), ('main one?', 'new')]
    """
    a, b = original.split(), other.split()
    if a == b:  # only blanks changed: they are shown as they are
        return [(other, "")]
    segments: Segments = []
    for tag, from_, to, start, end in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if from_ < to and tag != "equal":
            segments.append((" ".join(a[from_:to]) + " ", "gone"))
        if start < end:
            text = " ".join(b[start:end]) + (" " if end < len(b) else "")
            segments.append((text, "" if tag == "equal" else "new"))
    return segments
