"""Determine which forms of contamination the pass of a suite excludes, and the suite's error rates.

A suite is a set of audits. `audit calibrate audit=suite` simulates models and writes a table. For
each design and simulated world, the table counts the models by the combination of the audits'
outcomes. The error rates are computed from these counts.

A pass excludes a form at a dose (the share of items that were learnt) under two conditions:

- An audit that looks for this form cleared the model.
- In a simulated design that is no larger than the run's, this audit found the form at this dose in
  at least the share LIKELY of the models.

Otherwise the form counts as not examined. The module does no I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import scipy

from audit.judging.document import Cell
from audit.judging.ladder import FINDINGS, Grade

# Audits in the order of the letters in a key of the table. The validity audit has no letter, since
# it makes no statement about memory.
AUDITS = (
    "sweep",
    "perturb",
    "memory",
)
FORMS = ("answers", "wording", "text")
DOSES = (0.15, 0.5)  # shares of the published items that were learnt
LETTERS = {  # letter for the outcome of one audit in a key of the table
    Grade.FOUND_STRONG: "F",
    Grade.FOUND_SUGGESTIVE: "S",
    Grade.CAUSE_UNKNOWN: "R",
    Grade.CHECK_FAILED: "O",
    Grade.NOT_IDENTIFIED: "O",
    Grade.UNDECIDED: "O",
    Grade.CLEARED: "C",
}
LIKELY = 0.8  # smallest power at which a form counts as examined (Cohen 1988)
# Largest distance between a run and a simulated design that is used for it. A design with a third
# of the run's questions has about this distance.
NEAR = 1.1
# A design may have up to 1.1 times as many items as the run, since a run leaves out a few items.
_SLACK = 1.1
_PLUS = {"references": 1}


@dataclass(frozen=True)
class Rate:
    """Hold a share of simulated models with its exact 95 % interval, 0-1."""

    share: float
    low: float
    high: float
    models: int

    def __str__(self) -> str:
        return f"{100 * self.share:.0f} % [{100 * self.low:.0f}, {100 * self.high:.0f}]"


@dataclass(frozen=True)
class Share:
    """Hold a share, count / total, with the exact 95 % interval of Clopper & Pearson (0-1)."""

    count: int
    total: int

    @property
    def value(self) -> float:
        """Return the share, 0-1.

        Returns
        -------
        float
            The count divided by the total.

        Raises
        ------
        ZeroDivisionError
            If the total is 0.
        """
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
        """Return the share as a `Rate`.

        Returns
        -------
        Rate
            The share, its exact 95 % interval (each 0-1) and the total as the number of models.

        Raises
        ------
        ZeroDivisionError
            If the total is 0.
        """
        return Rate(self.value, *self.limits, self.total)


@dataclass(frozen=True)
class Passed:
    """Hold a form of contamination that an audit excludes at a dose (share of learnt published
    items).

    Attributes
    ----------
    found : Rate
        Share of simulated models with this form and dose in which the audit finds the form.
    passes : Rate
        Share of simulated models with this form and dose that pass all audits.
    """

    form: str
    dose: float
    audit: str
    found: Rate
    passes: Rate


@dataclass(frozen=True)
class SuiteError:
    """Hold the error rates of all audits together, in the nearest simulated design.

    Attributes
    ----------
    any_finding : mapping
        Map each simulated world without memory to the share of its models in which any audit has a
        finding.
    clean_passes : Rate
        Share of models without memory that pass all audits.
    passes : mapping
        Map each form and dose to the share of models with this contamination that pass all audits.
    """

    design: Mapping[str, Any]
    audits: tuple[str, ...]
    any_finding: Mapping[str, Rate]
    clean_passes: Rate
    passes: Mapping[str, Rate]


@dataclass(frozen=True)
class Scope:
    """Hold the forms of contamination that a pass excludes, and the forms that were not examined.

    Attributes
    ----------
    passed : tuple of Passed
        Forms that a pass excludes, each with its dose.
    found : tuple of str
        Forms that an audit found.
    not_examined : tuple of str
        Forms that were not examined, so that a pass does not exclude them.
    error : SuiteError or None
        Error rates of all audits together; None if no simulated design is near the run.
    """

    passed: tuple[Passed, ...]
    found: tuple[str, ...]
    not_examined: tuple[str, ...]
    error: SuiteError | None


@dataclass(frozen=True)
class Judged:
    """Hold the verdict of one audit on a model and benchmark.

    Attributes
    ----------
    cell : Cell
        Cell of the audit's verdict.
    sees : frozenset of str
        Kinds of contamination that the audit detects (`instrument.KINDS`).
    thresholds : mapping
        Thresholds of the audit's run.
    """

    audit: str
    cell: Cell
    sees: frozenset[str]
    thresholds: Mapping[str, Any]

    @property
    def grade(self) -> Grade:
        """Return the grade of the cell.

        Returns
        -------
        Grade
            Grade of the audit's verdict on this model and benchmark.
        """
        return self.cell.grade


def world_of(form: str, dose: float) -> str:
    """Return the name of a form and dose in the table of simulated worlds.

    Parameters
    ----------
    form : str
        Form of contamination, one of FORMS.
    dose : float
        Share of the published items that were learnt.

    Returns
    -------
    str
        Name of the world, such as "text_15".

    Examples
    --------
    >>> world_of("text", 0.15)
    'text_15'
    """
    return f"{form}_{100 * dose:.0f}"


def any_found(counts: Mapping[str, int], audits: Sequence[str]) -> Share:
    """Return the share of simulated models in which at least one of the audits has a finding.

    Strong and suggestive findings are both counted.

    Parameters
    ----------
    counts : mapping
        Map each combination of outcomes of the audits to its number of simulated models.
    audits : sequence of str
        Names of the audits.

    Returns
    -------
    Share
        Number of models with a finding, as a share of all models.
    """
    return Share(
        sum(n for key, n in counts.items() if _letters(key, audits) & {"F", "S"}),
        sum(counts.values()),
    )


def all_cleared(counts: Mapping[str, int], audits: Sequence[str]) -> Share:
    """Return the share of simulated models that all the audits clear, so that the models pass the
    suite.

    Parameters
    ----------
    counts : mapping
        Map each combination of outcomes of the audits to its number of simulated models.
    audits : sequence of str
        Names of the audits.

    Returns
    -------
    Share
        Number of models that pass, as a share of all models.
    """
    return Share(
        sum(n for key, n in counts.items() if {"C"} == _letters(key, audits)), sum(counts.values())
    )


def _letters(key: str, audits: Sequence[str]) -> set[str]:
    return {key[AUDITS.index(audit)] for audit in audits}


def nearest(table: Mapping[str, Any] | None, judged: Sequence[Judged]) -> Mapping[str, Any] | None:
    """Return the largest simulated design that is near the run and not larger than it.

    Parameters
    ----------
    table : mapping or None
        The table of `audit calibrate audit=suite`.
    judged : sequence of Judged
        Verdict of each audit of the run.

    Returns
    -------
    mapping or None
        Entry of the design in the table. The value is None in three cases:

        - no design is near the run;
        - alpha differs between the run and the table;
        - the smallest effect that matters is larger in the run than in the table.

    Notes
    -----
    The distance is the sum of |log(size in the design / size in the run)| over three sizes: the
    number of items, the number of held-out items, and the number of references plus 1.
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
    """Return which forms of contamination the audits of one model and benchmark exclude together.

    Parameters
    ----------
    judged : sequence of Judged
        Verdict of each audit on one model and benchmark.
    table : mapping or None
        The table of `audit calibrate audit=suite`.

    Returns
    -------
    Scope or None
        The forms, with the error rates of all audits together. None if no audit makes a statement
        about memory.
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
    """Return the doses at which a form is excluded, the smallest dose first.

    A dose is excluded if an audit cleared the model and detects this dose with enough power.
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
    """Return a phrase with the forms that a pass excludes for every model and benchmark.

    Parameters
    ----------
    scopes : sequence of Scope
        Scope of each model and benchmark.

    Returns
    -------
    str
        A phrase such as "wording (15 %); not examined: answers, text".
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
    """Return a message if a pass does not exclude all forms and doses that a suite requires.

    Parameters
    ----------
    scopes : sequence of Scope
        Scope of each model and benchmark.
    required : mapping
        Required dose of each form.

    Returns
    -------
    str
        Message with the forms that were not examined, and with what to add to the run. "" if a pass
        excludes all required forms.
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
    """Return the smallest dose at which every scope excludes a form; None if a scope does not
    exclude this form.
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
    """Return sentences that describe a scope, for the page and the gate.

    Parameters
    ----------
    scope : Scope
        Scope of one model and benchmark.

    Returns
    -------
    tuple of str
        Sentences on the forms that a pass excludes, on the remaining forms, and on the error rates.
    """
    lines = []
    for passed in scope.passed:
        lines.append(
            f"Passed: {passed.form}, {100 * passed.dose:.0f} % of the items. The {passed.audit} "
            f"audit finds it in {passed.found} of simulated models with it; {passed.passes} of "
            "them pass all audits."
        )
    if scope.not_examined:
        lines.append(
            f"Not cleared: {', '.join(scope.not_examined)}. No audit excludes these forms here "
            f"with a simulated sensitivity of at least {100 * LIKELY:.0f} %."
        )
    error = scope.error
    if error is None:
        return (
            *lines,
            "The error rates of these audits together were not simulated for a similar design.",
        )
    d = error.design
    accused = "; ".join(f"{_WORLDS[name]} {rate}" for name, rate in error.any_finding.items())
    doses = {}
    for name in error.passes:
        doses[name] = name.replace("all_", "all three forms_").replace("_", " ")
    passes = ", ".join(f"{doses[name]} % {rate}" for name, rate in error.passes.items())
    lines.append(
        f"All audits together ({', '.join(error.audits)}) were simulated with {d['n']:,} items, "
        f"{d['fresh']:,} held-out items and {d['references']} references. Share of clean models "
        f"with a finding: {accused}."
    )
    lines.append(
        f"Share of models that pass: {error.clean_passes} if clean; if contaminated, {passes}."
    )
    return tuple(lines)


_WORLDS = {
    "clean": "references as able as the model",
    "clean_abler_references": "references abler than the model",
    "clean_larger": "references smaller than the model",
}
