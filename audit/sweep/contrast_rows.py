"""The table of comparisons that the report prints beside a verdict."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from audit.errors import DataError
from audit.records import Setting
from audit.statistics.paired import UNANSWERED, BoolArray, CellOutcomes
from audit.statistics.values import replicates_of
from audit.sweep.compare import Comparison
from audit.sweep.contrasts import contrast, count, difference_in_differences, score_gap
from audit.sweep.design import Arm
from audit.sweep.evidence import Evidence
from audit.sweep.result import Contrast


def contrast_rows(
    cell: CellOutcomes,
    evidence: Evidence,
    *,
    keep: BoolArray | None,
    control: CellOutcomes | None,
    rng: np.random.Generator,
    n_resamples: int,
) -> tuple[Contrast, ...]:
    """Every comparison of one cell as rows of a table, those that could not be made with the reason.

    keep: (n,) questions without an answer leak, None without texts. control: the same model on the control benchmark.
    """
    out: list[Contrast] = []
    for suffix, words, read in (
        ("", "", evidence.plain),
        ("_without_leak", ", without leaked questions", evidence.without_leak),
        ("_adverse", ", unparsed replies imputed against a gain", evidence.adverse),
        ("_favourable", ", unparsed replies imputed for a gain", evidence.favourable),
    ):
        if read is not None:
            for name, against, comparison in (
                ("noisy_vs_clean", "clean", read.clean),
                ("noisy_vs_direct", "direct", read.direct),
                ("noisy_vs_ensemble", "ensemble control", read.ensemble),
            ):
                if comparison is not None:
                    out += _rows(name + suffix, f"noisy - {against}{words}", comparison)
    if evidence.ensemble_gain is not None:
        out += _rows("ensemble_vs_clean", "ensemble control - clean", evidence.ensemble_gain)

    sound = len(out)  # the rows so far hold at any stop where the run may have stopped early; those below do not
    noisy, clean = cell.settings_of(Arm.NOISY_REWRITE), replicates_of(cell, Arm.FORWARD_FULL, 1)

    def single(name: str, text: str, a: Sequence[Setting], b: Sequence[Setting], **options: Any) -> None:
        if a and b:
            try:
                out.append(contrast(cell, a, b, name=name, label=text, rng=rng, n_resamples=n_resamples, **options))
            except DataError as error:
                out.append(Contrast(name, text, None, 0, note=str(error)))

    if keep is not None and not keep.all():
        single("noisy_vs_clean_with_leak", "noisy - clean, leaked questions only", noisy, clean, items=~keep)
    single("clean_vs_direct", "clean - direct", clean, replicates_of(cell, Arm.DIRECT, 0))
    if np.isin(cell.state, UNANSWERED).any():
        for reading in ("right", "wrong"):
            text = f"noisy - clean, unreadable or missing replies counted as {reading}, mean over r"
            single(f"noisy_vs_clean_unparsed_{reading}", text, noisy, clean, unparsed=reading)
    if control is not None:
        out += _against_fresh(cell, control, evidence.shifts.used[1], rng, n_resamples)
    if evidence.at_any_stop:
        note = "no interval and no p: the run could stop early"
        out[sound:] = [
            replace(c, ci_low=None, ci_high=None, p=None, p_adjusted=None, note=c.note or note) for c in out[sound:]
        ]
    return tuple(out)


def _rows(name: str, text: str, c: Comparison) -> list[Contrast]:
    rows = [
        Contrast(
            name, f"{text}, r={r}", r, int(c.n[k]), float(c.gain[k]), c.pointwise[k].low, c.pointwise[k].high,
            float(c.pvalues[k]), float(c.adjusted[k]), count(c.improve[k]), count(c.degrade[k]),
        )
        for k, r in enumerate(c.routers)
    ]  # fmt: skip
    mean, of_mean = c.mean, f"{text}, mean over r"
    note = "p: any r, family-wise"
    return [
        *rows,
        Contrast(name, of_mean, None, int(c.n.min()), mean.estimate, mean.low, mean.high, c.family_p, note=note),
    ]


def _against_fresh(
    cell: CellOutcomes, control: CellOutcomes, shift: float, rng: np.random.Generator, n_resamples: int
) -> list[Contrast]:
    """The score against that on held-out items, and the gain against theirs on three scales."""
    out: list[Contrast] = []
    gap = f"score on {cell.benchmark} - score on {control.benchmark}"
    gain = f"gain on {cell.benchmark} - gain on {control.benchmark}, mean over r"
    try:
        i = score_gap(cell, control, rng=rng, shift=shift, n_resamples=n_resamples)
    except DataError as error:
        out.append(Contrast("score_gap", gap, None, 0, note=str(error)))
    else:
        out.append(Contrast("score_gap", gap, None, cell.n, i.estimate, i.low, i.high))
    try:
        did = difference_in_differences(cell, control, rng=rng, n_resamples=n_resamples)
    except DataError as error:  # the control benchmark has no clean or no noisy answers
        out.append(Contrast("difference_in_differences", gain, None, 0, note=str(error)))
        return out
    for name, scale, i in (
        ("difference_in_differences", "", did.difference),
        ("difference_in_differences_log_odds", ", log-odds", did.log_odds),
        ("difference_in_differences_log_wrong", ", log share of wrong answers", did.log_wrong),
    ):
        note = "p: larger on every scale" if not scale else ""
        p = None if scale else did.pvalue
        out.append(Contrast(name, gain + scale, None, did.n, i.estimate, i.low, i.high, p, note=note))
    return out
