"""Compute what a design of n items and N rewordings can see, before it is run.

The module uses normal approximations. An item's two wordings disagree with probability d ("flip"),
so one answer has a variance of d / 2 given the item, and the drop of one model a standard error of
sqrt(d / 2 (1 + 1 / N) / n). R reference models on the same items add 1 / R of that. Memory of some
items spreads the drop over items and adds a little more, which is not included.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from audit.core.errors import DataError

# The article's column "Statistical Confidence", by the number of rewordings of an item. The article
# counts calls: 1x, 3x, 5x and 10x.
ARTICLE_CLAIMS = {
    0: "None (no contamination signal)",
    2: "Moderate (p < 0.10 achievable)",
    4: "High (p < 0.05 stable)",
    9: "Very High (p < 0.01 achievable)",
}
PLANNED_FLIPS = (
    0.20  # chance that two wordings of an item disagree; the article's own example of a clean model
)


@dataclass(frozen=True)
class VolumeRow:
    """Hold one row of the article's table for a design.

    Attributes
    ----------
    calls : int
        Calls of the tested model, originals and rewordings.
    relative_cost : int
        Calls as a multiple of those without rewordings.
    article : str
        The article's claim.
    valid : str
        Statement that holds for this design.
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
        Number of items, and of rewordings of each.
    discordance : float
        Chance that two wordings of an item disagree, 0-1.
    references : int
        Number of reference models; 0 for the drop of one model alone.

    Returns
    -------
    float
        Standard error, accuracy 0-1.

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
            "A design needs n >= 1 items, at least one rewording, a discordance in [0, 1] and references >= 0, such as "
            f"drop_standard_error(500, 3, 0.2); found {n}, {variants}, {discordance}, {references}."
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
        As in `drop_standard_error`.
    margin : float
        Drop that broken variants make, which the drop must exceed.
    alpha, power : float
        Level and power of the test.

    Returns
    -------
    float
        The drop. The one-sided test at `alpha` is of a drop above the margin. For one model alone,
        a two-sided interval above zero is required too, as by a verdict.

    Raises
    ------
    DataError
        If the design is not possible.

    Notes
    -----
    From two references on the quantiles are those of t with R - 1 degrees of freedom, as in the
    test itself (`audit.statistics.references`).

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
    """Return how many items make `detectable_drop` (without references) at most a given effect.

    Parameters
    ----------
    effect : float
        The drop to detect, 0-1.
    variants, discordance, margin, alpha, power : int or float
        As in `detectable_drop`.

    Returns
    -------
    int or None
        Number of items; None if the margin for broken variants is as large as the effect.

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
    """Return the article's table 1x / 3x / 5x / 10x with statements that hold for a design.

    Parameters
    ----------
    n : int
        Number of items.
    discordance, references, margin, alpha, power : int or float
        As in `detectable_drop`.

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
        smallest = 1 / (variants + 1)  # the smallest valid p-value of one item
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
            # A drop that is not seen alone is not seen beyond the references either.
            beyond = max(seen, alone)
            text += f", one beyond {references} reference models of {100 * beyond:.1f}"
        rows.append(VolumeRow(n * (variants + 1), variants + 1, claim, f"{text}. {item}"))
    return tuple(rows)
