"""Determine which forms of contamination a suite's pass covers, at which dose, and the suite's
error rates.

The table is that of `audit calibrate audit=suite`. By design and world, it counts the simulated
models with each combination of outcomes of the audits. A form is passed under two conditions. An
audit that looks for it cleared the model. In a design no larger than this run's, the audit found
that form at that dose in at least LIKELY of the simulated models. Otherwise the form is not
examined. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import scipy

from audit.judging.document import Cell
from audit.judging.ladder import FINDINGS, Grade

# Audits in the order of a key's letters; validity makes no claim about memory.
AUDITS = (
    "sweep",
    "perturb",
    "memory",
)
FORMS = ("answers", "wording", "text")
DOSES = (0.15, 0.5)  # doses: shares of the published items that were learnt
LETTERS = {  # letter for the outcome of one audit of one model
    Grade.FOUND_STRONG: "F",
    Grade.FOUND_SUGGESTIVE: "S",
    Grade.CAUSE_UNKNOWN: "R",
    Grade.CHECK_FAILED: "O",
    Grade.NOT_IDENTIFIED: "O",
    Grade.UNDECIDED: "O",
    Grade.CLEARED: "C",
}
LIKELY = 0.8  # the conventional power (Cohen 1988)
# Largest distance of a design that counts as near, about that of three times the questions.
NEAR = 1.1
_SLACK = 1.1  # factor by which a run may have fewer items than its design, as a few are left out
_PLUS = {"references": 1}


@dataclass(frozen=True)
class Rate:
    """A share of simulated models with its exact 95 % interval, 0-1."""

    share: float
    low: float
    high: float
    models: int

    def __str__(self) -> str:
        return f"{100 * self.share:.0f} % [{100 * self.low:.0f}, {100 * self.high:.0f}]"


@dataclass(frozen=True)
class Share:
    """A share, count of total, with the exact 95 % interval of Clopper & Pearson (0-1)."""

    count: int
    total: int

    @property
    def value(self) -> float:
        """Return the share, 0-1."""
        return self.count / self.total

    @property
    def limits(self) -> tuple[float, float]:
        """Return the exact 95 % interval.

        Returns
        -------
        tuple of float
            Lower and upper limit, 0-1.

        Examples
        --------
        >>> [round(limit, 3) for limit in Share(0, 150).limits]
        [0.0, 0.024]
        """
        k, n = self.count, self.total
        low = 0.0 if k == 0 else float(scipy.stats.beta.ppf(0.025, k, n - k + 1))
        return low, 1.0 if k == n else float(scipy.stats.beta.ppf(0.975, k + 1, n - k))

    def __str__(self) -> str:
        return str(self.rate)

    @property
    def rate(self) -> Rate:
        """Return the share as a `Rate`."""
        return Rate(self.value, *self.limits, self.total)


@dataclass(frozen=True)
class Passed:
    """A form that an audit excludes at a dose (a share of the published items).

    found: simulated models in which the audit finds it. passes: simulated models with the form that
    all audits pass.
    """

    form: str
    dose: float
    audit: str
    found: Rate
    passes: Rate


@dataclass(frozen=True)
class SuiteError:
    """Error rates of all audits together, in the nearest design that was simulated.

    any_finding: clean models with any finding, by world. passes: contaminated models that pass, by
    form and dose.
    """

    design: Mapping[str, Any]
    audits: tuple[str, ...]
    any_finding: Mapping[str, Rate]
    clean_passes: Rate
    passes: Mapping[str, Rate]


@dataclass(frozen=True)
class Scope:
    """Hold the forms of contamination that a pass covers. `error` is None if no simulated design is
    near.
    """

    passed: tuple[Passed, ...]
    found: tuple[str, ...]
    not_examined: tuple[str, ...]
    error: SuiteError | None


@dataclass(frozen=True)
class Judged:
    """One audit of a model and benchmark.

    cell: its cell of the verdict. sees: the kinds that it detects (`instrument.KINDS`). thresholds:
    those of its run.
    """

    audit: str
    cell: Cell
    sees: frozenset[str]
    thresholds: Mapping[str, Any]

    @property
    def grade(self) -> Grade:
        """Return the grade of the cell."""
        return self.cell.grade


def world_of(form: str, dose: float) -> str:
    """Return the table's name of a world.

    Parameters
    ----------
    form : str
        One of FORMS.
    dose : float
        Share of the published items.

    Returns
    -------
    str
        Such as "text_15".

    Examples
    --------
    >>> world_of("text", 0.15)
    'text_15'
    """
    return f"{form}_{100 * dose:.0f}"


def any_found(counts: Mapping[str, int], audits: Sequence[str]) -> Share:
    """Return the share of models in which at least one of these audits has a finding, strong or
    suggestive.

    Parameters
    ----------
    counts : mapping
        Number of models by outcomes of the audits.
    audits : sequence of str
        Names of the audits.

    Returns
    -------
    Share
        Of all models.
    """
    return Share(
        sum(n for key, n in counts.items() if _letters(key, audits) & {"F", "S"}),
        sum(counts.values()),
    )


def all_cleared(counts: Mapping[str, int], audits: Sequence[str]) -> Share:
    """Return the share of models that all of these audits clear, so that the suite passes.

    Parameters
    ----------
    counts : mapping
        Number of models by outcomes of the audits.
    audits : sequence of str
        Names of the audits.

    Returns
    -------
    Share
        Of all models.
    """
    return Share(
        sum(n for key, n in counts.items() if {"C"} == _letters(key, audits)), sum(counts.values())
    )


def _letters(key: str, audits: Sequence[str]) -> set[str]:
    return {key[AUDITS.index(audit)] for audit in audits}


def nearest(table: Mapping[str, Any] | None, judged: Sequence[Judged]) -> Mapping[str, Any] | None:
    """Return the largest simulated design that is no larger than the run and near it.

    Parameters
    ----------
    table : mapping or None
        The table of `audit calibrate audit=suite`.
    judged : sequence of Judged
        The audits of the run.

    Returns
    -------
    mapping or None
        None without a near design, or if the run has another alpha or clears up to a larger effect
        than the table's models had.

    Notes
    -----
    The distance is the sum of |log| ratios of items, held-out items and 1 + references.
    """
    if table is None:
        return None
    if any(_laxer(audit.thresholds, table["thresholds"][audit.audit]) for audit in judged):
        return None
    sizes = _sizes(judged)
    near = []
    for entry in table["designs"]:
        ratios = []
        for name, size in sizes.items():
            ratios.append(size / (entry["design"][name] + _PLUS.get(name, 0)))
        distance = sum(abs(log(ratio)) for ratio in ratios if ratio > 0)
        if min(ratios) * _SLACK >= 1 and distance <= NEAR:
            near.append((distance, entry))
    return min(near, key=lambda candidate: candidate[0])[1] if near else None


def _laxer(limits: Mapping[str, Any], measured: Mapping[str, float]) -> bool:
    if limits.get("alpha") != measured["alpha"]:
        return True
    return limits.get("effect_of_interest", 1.0) > measured["effect_of_interest"]


def _sizes(judged: Sequence[Judged]) -> dict[str, int]:
    sizes = {"n": min(audit.cell.n_questions for audit in judged)}
    fresh = []
    for audit in judged:
        if audit.audit == "memory":
            fresh.append(audit.cell.n_fresh)
    if fresh:
        sizes["fresh"] = fresh[0]
    references = []
    for audit in judged:
        if audit.audit != "sweep":
            references.append(len(audit.cell.references))
    if references:
        sizes["references"] = 1 + min(references)
    return sizes


def scope(judged: Sequence[Judged], table: Mapping[str, Any] | None) -> Scope | None:
    """Return the conclusion of all audits of one model and benchmark on each form.

    Parameters
    ----------
    judged : sequence of Judged
        The audits of one model and benchmark.
    table : mapping or None
        The table of `audit calibrate audit=suite`.

    Returns
    -------
    Scope or None
        With the error of all audits together; None if no audit makes a claim about memory.
    """
    if not judged:
        return None
    names = {audit.audit for audit in judged}
    audits = [name for name in AUDITS if name in names]
    entry = nearest(table, judged)
    seen_forms: set[str] = set()
    for audit in judged:
        if audit.grade in FINDINGS:
            seen_forms |= audit.sees
    seen: list[str] = []
    passed: list[Passed] = []
    not_examined: list[str] = []
    for form in FORMS:
        doses = [] if entry is None else _passed(form, audits, judged, entry)
        if form in seen_forms:
            seen.append(form)
        elif doses:
            passed.append(doses[0])
        else:
            not_examined.append(form)
    return Scope(
        passed=tuple(passed),
        found=tuple(seen),
        not_examined=tuple(not_examined),
        error=None if entry is None else _error(entry, audits),
    )


def _passed(
    form: str, audits: Sequence[str], judged: Sequence[Judged], entry: Mapping[str, Any]
) -> list[Passed]:
    """Return an entry for each dose that a clearing audit finds often enough, the smallest dose
    first.
    """
    passed = []
    for dose in DOSES:
        counts = entry["counts"][world_of(form, dose)]
        for audit in judged:
            detected = any_found(counts, [audit.audit])
            if audit.grade == Grade.CLEARED and form in audit.sees and detected.value >= LIKELY:
                passed.append(
                    Passed(form, dose, audit.audit, detected.rate, all_cleared(counts, audits).rate)
                )
    return passed


def _error(entry: Mapping[str, Any], audits: Sequence[str]) -> SuiteError:
    clean = {}
    for name, counts in entry["counts"].items():
        if name.startswith("clean"):
            clean[name] = counts
    dosed = {}
    for name, counts in entry["counts"].items():
        if name not in clean:
            dosed[name] = counts
    findings = {}
    for name, counts in clean.items():
        findings[name] = any_found(counts, audits).rate
    passes = {}
    for name, counts in dosed.items():
        passes[name] = all_cleared(counts, audits).rate
    return SuiteError(
        design=dict(entry["design"]),
        audits=tuple(audits),
        any_finding=findings,
        clean_passes=all_cleared(clean["clean"], audits).rate,
        passes=passes,
    )


def words(scopes: Sequence[Scope]) -> str:
    """Return the forms that a pass covers in every scope.

    Parameters
    ----------
    scopes : sequence of Scope
        One for each model and benchmark.

    Returns
    -------
    str
        Such as "wording (15 %); not examined: answers, text".
    """
    covered, not_examined = [], []
    for form in FORMS:
        dose = _dose(scopes, form)
        if dose is None:
            not_examined.append(form)
        else:
            covered.append(f"{form} ({100 * dose:.0f} %)")
    passed = ", ".join(covered) or "no form of memory"
    return f"{passed}; not examined: {', '.join(not_examined)}" if not_examined else passed


def unmet(scopes: Sequence[Scope], required: Mapping[str, float]) -> str:
    """Return why a pass does not meet a suite's required forms and doses; empty if it does.

    Parameters
    ----------
    scopes : sequence of Scope
        One for each model and benchmark.
    required : mapping
        Dose by form.

    Returns
    -------
    str
        Names the forms that were not examined, and what to add.
    """
    missing = []
    for form, dose in required.items():
        covered = _dose(scopes, form)
        if covered is None or covered > dose:
            missing.append(f"{form} at {100 * dose:.0f} %")
    if not missing:
        return ""
    problem = f"governance.forms_required: not examined: {', '.join(missing)}. No decision."
    return f"{problem} Add the audit that looks for it, more items or more references."


def _dose(scopes: Sequence[Scope], form: str) -> float | None:
    """Return the smallest dose at which a form is passed in every scope; None if a scope does not
    pass it.
    """
    largest = None
    for scope in scopes:
        doses = []
        for passed in scope.passed:
            if passed.form == form:
                doses.append(passed.dose)
        if not doses:
            return None
        largest = min(doses) if largest is None else max(largest, min(doses))
    return largest


def sentences(scope: Scope) -> tuple[str, ...]:
    """Return a scope in sentences, for the page and the gate.

    Parameters
    ----------
    scope : Scope
        The scope of one model and benchmark.

    Returns
    -------
    tuple of str
        The passed forms, the others, and the error rates.
    """
    lines = []
    for passed in scope.passed:
        lines.append(
            f"Passed: {passed.form}, {100 * passed.dose:.0f} % of the items; the {passed.audit} audit finds that in "
            f"{passed.found} of simulated models, and {passed.passes} of them pass everything."
        )
    if scope.not_examined:
        lines.append(
            f"Not cleared: {', '.join(scope.not_examined)}. No audit here excludes it with a measured sensitivity of "
            f"{100 * LIKELY:.0f} %."
        )
    error = scope.error
    if error is None:
        return (
            *lines,
            "The error of these audits together was not simulated for a design near this one.",
        )
    d = error.design
    accused = "; ".join(f"{_WORLDS[name]} {rate}" for name, rate in error.any_finding.items())
    doses = {}
    for name in error.passes:
        doses[name] = name.replace("all_", "all three forms_").replace("_", " ")
    passes = ", ".join(f"{doses[name]} % {rate}" for name, rate in error.passes.items())
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
