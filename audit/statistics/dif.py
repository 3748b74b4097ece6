"""Test differential item functioning by the method of Mantel and Haenszel.

The test compares the odds of a right answer between two groups, among answers with the same
matching score, such as a total score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.drawing import cluster_df
from audit.statistics.multiplicity import holm
from audit.statistics.paired import BoolArray, FloatArray, IntArray

# smallest allowed distance between the expected count of right answers and its bounds (Mantel &
# Fleiss 1980)
EXPECTED_MIN = 5.0


@dataclass(frozen=True)
class MantelHaenszel:
    """Report the common odds ratio of a right answer between two groups, and its test.

    Attributes
    ----------
    odds_ratio : float
        Odds of a right answer in the reference group, divided by the odds in the focal group.
    low, high : float
        95 % interval of the odds ratio (Robins, Breslow & Greenland 1986); NaN if the ratio is 0 or
        infinite.
    chi_square, pvalue : float
        Chi-square statistic with continuity correction (1 degree of freedom), and its p-value.
    delta : float
        -2.35 ln(odds ratio), the ETS scale. |delta| < 1 is small, |delta| >= 1.5 is large (Holland
        & Thayer 1988). A delta below 0 means that the focal group gives fewer right answers.
    strata : int
        Number of strata with answers of both groups, and with right and wrong answers. If this
        number is 0, all other numbers are NaN or 0.
    focal, reference : int
        Number of rows of each group in these strata.
    room : float
        Distance between the expected count of right answers and the nearer bound: the smallest or
        the largest count that is possible. Below EXPECTED_MIN the statistic is not chi-square
        distributed, and nothing can be concluded.
    design_effect : float
        Factor by which clusters increase the variance; 1 without clusters. The chi-square and the
        interval already include it.
    """

    odds_ratio: float
    low: float
    high: float
    chi_square: float
    pvalue: float
    delta: float
    strata: int
    focal: int
    reference: int
    room: float
    design_effect: float = 1.0

    @property
    def enough(self) -> bool:
        """Return whether the strata hold enough answers for the test.

        Returns
        -------
        bool
            True if `room` is at least EXPECTED_MIN.
        """
        return self.room >= EXPECTED_MIN


@dataclass(frozen=True)
class GroupDif:
    """Report the test of one group against all other groups.

    Attributes
    ----------
    group : str
        Name of the group.
    items : int
        Number of items of the group.
    table : MantelHaenszel
        Test of the group.
    pvalue : float or None
        p adjusted by Holm's procedure over the groups with `table.enough`. None if the strata are
        too small; the other numbers must then not be interpreted.
    """

    group: str
    items: int
    table: MantelHaenszel
    pvalue: float | None


def mantel_haenszel(
    right: FloatArray, focal: BoolArray, stratum: IntArray, cluster: IntArray | None = None
) -> MantelHaenszel:
    """Test whether a focal and a reference group differ in the odds of a right answer.

    Only rows with the same matching score are compared.

    Parameters
    ----------
    right : (n,) array
        1 right, 0 wrong, NaN for rows that are left out.
    focal : (n,) bool array
        True for rows of the focal group.
    stratum : (n,) array
        Matching score of each row.
    cluster : (n,) array or None
        Cluster of each row; None if rows are independent.

    Returns
    -------
    MantelHaenszel
        Odds ratio, interval and test.

    Raises
    ------
    DataError
        If the shapes differ.

    Notes
    -----
    Mantel & Haenszel (1959), JNCI 22. With clusters, the chi-square statistic is divided by a
    design effect, and the variance of ln(odds ratio) is multiplied by the same design effect (Rao &
    Scott 1992, Biometrics 48). A design effect below 1 is replaced by 1. Few clusters estimate the
    design effect poorly, so F and Student's t have `cluster_df` degrees of freedom.
    """
    if not right.shape == focal.shape == stratum.shape or (
        cluster is not None and cluster.shape != right.shape
    ):
        raise DataError(
            f"The shapes of right, focal and stratum are {right.shape}, {focal.shape} and "
            f"{stratum.shape}. Expected the same shape."
        )
    known = ~np.isnan(right)
    y, f, k = right[known] == 1, focal[known], stratum[known]
    _, place = np.unique(k, return_inverse=True)

    def count(rows: BoolArray) -> FloatArray:
        return np.bincount(place[rows], minlength=int(place.max()) + 1 if place.size else 0).astype(
            float
        )

    a, b, c, d = count(~f & y), count(~f & ~y), count(f & y), count(f & ~y)
    informative = ((a + b) * (c + d) * (a + c) * (b + d)) > 0
    nan = float("nan")
    if not informative.any():
        return MantelHaenszel(nan, nan, nan, nan, nan, nan, 0, 0, 0, 0.0)
    effect, df = 1.0, np.inf
    if cluster is not None:
        effect = _design_effect(y, f, place, informative, cluster[known])
        df = max(cluster_df(cluster[known][informative[place]]), 1.0)
    a, b, c, d = a[informative], b[informative], c[informative], d[informative]
    total = a + b + c + d
    expected = float(((a + b) * (a + c) / total).sum())
    variance = float(((a + b) * (c + d) * (a + c) * (b + d) / (total**2 * (total - 1))).sum())
    least = float(np.maximum(0, a + b - (b + d)).sum())
    most = float(np.minimum(a + b, a + c).sum())
    chi = max(0.0, abs(float(a.sum()) - expected) - 0.5) ** 2 / (variance * effect)
    r, s = a * d / total, b * c / total
    odds = float(r.sum() / s.sum()) if s.sum() > 0 else float("inf")
    low = high = nan
    if r.sum() > 0 and s.sum() > 0:
        reach = float(scipy.stats.t.ppf(0.975, df)) * float(
            np.sqrt(_log_variance(a, b, c, d) * effect)
        )
        low, high = odds * float(np.exp(-reach)), odds * float(np.exp(reach))
    return MantelHaenszel(
        odds_ratio=odds,
        low=low,
        high=high,
        chi_square=chi,
        pvalue=2 * float(scipy.stats.t.sf(np.sqrt(chi), df)),
        delta=-2.35 * float(np.log(odds)) if odds > 0 else float("inf"),
        strata=int(informative.sum()),
        focal=int((c + d).sum()),
        reference=int((a + b).sum()),
        room=min(expected - least, most - expected),
        design_effect=effect,
    )


def _log_variance(a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray) -> float:
    """Return the variance of ln(odds ratio) (Robins, Breslow & Greenland 1986, Biometrics 42)."""
    total = a + b + c + d
    p, q, r, s = (a + d) / total, (b + c) / total, a * d / total, b * c / total
    sum_r, sum_s = r.sum(), s.sum()
    cross = (p * s + q * r).sum() / (2 * sum_r * sum_s)
    return float((p * r).sum() / (2 * sum_r**2) + cross + (q * s).sum() / (2 * sum_s**2))


def _design_effect(
    y: BoolArray, f: BoolArray, place: IntArray, informative: BoolArray, cluster: IntArray
) -> float:
    """Return the design effect of clusters on the score of the test.

    It is the variance of the score over clusters, divided by the variance of the score over rows.

    The score is the sum of (f - mean)(y - mean) within strata.
    """
    size = np.bincount(place)
    centred = []
    for x in (y.astype(float), f.astype(float)):
        centred.append(x - (np.bincount(place, x) / size)[place])
    score = np.where(informative[place], centred[0] * centred[1], 0.0)
    score -= (np.bincount(place, score) / size)[place]
    _, group = np.unique(cluster, return_inverse=True)
    rows = float(np.sum(score**2))
    large = np.bincount(group, informative[place]) / max(int(informative[place].sum()), 1)
    if rows == 0 or large.max() == 1:
        return 1.0
    # CR2 correction, as in `drawing.influence`
    scaled = (1 - 1 / np.count_nonzero(large)) / (1 - large)
    return max(1.0, float(np.sum(np.bincount(group, score) ** 2 * scaled)) / rows)


def by_group(
    right: FloatArray,
    stratum: IntArray,
    members: Mapping[str, BoolArray],
    cluster: IntArray,
    items: Mapping[str, int],
) -> tuple[GroupDif, ...]:
    """Test each group as the focal group against all other groups.

    Parameters
    ----------
    right : (n,) array
        1 right, 0 wrong, NaN for rows that are left out.
    stratum : (n,) array
        Matching score of each row.
    members : mapping of str to (n,) bool array
        Mask of the rows of each group.
    cluster : (n,) array
        Cluster of each row.
    items : mapping of str to int
        Number of items of each group.

    Returns
    -------
    tuple of GroupDif
        Test of each group, sorted by the name of the group.

    Raises
    ------
    DataError
        If the shapes differ.

    Notes
    -----
    Holm's procedure includes only the groups that can be tested. Groups whose strata are too small
    have no p-value.
    """
    tables = {}
    for name, rows in sorted(members.items()):
        tables[name] = mantel_haenszel(right, rows, stratum, cluster)
    raw = np.array([table.pvalue if table.enough else np.nan for table in tables.values()])
    adjusted: Sequence[float] = holm(raw).tolist() if raw.size else []
    pairs = zip(tables.items(), adjusted, strict=True)
    groups = []
    for (name, table), p in pairs:
        groups.append(GroupDif(name, items[name], table, None if np.isnan(p) else p))
    return tuple(groups)
