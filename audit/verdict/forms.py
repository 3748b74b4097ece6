"""Which forms of contamination a suite's pass speaks of, at which dose, and how often the suite itself is wrong (pure).

The table is that of `audit calibrate audit=suite`: by design and world, how many simulated models had which outcomes of
the audits together. A form is passed where an audit that looks for it cleared the model, and found that form at that
dose in at least LIKELY of simulated models of a design no larger than this run's. Else it is not examined.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import scipy

from audit.judging.ladder import FINDINGS, Grade
from audit.verdict.document import Cell

AUDITS = ("sweep", "perturb", "memory")  # in the order of a key's letters; validity makes no claim about memory
FORMS = ("answers", "wording", "text")
DOSES = (0.15, 0.5)  # shares of the published items
LETTERS = {  # of one model, one audit
    Grade.FOUND_STRONG: "F",
    Grade.FOUND_SUGGESTIVE: "S",
    Grade.CAUSE_UNKNOWN: "R",
    Grade.CHECK_FAILED: "O",
    Grade.NOT_IDENTIFIED: "O",
    Grade.UNDECIDED: "O",
    Grade.CLEARED: "C",
}
LIKELY = 0.8  # Cohen 1988, of power
NEAR = 1.1  # the largest distance at which a design is near: three times the questions, say
_SLACK = 1.1  # a run has so much less than its design, as a few items are left out
_PLUS = {"references": 1}


@dataclass(frozen=True)
class Rate:
    """A share of simulated models with its exact 95 % interval, 0-1, as verdict.json has it."""

    share: float
    low: float
    high: float
    models: int

    def __str__(self) -> str:
        return f"{100 * self.share:.0f} % [{100 * self.low:.0f}, {100 * self.high:.0f}]"


@dataclass(frozen=True)
class Share:
    """count of total, with the exact 95 % interval of Clopper & Pearson (0-1)."""

    count: int
    total: int

    @property
    def value(self) -> float:
        return self.count / self.total

    @property
    def limits(self) -> tuple[float, float]:
        k, n = self.count, self.total
        low = 0.0 if k == 0 else float(scipy.stats.beta.ppf(0.025, k, n - k + 1))
        return low, 1.0 if k == n else float(scipy.stats.beta.ppf(0.975, k + 1, n - k))

    def __str__(self) -> str:
        return str(self.rate)

    @property
    def rate(self) -> Rate:
        return Rate(self.value, *self.limits, self.total)


@dataclass(frozen=True)
class Passed:
    """A form that an audit excludes at a dose (a share of the published items).

    found: simulated models of which the audit finds it. passes: of these, which all audits pass.
    """

    form: str
    dose: float
    audit: str
    found: Rate
    passes: Rate


@dataclass(frozen=True)
class SuiteError:
    """How often all audits together are wrong, in the nearest design that was simulated.

    any_finding: clean models of which something is found, by world. passes: contaminated models that pass, by form and
    dose.
    """

    design: Mapping[str, Any]
    audits: tuple[str, ...]
    any_finding: Mapping[str, Rate]
    clean_passes: Rate
    passes: Mapping[str, Rate]


@dataclass(frozen=True)
class Scope:
    """Which forms of contamination a pass speaks of. error: None if no simulated design is near."""

    passed: tuple[Passed, ...]
    found: tuple[str, ...]
    not_examined: tuple[str, ...]
    error: SuiteError | None


@dataclass(frozen=True)
class Judged:
    """One audit of a model and benchmark: its cell of the verdict, what it sees (of `instrument.KINDS`) and the
    thresholds of its run."""

    audit: str
    cell: Cell
    sees: frozenset[str]
    thresholds: Mapping[str, Any]

    @property
    def grade(self) -> Grade:
        return self.cell.grade


def world_of(form: str, dose: float) -> str:
    """The table's name of a world: ("text", 0.15) -> "text_15"."""
    return f"{form}_{100 * dose:.0f}"


def any_found(counts: Mapping[str, int], audits: Sequence[str]) -> Share:
    """Return the models of which one of these audits at least finds something, strong or suggestive."""
    return Share(sum(n for key, n in counts.items() if _letters(key, audits) & {"F", "S"}), sum(counts.values()))


def all_cleared(counts: Mapping[str, int], audits: Sequence[str]) -> Share:
    """Models that all of these audits clear: the suite passes."""
    return Share(sum(n for key, n in counts.items() if {"C"} == _letters(key, audits)), sum(counts.values()))


def _letters(key: str, audits: Sequence[str]) -> set[str]:
    return {key[AUDITS.index(audit)] for audit in audits}


def nearest(table: Mapping[str, Any] | None, judged: Sequence[Judged]) -> Mapping[str, Any] | None:
    """The largest design that is no larger than the run and near it, by the sum of |log| ratios of items, held-out
    items and 1 + references; None without one. A run with another alpha, or that clears up to a larger effect than the
    table's models were, is near none."""
    if table is None or any(_laxer(one.thresholds, table["thresholds"][one.audit]) for one in judged):
        return None
    sizes = _sizes(judged)
    near = []
    for entry in table["designs"]:
        ratios = [size / (entry["design"][name] + _PLUS.get(name, 0)) for name, size in sizes.items()]
        far = sum(abs(log(ratio)) for ratio in ratios if ratio > 0)
        if min(ratios) * _SLACK >= 1 and far <= NEAR:
            near.append((far, entry))
    return min(near, key=lambda one: one[0])[1] if near else None


