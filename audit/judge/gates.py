"""Define the gates that several audits share. A gate is a check of the data with a threshold."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from audit.core.number_text import percent
from audit.judging.result import Gate, Rule, ids_where
from audit.shards.keys import RequestCounts
from audit.statistics.chance import upper_limit
from audit.statistics.paired import CellOutcomes, FloatArray, State

# Limit for accuracies of exactly 1. If the probability of such an accuracy (over all conditions) is
# lower, the verdict is withheld.
IMPLAUSIBLE = 1e-3
# The agreement of two sets of outcomes is accepted if it lies at most this number of standard
# errors below its expected value.
_MARGIN = 3.5
_LIMIT_MIN = 1.5  # With a lower limit, more than one in ten wrong item orders would pass.
READ_ADVICE = (
    "Read some unparsed replies: raise max_tokens if they are cut off, correct the prompt, or read "
    "answers by letter_logprob or option_text."
)
_LOG_ADVICE = {
    "log_finished": "Finish the evaluation, then import its log.",
    "chance_known": "State the number of options: --options 4. If answers are free: --options 0.",
    "asked_alike": "Ask both sets at one temperature and with a sufficient token limit, or leave "
    "the named models out.",
    "counts_right": "Choose a score that counts right answers: --metric NAME. Write several trials "
    "as k/n.",
}
CHANCE_SOURCE = "mean of 1/k over the questions; conf/verdict: above_chance_standard_errors"


@dataclass(frozen=True)
class LogCheck:
    """Hold a check of imported logs; `detail` states the result in a sentence."""

    name: str
    passed: bool
    detail: str


def checks_of(analysis: Mapping[str, Any]) -> tuple[LogCheck, ...]:
    """Return the checks of imported logs from a manifest's `analysis`; empty for other runs."""
    return tuple(LogCheck(**check) for check in analysis.get("log_checks", ()))


def log_checks(checks: Iterable[LogCheck]) -> tuple[Gate, ...]:
    """Return the checks of imported logs as gates. A failed check withholds the verdict."""
    gates = []
    for check in checks:
        rule = Rule(check.name, 0.0, "the imported logs")
        advice = _LOG_ADVICE[check.name]
        gates.append(rule.checked(check.passed, float(not check.passed), check.detail, advice))
    return tuple(gates)


def above_chance(
    shown: str, z: float, chance: float, limit: float, numbers: Mapping[str, float | None]
) -> Gate:
    """Check that the accuracy exceeds guessing by at least `limit` standard errors.

    Parameters
    ----------
    shown : str
        The accuracy as text, for the sentence that states the result.
    z : float
        Accuracy minus chance, in standard errors. The gate reports z as its number.
    chance : float
        Accuracy of guessing (0-1).
    limit : float
        Smallest z that passes.
    numbers : mapping
        Further numbers to report, by name.

    Returns
    -------
    Gate
        Result of the check.
    """
    above = "above" if z > limit else "not above"
    detail = f"Accuracy ({shown}) is {above} guessing ({chance:.3f}) by {limit:g} standard errors."
    advice = (
        "A model that guesses has no score to audit. Check the prompt, the reading of answers and "
        "the gold labels, or take an easier benchmark."
    )
    rule = Rule("above_chance", limit, CHANCE_SOURCE)
    return rule.checked(z > limit, z, detail, advice, numbers=numbers)


def parsed(cell: CellOutcomes, least: float) -> Gate:
    """Check that enough answers of a cell were parsed.

    Parameters
    ----------
    cell : CellOutcomes
        Outcomes of one model on one benchmark.
    least : float
        Smallest share of parsed answers (0-1) that passes.

    Returns
    -------
    Gate
        Result of the check. Its number is the share of parsed answers.
    """
    unparsed = cell.state < State.WRONG
    share = float(1 - unparsed.mean())
    detail = f"{percent(share)} of the answers are parsed."
    ids = ids_where(cell.question_ids, np.any(unparsed, axis=0).tolist())
    rule = Rule("parseability", least, "conf/verdict: answered_share_min")
    return rule.checked(share >= least, share, detail, READ_ADVICE, items=ids)


