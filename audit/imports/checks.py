"""Check imported logs (pure).

- Logs must be finished.
- The chance of guessing right must be known.
- Scores must count right answers.
- The benchmark and the held-out items must have been asked in the same way.
"""

from collections.abc import Iterator, Sequence
from statistics import median

import scipy

from audit.imports.chance import unknown_chance
from audit.imports.join import Joined
from audit.imports.record import MAX_OF
from audit.judge.gates import LogCheck

# Largest difference between two sets in the share of replies that were cut off. Even if all these
# replies would have been right, the gap between the sets changes by at most this share.
CUT_OFF_MAX = 0.01
CUT_OFF_ALPHA = 0.01


def check_logs(joined: Joined, benchmarks: Sequence[str], options: int | None) -> list[LogCheck]:
    """Return the checks of the logs of some benchmarks.

    Parameters
    ----------
    options : int or None
        Number of options of an item as the user stated it; None if the user did not state it.

    Returns
    -------
    list of LogCheck
        The checks, passed or not, each with its reason.
    """
    unfinished = []
    for (model, benchmark), reason in sorted(joined.partial.items()):
        if benchmark in benchmarks:
            unfinished.append(f"{model} on {benchmark}: {reason}")
    measured = []
    for model, benchmark in measures(joined):
        if benchmark in benchmarks:
            measured.append(f"{model} on {benchmark}")
    unknown = "" if options is not None else unknown_chance(joined, benchmarks)
    free = " No log lists options, and no key names one: answers count as free."
    if any(_lists_options(joined, benchmark) for benchmark in benchmarks):
        free = ""
    scores = "Every score is a share of right answers."
    if measured:
        scores = (
            f"The score of {', '.join(sorted(measured))} is no share of right answers, such as a probability. "
            "Of k right trials of 100, write 25/100, or map `of`."
        )
    return [
        LogCheck(
            "log_finished", not unfinished, f"{'; '.join(unfinished) or 'Every log is finished'}."
        ),
        LogCheck("chance_known", not unknown, unknown or f"Chance is known.{free}"),
        LogCheck("counts_right", not measured, scores),
        *_asked_alike(joined, benchmarks),
    ]


def _lists_options(joined: Joined, benchmark: str) -> bool:
    return any(item.options for item in joined.items[benchmark].values())


def _asked_alike(joined: Joined, benchmarks: Sequence[str]) -> Iterator[LogCheck]:
    """Yield a check that every model was asked both sets of items in the same way.

    Yield nothing if no log states how the held-out items were asked.
    """
    recorded = {benchmark for _, benchmark in joined.sampling}
    for (_, benchmark), (_, replies) in joined.cut_off.items():
        if replies:
            recorded.add(benchmark)
    if recorded.isdisjoint(benchmarks[1:]):
        return
    different = [
        *_sampled_differently(joined, benchmarks),
        *_cut_off_differently(joined, benchmarks),
    ]
    yield LogCheck(
        "asked_alike", not different, f"{'; '.join(different) or 'The sets were asked alike'}."
    )


def _sampled_differently(joined: Joined, benchmarks: Sequence[str]) -> Iterator[str]:
    """Describe each model whose replies to two sets were sampled with different settings."""
    for model in joined.models:
        stated, ways = [], set()
        for name in benchmarks:
            if (model, name) in joined.sampling:
                sampling = joined.sampling[model, name]
                stated.append(f"{' and '.join(sorted(sampling))} on {name}")
                ways.update(sampling)
        if len(ways) > 1:
            yield f"{model} was sampled at {', '.join(stated)}"


def _cut_off_differently(joined: Joined, benchmarks: Sequence[str]) -> Iterator[str]:
    """Describe the models whose replies to one set ended at the token limit unusually often.

    For each model, the share of replies that were cut off is computed in both sets. A model is
    described if two conditions hold:

    - The two shares differ significantly (Fisher's exact test).
    - The difference of the shares deviates by more than CUT_OFF_MAX from the median difference of
      the other models.
    """
    first, *others = benchmarks
    for name in others:
        both, differ = {}, {}
        for model in joined.models:
            a, b = joined.cut_off.get((model, first)), joined.cut_off.get((model, name))
            if a is not None and b is not None:
                both[model] = (a, b)
                differ[model] = b[0] / b[1] - a[0] / a[1]
        for model, (a, b) in both.items():
            rest = [value for other, value in differ.items() if other != model]
            usual = median(rest) if rest else 0.0
            p = scipy.stats.fisher_exact([[a[0], a[1] - a[0]], [b[0], b[1] - b[0]]]).pvalue
            if abs(differ[model] - usual) > CUT_OFF_MAX and p <= CUT_OFF_ALPHA:
                of_others = f"; the median of the others differs by {usual:.1%}" if rest else ""
                shares = f"{a[0] / a[1]:.1%} of the replies to {first}"
                shares += f" and {b[0] / b[1]:.1%} to {name}"
                yield f"{shares} of {model} ended at the token limit{of_others}"


def measures(joined: Joined) -> set[tuple[str, str]]:
    """Return the cells whose score is not a count of right answers.

    Such a score cannot be written as k / n with one small n for all items of the cell.

    Returns
    -------
    set of (str, str)
        Model and benchmark of each cell.

    Notes
    -----
    Any probability with two decimals equals k / 100 for some k. Therefore scores that need n = 100
    are taken for probabilities.
    """
    decimals = {cell for cell, n in joined.denominators.items() if n >= MAX_OF}
    return joined.measures | decimals
