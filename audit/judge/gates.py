"""Define checks of the data that several audits share, with one rule and one wording (pure)."""

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

# An accuracy of exactly 1 withholds the verdict if its probability over all conditions is smaller.
IMPLAUSIBLE = 1e-3
# Agreement may be below the expected value by this number of standard errors at any threshold.
_MARGIN = 3.5
_LIMIT_MIN = 1.5  # With a lower limit, one broken order in ten or more would pass.
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
    """Hold a check of the logs of an import. `detail` states the result as a sentence."""

    name: str
    passed: bool
    detail: str


def checks_of(analysis: Mapping[str, Any]) -> tuple[LogCheck, ...]:
    """Return the checks in a manifest's `analysis`. Only an imported run has checks."""
    return tuple(LogCheck(**check) for check in analysis.get("log_checks", ()))


def log_checks(checks: Iterable[LogCheck]) -> tuple[Gate, ...]:
    """Return the checks of an import as gates. Each failed check withholds the verdict."""
    gates = []
    for check in checks:
        rule = Rule(check.name, 0.0, "the imported logs")
        advice = _LOG_ADVICE[check.name]
        gates.append(rule.checked(check.passed, float(not check.passed), check.detail, advice))
    return tuple(gates)


def above_chance(
    shown: str, z: float, chance: float, limit: float, numbers: Mapping[str, float | None]
) -> Gate:
    """Check that the accuracy is above guessing by `limit` standard errors.

    Parameters
    ----------
    shown : str
        The accuracy as text.
    z : float
        The difference in standard errors. It is the number of the gate.
    chance : float
        The accuracy of guessing (0-1).
    limit : float
        The required z.
    numbers : mapping
        Further numbers of the gate.

    Returns
    -------
    Gate
        The check.
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
        The answers.
    least : float
        The smallest share of parsed answers (0-1).

    Returns
    -------
    Gate
        The check. Its number is the share of parsed answers.
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
    """Check for values that real data rarely give: an accuracy of exactly 0 or 1.

    Parameters
    ----------
    rows : sequence of (str, array)
        Condition and outcomes. NaN means no outcome.
    everything : array
        All outcomes.
    unmoved : str
        The text of a further alarm, or "".
    otherwise : str
        The sentence if no such value occurs.
    advice : str
        The advice if a value is implausible.
    numbers : mapping or None
        Further numbers of the gate.

    Returns
    -------
    Gate
        The check. Its number is the number of exact values.

    Notes
    -----
    A strong model is sometimes right on all of 50 questions. So an accuracy of exactly 1 is
    harmless if the overall accuracy makes it likely enough (1 in 1,000 over the rows). The gate
    then mentions it and does not withhold the verdict.
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
        sentence += " At this overall accuracy such values are likely enough."
    source = "eight cells of song2026's Table 2 are exactly 0.00, worse than guessing"
    return Rule("exact_values", 0.0, source).checked(
        not exact,
        len(exact),
        sentence if exact else otherwise,
        advice if alarms else "",
        withholds=bool(alarms) or not harmless,
        numbers=numbers,
    )


def read_limits(read: int, asked: int) -> tuple[float, float]:
    """Return the 95 % interval of the share of parsed answers.

    Parameters
    ----------
    read, asked : int
        Number of parsed answers, and of all answers.

    Returns
    -------
    tuple of float
        Lower and upper limit (0-1), by Clopper & Pearson (1934), Biometrika 26.
    """
    return 1 - upper_limit(asked - read, asked, 0.975), upper_limit(read, asked, 0.975)


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
    """Check that requests differ, because a request that equals another one tests nothing.

    Parameters
    ----------
    name : str
        The name of the gate.
    counts : iterable of RequestCounts
        The counts of compared requests.
    limit : float
        The largest share of equal requests. This share is the number of the gate.
    sentence : str
        A template with {compared}, {same} and {repeated}.
    advice : str
        The advice.
    nothing : str
        The sentence if no request was compared.
    must : bool
        True withholds the verdict if no request was compared.

    Returns
    -------
    Gate
        The check.
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
    """Hold the agreement of two rows of outcomes.

    Parameters
    ----------
    z : float
        The correlation of the rows, times sqrt(n - 1).
    expected : float
        The z that the agreement within each side predicts.
    limit : float
        The smallest z of rows that belong to the same items.
    """

    z: float
    expected: float
    limit: float


def agreement(x: FloatArray, y: FloatArray, correlation: float, z_min: float) -> Agreement | None:
    """Measure the agreement of two sides on the same items.

    Parameters
    ----------
    x, y : (n,) array
        The outcomes.
    correlation : float
        The expected correlation.
    z_min : float
        The largest value of the limit.

    Returns
    -------
    Agreement or None
        The agreement. None if a side is constant, or the expected correlation is too small.
    """
    if x.std() == 0 or y.std() == 0:
        return None
    root = float(np.sqrt(x.size - 1))
    # The spread is the standard error of z. It is 1 without agreement, and larger if few items are
    # wrong, because a few coincidences then decide. For standardised 0/1 values x and y,
    # E[x^2 y^2] = 1 + skew(x) skew(y) corr(x, y).
    spread = float(np.sqrt(max(1 + scipy.stats.skew(x) * scipy.stats.skew(y) * correlation, 1.0)))
    limit = min(z_min, correlation * root - _MARGIN * spread)
    if not limit >= _LIMIT_MIN:
        return None
    return Agreement(float(np.corrcoef(x, y)[0, 1]) * root, float(correlation * root), float(limit))
