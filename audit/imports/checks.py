"""Check imported logs: a finished evaluation, a known chance, a score that counts right answers (pure)."""

from collections.abc import Sequence

from audit.imports.chance import unknown_chance
from audit.imports.join import Joined
from audit.imports.record import MAX_OF
from audit.judge.gates import LogCheck


def check_logs(joined: Joined, benchmarks: Sequence[str], options: int | None) -> list[LogCheck]:
    """Return the checks of the cells of some benchmarks. options: of an item, as the user gives it; None if not."""
    unfinished = [
        f"{model} on {benchmark}: {found}"
        for (model, benchmark), found in sorted(joined.partial.items())
        if benchmark in benchmarks
    ]
    measured = sorted(f"{model} on {benchmark}" for model, benchmark in measures(joined) if benchmark in benchmarks)
    unknown = "" if options is not None else unknown_chance(joined, benchmarks)
    listed = any(one.options for name in benchmarks for one in joined.items[name].values())
    free = "" if listed else " No log lists options, and no key names one: answers count as free."
    return [
        LogCheck("log_finished", not unfinished, f"{'; '.join(unfinished) or 'Every log is finished'}."),
        LogCheck("chance_known", not unknown, unknown or f"Chance is known.{free}"),
        LogCheck(
            "counts_right",
            not measured,
            f"The score of {', '.join(measured)} is no share of right answers, such as a probability. Of k right "
            "trials of 100, write 25/100, or map `of`."
            if measured
            else "Every score is a share of right answers.",
        ),
    ]


def measures(joined: Joined) -> set[tuple[str, str]]:
    """Return the cells whose score counts no right answers: decimals that are not k of one small n.

    Any probability with two decimals is k of 100, so decimals of 100 trials are taken for probabilities.
    """
    decimals = {cell for cell, n in joined.denominators.items() if n >= MAX_OF}
    return joined.measures | decimals
