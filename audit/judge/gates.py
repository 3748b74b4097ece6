"""Define checks that several audits make of their own data (pure), with the same rule and words."""

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

IMPLAUSIBLE = (
    # An accuracy of exactly 1 withholds the verdict if its probability over all conditions is
    # smaller.
    1e-3
)
_MARGIN = (
    3.5  # standard errors by which agreement may be below the expected, whatever the threshold
)
_LIMIT_MIN = 1.5  # With a lower limit, one broken order in ten or more would pass.
READ_ADVICE = (
    "Read some unparsed replies: raise max_tokens if they are cut off, mend the prompt, or read answers by "
    "letter_logprob or option_text."
)
_LOG_ADVICE = {
    "log_finished": "Finish the evaluation, then import its log.",
    "chance_known": "Give the number of options, such as --options 4; --options 0 if answers are free.",
    "asked_alike": "Ask both sets at one temperature and with room for whole replies, or leave the named models out.",
    "counts_right": "Choose a score that counts right answers: --metric NAME. Give several trials as k/n.",
}
CHANCE_SOURCE = "mean of 1/k over the questions; conf/verdict: above_chance_standard_errors"


@dataclass(frozen=True)
class LogCheck:
    """Hold a check that an import made of its logs; `detail` is a sentence in either case."""

    name: str
    passed: bool
    detail: str


def checks_of(analysis: Mapping[str, Any]) -> tuple[LogCheck, ...]:
    """Return the checks in a manifest's `analysis`; none if the run asked its models itself."""
    return tuple(LogCheck(**check) for check in analysis.get("log_checks", ()))


def log_checks(checks: Iterable[LogCheck]) -> tuple[Gate, ...]:
    """Return the checks of an import as gates. Each failed one withholds the verdict."""
    gates = []
    for check in checks:
        rule = Rule(check.name, 0.0, "the imported logs")
        gates.append(
            rule.checked(
                check.passed, float(not check.passed), check.detail, _LOG_ADVICE[check.name]
            )
        )
    return tuple(gates)


def above_chance(
    shown: str, z: float, chance: float, limit: float, numbers: Mapping[str, float | None]
) -> Gate:
    """Check that the accuracy is above guessing by `limit` standard errors.

    Parameters
    ----------
    shown : str
        The accuracy in words.
    z : float
        The difference in standard errors; the gate's number.
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
    return Rule("above_chance", limit, CHANCE_SOURCE).checked(
        z > limit,
        z,
        f"Accuracy ({shown}) is {'above' if z > limit else 'not above'} guessing ({chance:.3f}) by {limit:g} "
        "standard errors.",
        "A model that guesses has no score to audit: check the prompt, the reading of answers and the gold labels, or "
        "take an easier benchmark.",
        numbers=numbers,
    )


def parsed(cell: CellOutcomes, least: float) -> Gate:
    """Check that enough answers of a cell were parsed. number: their share."""
    unparsed = cell.state < State.WRONG
    share = float(1 - unparsed.mean())
    detail, ids = (
        f"{percent(share)} of the answers are parsed.",
        ids_where(cell.question_ids, np.any(unparsed, axis=0).tolist()),
    )
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
        Condition and outcomes (NaN: none).
    everything : array
        All outcomes.
    unmoved : str
        A further alarm; "" for none.
    otherwise : str
        The sentence if there is no such value.
    advice : str
        The advice.
    numbers : mapping or None
        Further numbers of the gate.

    Returns
    -------
    Gate
        Its number is the number of values.

    Notes
    -----
    A strong model is sometimes right on all of 50 questions. So an exact 1 is harmless if the
    accuracy over everything makes it likely enough (1 in 1,000 over the rows). It is then shown,
    and withholds nothing.
    """
    pooled = float(np.nanmean(everything)) if np.any(~np.isnan(everything)) else float("nan")
    alarms: list[str] = []
    harmless: list[str] = []
    for condition, values in rows:
        answers = values[~np.isnan(values)]
        if answers.size and answers.mean() in (0.0, 1.0):
            likely = (
                answers.mean() == 1.0
                and pooled < 1
                and len(rows) * pooled**answers.size > IMPLAUSIBLE
            )
            (harmless if likely else alarms).append(
                f"accuracy of exactly {answers.mean():.0f} under {condition}"
            )
    if unmoved:
        alarms.append(unmoved)
    values_seen = [*alarms, *harmless]
    sentence = "Found " + "; ".join(values_seen[:5]) + "."
    if not alarms:
        sentence += " At this accuracy that is likely enough."
    return Rule(
        "exact_values",
        0.0,
        "eight cells of song2026's Table 2 are exactly 0.00, worse than guessing",
    ).checked(
        not values_seen,
        len(values_seen),
        sentence if values_seen else otherwise,
        advice if alarms else "",
        withholds=bool(alarms) or not harmless,
        numbers=numbers,
    )


def read_limits(read: int, asked: int) -> tuple[float, float]:
    """Return the 95 % interval of the share of answers that can be read.

    Parameters
    ----------
    read, asked : int
        Parsed answers, and all answers.

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
    """Check that requests differ: one equal to the original, or to another, tests nothing.

    Parameters
    ----------
    name : str
        The gate.
    counts : iterable of RequestCounts
        The counts of compared requests.
    limit : float
        The largest share of equal requests; the gate's number.
    sentence : str
        With {compared}, {same} and {repeated}.
    advice : str
        The advice.
    nothing : str
        The sentence if no request was compared.
    must : bool
        Whether that withholds the verdict.

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
    """Hold how two rows of outcomes agree.

    Parameters
    ----------
    z : float
        Their correlation x sqrt(n - 1).
    expected : float
        The same, from the agreement within each side.
    limit : float
        Below it they seem to belong to different items.
    """

    z: float
    expected: float
    limit: float


def agreement(x: FloatArray, y: FloatArray, correlation: float, z_min: float) -> Agreement | None:
    """Measure how two sides agree on the same items.

    Parameters
    ----------
    x, y : (n,) array
        The outcomes.
    correlation : float
        The expected correlation.
    z_min : float
        The largest limit.

    Returns
    -------
    Agreement or None
        None if the expected correlation is too small to tell.
    """
    if x.std() == 0 or y.std() == 0:
        return None
    root = float(np.sqrt(x.size - 1))
    # This is the standard error of z: 1 without agreement, and more if few items are wrong, because
    # then a few coincidences decide. For standardised 0/1 values x and y, E[x^2 y^2] = 1 + skew(x)
    # skew(y) corr(x, y).
    spread = float(np.sqrt(max(1 + scipy.stats.skew(x) * scipy.stats.skew(y) * correlation, 1.0)))
    limit = min(z_min, correlation * root - _MARGIN * spread)
    if not limit >= _LIMIT_MIN:
        return None
    return Agreement(float(np.corrcoef(x, y)[0, 1]) * root, float(correlation * root), float(limit))
