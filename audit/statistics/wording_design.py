"""Compute before a run which drop a design of n items and N rewordings can detect.

The module uses normal approximations. Let d be the discordance: the probability that two wordings
of an item get different outcomes. Given the item, the variance of one answer is then d / 2, and the
standard error of the drop of one model is

  sqrt(d / 2 * (1 + 1 / N) / n).

A comparison with R reference models on the same items multiplies the variance by 1 + 1 / R. If a
model remembers some items, its drop varies more between items; this small additional variance is
not included.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from audit.core.errors import DataError

# Claims in the article's column "Statistical Confidence". The keys are numbers of rewordings of an
# item; the article counts calls instead: 1x, 3x, 5x and 10x.
ARTICLE_CLAIMS = {
    0: "None (no contamination signal)",
    2: "Moderate (p < 0.10 achievable)",
    4: "High (p < 0.05 stable)",
    9: "Very High (p < 0.01 achievable)",
}
PLANNED_FLIPS = (
    0.20  # Discordance of two wordings of an item in the article's own example of a clean model.
)


@dataclass(frozen=True)
class VolumeRow:
    """Hold one row of the article's table for a design.

    Attributes
    ----------
    calls : int
        Number of calls of the tested model, for originals and rewordings.
    relative_cost : int
        Number of calls divided by the number of calls of a run without rewordings.
    article : str
        What the article claims about the design.
    valid : str
        Statement that is true of this design.
    """

    calls: int
    relative_cost: int
    article: str
    valid: str


def drop_standard_error(n: int, variants: int, discordance: float, *, references: int = 0) -> float:
    """Return the standard error of a drop, or of a difference in differences.

    Parameters
    ----------
    n, variants : int
        Number of items, and number of rewordings of each item.
    discordance : float
        Probability that two wordings of an item get different outcomes, 0-1.
    references : int
        Number of reference models; 0 for the drop of one model alone.

    Returns
    -------
    float
        Standard error, as an accuracy (0-1).

    Raises
    ------
    DataError
        If the design is not possible.

    Examples
    --------
    >>> round(drop_standard_error(500, 3, 0.2), 4), round(drop_standard_error(1000, 1, 0.2), 4)
    (0.0163, 0.0141)
    """
    if n < 1 or variants < 1 or not 0 <= discordance <= 1 or references < 0:
        raise DataError(
            f"The design is n={n}, variants={variants}, discordance={discordance}, "
            f"references={references}. Expected n >= 1, at least one rewording, a discordance in "
            "[0, 1] and references >= 0. Example: drop_standard_error(500, 3, 0.2)."
        )
    variance = discordance / 2 * (1 + 1 / variants) / n
    return float(np.sqrt(variance * (1 + (1 / references if references else 0))))


def detectable_drop(
    n: int,
    variants: int,
    discordance: float,
    *,
    references: int = 0,
    margin: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
) -> float:
    """Return the smallest drop (0-1) that a design detects with a given power.

    Parameters
    ----------
    n, variants, discordance, references : int or float
        The design, as in `drop_standard_error`.
    margin : float
        Drop that broken variants can cause. A detected drop must exceed it.
    alpha, power : float
        Level and power of the test.

    Returns
    -------
    float
        The drop. It is detected by the one-sided test of a drop above the margin, at the level
        `alpha`. For one model alone, a verdict also requires a two-sided interval above zero.

    Raises
    ------
    DataError
        If the design is not possible.

    Notes
    -----
    With two references or more, the quantiles are those of t with R - 1 degrees of freedom, as in
    the test itself (`audit.statistics.references`).

    Examples
    --------
    >>> [round(100 * detectable_drop(1000, 3, 0.2, references=r), 1) for r in (0, 2, 5, 20)]
    [3.2, 10.9, 3.9, 3.1]
    """
    se = drop_standard_error(n, variants, discordance, references=references)
    quantiles = scipy.stats.t(references - 1) if references > 1 else scipy.stats.norm
    limit = margin + quantiles.isf(alpha) * se
    if not references:
        limit = max(limit, quantiles.isf(alpha / 2) * se)
    return float(limit + quantiles.ppf(power) * se)


def items_needed(
    effect: float,
    variants: int,
    discordance: float,
    *,
    margin: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int | None:
    """Return how many items are needed to detect a given drop, without references.

    Parameters
    ----------
    effect : float
        The drop to detect, 0-1.
    variants, discordance, margin, alpha, power : int or float
        The design, as in `detectable_drop`.

    Returns
    -------
    int or None
        Number of items; None if the margin for broken variants is at least as large as the effect.

    Examples
    --------
    >>> items_needed(0.05, 3, 0.2)
    419
    """
    if effect <= margin:
        return None
    z, each = scipy.stats.norm, drop_standard_error(1, variants, discordance)
    distances = (
        (z.isf(alpha) + z.ppf(power)) / (effect - margin),
        (z.isf(alpha / 2) + z.ppf(power)) / effect,
    )
    return math.ceil((each * max(distances)) ** 2)


def volume_table(
    n: int,
    discordance: float,
    *,
    references: int = 0,
    margin: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
) -> tuple[VolumeRow, ...]:
    """Return the article's table (rows 1x, 3x, 5x, 10x) with a statement that is true of each
    design.

    Parameters
    ----------
    n : int
        Number of items.
    discordance, references, margin, alpha, power : int or float
        The design, as in `detectable_drop`.

    Returns
    -------
    tuple of VolumeRow
        One row for each number of rewordings.
    """
    rows = []
    for variants, claim in ARTICLE_CLAIMS.items():
        if variants == 0:
            rows.append(VolumeRow(n, 1, claim, "No statement: nothing was reworded."))
            continue
        seen = detectable_drop(n, variants, discordance, margin=margin, alpha=alpha, power=power)
        smallest = 1 / (variants + 1)  # smallest valid p-value of a single item
        item = (
            f"No item can reach p < {alpha:g}: its p is at least {smallest:.3g}."
            if smallest > alpha
            else f"One item can reach p = {smallest:.3g}, before correction for {n} items."
        )
        text = (
            f"All items together: a drop of {100 * seen:.1f} points is found with {power:.0%} power"
        )
        if references:
            alone = detectable_drop(
                n, variants, discordance, references=references, alpha=alpha, power=power
            )
            # A drop that a test without references does not detect is not detected by a test with
            # references either.
            beyond = max(seen, alone)
            text += f", one beyond {references} reference models of {100 * beyond:.1f}"
        rows.append(VolumeRow(n * (variants + 1), variants + 1, claim, f"{text}. {item}"))
    return tuple(rows)