def exact_values(
    rows: Sequence[tuple[str, FloatArray]],
    everything: FloatArray,
    unmoved: str,
    otherwise: str,
    advice: str,
    numbers: Mapping[str, float | None] | None = None,
) -> Gate:
    """Check that no condition has an accuracy of exactly 0 or 1.

    Such accuracies are rare in real data.

    Parameters
    ----------
    rows : sequence of (str, array)
        Name and outcomes of each condition; NaN for a missing outcome.
    everything : array
        Outcomes of all conditions together, for the overall accuracy.
    unmoved : str
        Description of a further implausible result; "" if there is none.
    otherwise : str
        Sentence that states the result if no accuracy is exactly 0 or 1.
    advice : str
        Advice to give if a value is implausible.
    numbers : mapping or None
        Further numbers that the gate reports, by name.

    Returns
    -------
    Gate
        Result of the check. Its number is the number of accuracies of exactly 0 or 1, plus 1 if
        `unmoved` is given.

    Notes
    -----
    A strong model sometimes answers all of 50 questions right. An accuracy of exactly 1 is
    therefore accepted if its probability, given the overall accuracy, exceeds 1 in 1,000 over all
    conditions. The gate then mentions this accuracy, but does not withhold the verdict.
    """
    pooled = float(np.nanmean(everything)) if np.any(~np.isnan(everything)) else float("nan")
    alarms: list[str] = []
    harmless: list[str] = []
    for condition, values in rows:
        answers = values[~np.isnan(values)]
        if answers.size and answers.mean() in (0.0, 1.0):
            value = f"accuracy of exactly {answers.mean():.0f} under {condition}"
            probable = pooled < 1 and len(rows) * pooled**answers.size > IMPLAUSIBLE
            if answers.mean() == 1.0 and probable:
                harmless.append(value)
            else:
                alarms.append(value)
    if unmoved:
        alarms.append(unmoved)
    exact = [*alarms, *harmless]
    sentence = "Found " + "; ".join(exact[:5]) + "."
    if not alarms:
        sentence += " At this overall accuracy, such values are plausible."
    source = "eight cells of song2026's Table 2 are exactly 0.00, worse than guessing"
    return Rule("exact_values", 0.0, source).checked(
        not exact,
        len(exact),
        sentence if exact else otherwise,
        advice if alarms else "",
        withholds=bool(alarms) or not harmless,
        numbers=numbers,
    )


def read_limits(read: int, requested: int) -> tuple[float, float]:
    """Return the 95 % interval of the share of parsed answers.

    Parameters
    ----------
    read, requested : int
        Number of parsed answers, and number of all answers.

    Returns
    -------
    tuple of float
        Lower and upper limit (0-1), by Clopper & Pearson (1934), Biometrika 26.
    """
    return 1 - upper_limit(requested - read, requested, 0.975), upper_limit(read, requested, 0.975)


def reached_model(
    name: str,
    counts: Iterable[RequestCounts],
    limit: float,
    sentence: str,
    advice: str,
    *,
    nothing: str,
    must: bool,
) -> Gate:
    """Check that the requests of two conditions differ.

    If the requests are equal, the comparison of the conditions tests nothing.

    Parameters
    ----------
    name : str
        Name of the gate.
    counts : iterable of RequestCounts
        Numbers of compared, equal and repeated requests, for each comparison.
    limit : float
        Largest share of equal requests that passes. The observed share is the number of the gate.
    sentence : str
        Template of the sentence that states the result, with the fields {compared}, {same} and
        {repeated}.
    advice : str
        Advice to give after a failure.
    nothing : str
        Sentence to use if no requests were compared.
    must : bool
        True if the verdict is withheld when no requests were compared.

    Returns
    -------
    Gate
        Result of the check.
    """
    counts = list(counts)
    compared = sum(c.compared for c in counts)
    same = sum(c.same_as_original for c in counts)
    repeated = sum(c.repeated for c in counts)
    rule = Rule(
        name,
        limit,
        "request_sha256 over the tokens that the model was sent; conf/verdict: noop_share_max",
    )
    if not compared:
        return rule.absent(nothing, withholds=must)
    share = (same + repeated) / compared
    items: list[str] = []
    for count in counts:
        items += count.items
    return rule.checked(
        share <= limit,
        share,
        sentence.format(compared=compared, same=same, repeated=repeated),
        advice,
        items=items,
    )


@dataclass(frozen=True)
class Agreement:
    """Hold how well two sets of outcomes agree, as a test of whether their items are in the same
    order.

    Parameters
    ----------
    z : float
        Correlation of the two sets over n items, multiplied by sqrt(n - 1).
    expected : float
        Expected z if both sets hold the same items in the same order.
    limit : float
        Smallest accepted z. A smaller z means that the order of the items differs.
    """

    z: float
    expected: float
    limit: float


def agreement(x: FloatArray, y: FloatArray, correlation: float, z_min: float) -> Agreement | None:
    """Return how well two arrays of outcomes agree that should be in the same order of items.

    Parameters
    ----------
    x, y : (n,) array
        Outcomes of the n items in each array.
    correlation : float
        Expected correlation of x and y if both are in the same order of items.
    z_min : float
        Upper bound on `Agreement.limit`.

    Returns
    -------
    Agreement or None
        The agreement. None if x or y is constant, or if the expected correlation is too small.
    """
    if x.std() == 0 or y.std() == 0:
        return None
    root = float(np.sqrt(x.size - 1))
    # `spread` is the standard error of z. Without agreement, the standard error is 1. If few items
    # are wrong, the standard error is larger, because a few coincidences then have a large effect.
    # For standardised 0/1 values x and y, E[x^2 y^2] = 1 + skew(x) skew(y) corr(x, y).
    spread = float(np.sqrt(max(1 + scipy.stats.skew(x) * scipy.stats.skew(y) * correlation, 1.0)))
    limit = min(z_min, correlation * root - _MARGIN * spread)
    if not limit >= _LIMIT_MIN:
        return None
    return Agreement(float(np.corrcoef(x, y)[0, 1]) * root, float(correlation * root), float(limit))