def _laxer(own: Mapping[str, Any], measured: Mapping[str, float]) -> bool:
    return own.get("alpha") != measured["alpha"] or own.get("effect_of_interest", 1.0) > measured["effect_of_interest"]


def _sizes(judged: Sequence[Judged]) -> dict[str, int]:
    sizes = {"n": min(one.cell.n_questions for one in judged)}
    if fresh := [one.cell.n_fresh for one in judged if one.audit == "memory"]:
        sizes["fresh"] = fresh[0]
    if many := [len(one.cell.references) for one in judged if one.audit != "sweep"]:
        sizes["references"] = 1 + min(many)
    return sizes


def scope(judged: Sequence[Judged], table: Mapping[str, Any] | None) -> Scope | None:
    """Return what the audits of one model and benchmark say of each form, and the error of all of them together; None
    if no audit makes a claim about memory."""
    if not judged:
        return None
    audits = [audit for audit in AUDITS if any(one.audit == audit for one in judged)]
    entry = nearest(table, judged)
    found = tuple(form for form in FORMS if any(one.grade in FINDINGS and form in one.sees for one in judged))
    passed = [] if entry is None else [one for form in FORMS for one in _passed(form, audits, judged, entry)[:1]]
    settled = {*found, *(one.form for one in passed)}
    return Scope(
        passed=tuple(one for one in passed if one.form not in found),
        found=found,
        not_examined=tuple(form for form in FORMS if form not in settled),
        error=None if entry is None else _error(entry, audits),
    )


def _passed(form: str, audits: Sequence[str], judged: Sequence[Judged], entry: Mapping[str, Any]) -> list[Passed]:
    """Return an entry for each dose that a clearing audit finds often enough, the smallest dose first."""
    passed = []
    for dose in DOSES:
        counts = entry["counts"][world_of(form, dose)]
        for one in judged:
            seen = any_found(counts, [one.audit])
            if one.grade == Grade.CLEARED and form in one.sees and seen.value >= LIKELY:
                passed.append(Passed(form, dose, one.audit, seen.rate, all_cleared(counts, audits).rate))
    return passed


def _error(entry: Mapping[str, Any], audits: Sequence[str]) -> SuiteError:
    clean = {name: counts for name, counts in entry["counts"].items() if name.startswith("clean")}
    dosed = {name: counts for name, counts in entry["counts"].items() if name not in clean}
    return SuiteError(
        design=dict(entry["design"]),
        audits=tuple(audits),
        any_finding={name: any_found(counts, audits).rate for name, counts in clean.items()},
        clean_passes=all_cleared(clean["clean"], audits).rate,
        passes={name: all_cleared(counts, audits).rate for name, counts in dosed.items()},
    )


def words(scopes: Sequence[Scope]) -> str:
    """What a pass speaks of, in every scope: "wording (15 %); not examined: answers, text"."""
    held = {form: dose for form in FORMS if (dose := _dose(scopes, form)) is not None}
    passed = ", ".join(f"{form} ({100 * dose:.0f} %)" for form, dose in held.items()) or "no form of memory"
    left = [form for form in FORMS if form not in held]
    return f"{passed}; not examined: {', '.join(left)}" if left else passed


def unmet(scopes: Sequence[Scope], required: Mapping[str, float]) -> str:
    """Why a pass does not hold where a suite requires forms at doses; empty where it does."""
    missing = [
        f"{form} at {100 * dose:.0f} %"
        for form, dose in required.items()
        if (held := _dose(scopes, form)) is None or held > dose
    ]
    if not missing:
        return ""
    said = f"governance.forms_required: not examined: {', '.join(missing)}. No decision."
    return f"{said} Add the audit that looks for it, more items or more references."


def _dose(scopes: Sequence[Scope], form: str) -> float | None:
    """The smallest dose at which a form is passed in every scope; None where it is not in one of them."""
    doses = [min((p.dose for p in scope.passed if p.form == form), default=None) for scope in scopes]
    return None if not doses or None in doses else max(d for d in doses if d is not None)


def sentences(scope: Scope) -> tuple[str, ...]:
    """Return the scope in sentences, for the page and the gate."""
    lines = [
        f"Passed: {one.form}, {100 * one.dose:.0f} % of the items; the {one.audit} audit finds that in {one.found} of "
        f"simulated models, and {one.passes} of them pass everything."
        for one in scope.passed
    ]
    if scope.not_examined:
        lines.append(
            f"Not cleared: {', '.join(scope.not_examined)}. No audit here excludes it with a measured sensitivity of "
            f"{100 * LIKELY:.0f} %."
        )
    error = scope.error
    if error is None:
        return (*lines, "The error of these audits together was not simulated for a design near this one.")
    d = error.design
    accused = "; ".join(f"{_WORLDS[name]} {one}" for name, one in error.any_finding.items())
    doses = {name: name.replace("all_", "all three forms_").replace("_", " ") for name in error.passes}
    passes = ", ".join(f"{doses[name]} % {one}" for name, one in error.passes.items())
    lines.append(
        f"All audits together ({', '.join(error.audits)}), simulated with {d['n']:,} items, {d['fresh']:,} held-out "
        f"items and {d['references']} references: something is found in this share of clean models: {accused}."
    )
    lines.append(f"A clean model passes in {error.clean_passes}; a contaminated one: {passes}.")
    return tuple(lines)


_WORLDS = {
    "clean": "references of like ability",
    "clean_abler_references": "references that are abler",
    "clean_larger": "a larger model than its references",
}
