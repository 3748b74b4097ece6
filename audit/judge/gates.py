"""Gates that several audits ask of their own data (pure): the same rule and words, whatever was asked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from audit.shards.keys import RequestCounts
from audit.statistics.chance import upper_limit
from audit.statistics.paired import CellOutcomes, FloatArray, State
from audit.verdict.result import Gate, Rule, ids_where, percent

IMPLAUSIBLE = 1e-3  # probability of an exact accuracy, over all conditions, below which it withholds
_MARGIN = 3.5  # standard errors by which agreement may fall short of what is expected, whatever the threshold is
_LIMIT_MIN = 1.5  # a lower limit would let one broken order in ten or more pass
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
    """A check that an import made of its logs. detail: a sentence, whether it passed or not."""

    name: str
    passed: bool
    detail: str


def checks_of(analysis: Mapping[str, Any]) -> tuple[LogCheck, ...]:
    """Return the checks in a manifest's part on the analysis; none if the run asked its models itself."""
    return tuple(LogCheck(**one) for one in analysis.get("log_checks", ()))


def log_checks(checks: Iterable[LogCheck]) -> tuple[Gate, ...]:
    """Return the checks of an import as gates; each that failed withholds the verdict."""
    return tuple(
        Rule(one.name, 0.0, "the imported logs").checked(
            one.passed, float(not one.passed), one.detail, _LOG_ADVICE[one.name]
        )
        for one in checks
    )


def above_chance(shown: str, z: float, chance: float, limit: float, numbers: Mapping[str, float | None]) -> Gate:
    """Accuracy beats guessing by `limit` standard errors. shown: the accuracy in words; number: z."""
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
    """Values that real data rarely give: an accuracy of exactly 0 or 1 in a row of outcomes (NaN: none).

    A strong model is right on all of 50 questions now and then: an exact 1 is harmless where the accuracy over
    everything makes it likely enough (1 in 1,000 over the rows). It is printed and withholds nothing.
    unmoved: a further alarm, empty for none. otherwise: what is said where nothing was found. number: of alarms.
    """
    pooled = float(np.nanmean(everything)) if np.any(~np.isnan(everything)) else float("nan")
    alarms: list[str] = []
    harmless: list[str] = []
    for what, values in rows:
        answers = values[~np.isnan(values)]
        if answers.size and answers.mean() in (0.0, 1.0):
            likely = answers.mean() == 1.0 and pooled < 1 and len(rows) * pooled**answers.size > IMPLAUSIBLE
            (harmless if likely else alarms).append(f"accuracy of exactly {answers.mean():.0f} under {what}")
    alarms += [unmoved] if unmoved else []
    found = [*alarms, *harmless]
    said = "Found " + "; ".join(found[:5]) + "." + ("" if alarms else " At this accuracy that is likely enough.")
    return Rule("exact_values", 0.0, "eight cells of song2026's Table 2 are exactly 0.00, worse than guessing").checked(
        not found,
        len(found),
        said if found else otherwise,
        advice if alarms else "",
        withholds=bool(alarms) or not harmless,
        numbers=numbers,
    )


def read_limits(read: int, asked: int) -> tuple[float, float]:
    """95 % interval of the share of answers that can be read (Clopper & Pearson 1934, Biometrika 26)."""
    return 1 - upper_limit(asked - read, asked, 0.975), upper_limit(read, asked, 0.975)


def reached_model(
    name: str, counts: Iterable[RequestCounts], limit: float, sentence: str, advice: str, *, nothing: str, must: bool
) -> Gate:
    """Requests whose hash is that of the original, or of another, test nothing. number: their share.

    sentence: with {compared}, {same} and {repeated}. nothing: what is said where none was compared; must: whether that
    withholds.
    """
    counts = list(counts)
    compared, same = sum(c.compared for c in counts), sum(c.same_as_original for c in counts)
    repeated = sum(c.repeated for c in counts)
    rule = Rule(name, limit, "request_sha256 over the tokens that the model was sent; conf/verdict: noop_share_max")
    if not compared:
        return rule.absent(nothing, withholds=must)
    share = (same + repeated) / compared
    return rule.checked(
        share <= limit,
        share,
        sentence.format(compared=compared, same=same, repeated=repeated),
        advice,
        items=[id_ for c in counts for id_ in c.items],
    )


@dataclass(frozen=True)
class Agreement:
    """z: correlation x sqrt(n - 1) of two rows of outcomes. expected: the same from the agreement within each side.
    limit: below it they seem to belong to other items."""

    z: float
    expected: float
    limit: float


def agreement(x: FloatArray, y: FloatArray, correlation: float, z_min: float) -> Agreement | None:
    """How two sides agree on the same items, where `correlation` is expected; None where that is too little to tell."""
    if x.std() == 0 or y.std() == 0:
        return None
    root = float(np.sqrt(x.size - 1))
    # Standard error of z around it: 1 without agreement; more where few items are wrong, as their chance meetings
    # decide (for 0/1 values E[x^2 y^2] = 1 + skew(x) skew(y) corr(x, y) of the standardised x, y).
    spread = float(np.sqrt(max(1 + scipy.stats.skew(x) * scipy.stats.skew(y) * correlation, 1.0)))
    limit = min(z_min, correlation * root - _MARGIN * spread)
    if not limit >= _LIMIT_MIN:
        return None
    return Agreement(float(np.corrcoef(x, y)[0, 1]) * root, float(correlation * root), float(limit))
