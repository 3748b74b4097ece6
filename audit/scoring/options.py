"""Log-likelihoods of the options -> an answer (readings `option_text` and `letter_logprob`)."""

import math
from collections.abc import Sequence

from audit.errors import DataError, unknown_name
from audit.records import Answer

NORMALISATIONS = ("none", "token", "byte")
"""How the options' total logprobs are made comparable when their lengths differ (config `option_normalisation`).

`none`: the total; a proper probability of the reply, but every further token costs, so it favours short options.
`token`: the mean per token. `byte`: the total per UTF-8 byte of the option's text, which does not depend on the
tokenizer, so that models with different ones are compared alike.
"""

DEFAULT_NORMALISATION = "token"
"""`token`, because benchmark options differ in length, the total then largely ranks lengths, and a mean per token
needs nothing but what the engine returns. It is a choice to be kept through all arms, and either is defensible."""

UNREADABLE = Answer(index=None, form="none")


def read_logprobs(
    option_logprobs: Sequence[float | None],
    option_tokens: Sequence[int] = (),
    normalise: str = DEFAULT_NORMALISATION,
    options: Sequence[str] = (),
    none_is_lowest: bool = False,
) -> Answer:
    """The option with the highest (normalised) log-likelihood, or unparsed.

    option_logprobs: k totals in nats. option_tokens: k token counts (for `token`). options: k texts (for `byte`).
    none_is_lowest: a None lies below every value that is told. That holds for option letters at endpoints that list
    the top tokens only (what is not listed is less likely than what is), and not for whole option texts: there an
    unknown could be the best, so one None makes the answer unparsed.

    Unparsed (form "none"), never a guess: nothing is told; any NaN or +inf (an engine fault); the best value is shared
    by two options (taking the first would favour position A) or is -inf.

    Raises ConfigError for an unknown normalisation, DataError when counts do not match the options.

    >>> read_logprobs([-4.0, -6.0], [1, 2], "none").index, read_logprobs([-4.0, -6.0], [1, 2], "token").index
    (0, 1)
    """
    if normalise not in NORMALISATIONS:
        raise unknown_name("option_normalisation", normalise, NORMALISATIONS)
    lengths = _lengths(len(option_logprobs), option_tokens, normalise, options)
    if any(value is None for value in option_logprobs) and not none_is_lowest:
        return UNREADABLE
    values = [-math.inf if value is None else value for value in option_logprobs]
    if not values or any(math.isnan(value) or value == math.inf for value in values):
        return UNREADABLE
    scores = [value / length for value, length in zip(values, lengths, strict=True)]
    best = max(scores)
    if best == -math.inf or scores.count(best) > 1:
        return UNREADABLE
    return Answer(index=scores.index(best), form="logprob")


def _lengths(k: int, option_tokens: Sequence[int], normalise: str, options: Sequence[str]) -> list[int]:
    if normalise == "none":
        return [1] * k
    if normalise == "token":
        lengths, name = list(option_tokens), "token counts (option_tokens)"
    else:
        lengths, name = [len(text.encode("utf-8", "surrogatepass")) for text in options], "option texts"
    if len(lengths) != k or any(length < 1 for length in lengths):
        raise DataError(
            f"Cannot normalise {k} option logprobs by {normalise}: {name} are {lengths}. Expected {k} lengths of at "
            "least 1. Use option_normalisation=none where the engine does not count tokens."
        )
    return lengths
