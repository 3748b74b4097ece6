"""Memory, or a model that is touchy about wording? On which items a drop lies.

Memory of the published wording helps where the model would be wrong: its gain is a share of what could be gained.
Touchiness, lapses and broken variants cost what the model knows. The references say how hard each item is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.values import average
from audit.statistics.wording_drop import above_pvalue, item_means, mean_of


@dataclass(frozen=True, kw_only=True)
class DropProfile:
    """Hardness of an item: share (0-1) of the references' answers to it that are wrong.

    lies: mean hardness of the items where the drop beyond the references lies. expected: the same of the items where
    memory that is as frequent on hard items as on easy ones would make it. pvalue: one-sided, for a drop that lies on
    easier items than that. alpha: level at which memory is refuted.
    """

    lies: float
    expected: float
    pvalue: float
    alpha: float

    @property
    def holds(self) -> bool:
        """Whether the drop may be memory's. Memory that is as frequent everywhere fails with probability alpha."""
        return self.pvalue > self.alpha


def drop_profile(
    tested: tuple[FloatArray, FloatArray],
    references: Sequence[tuple[FloatArray, FloatArray]],
    cluster: IntArray,
    alpha: float,
) -> DropProfile | None:
    """One-sided test that a drop beyond the references lies on easier items than a drop by memory would.

    Parameters
    ----------
    tested, references : (original (K, n), variants (N, n)) of each model, on the same n items
    cluster : (n,) index 0..G-1

    Returns None with fewer than two references, without a drop beyond theirs, or where memory could add nothing.

    Notes
    -----
    What the model would score on the original of item i without memory is V_i + d_i: its mean over the variants, and
    what rewording costs a reference. Memory of a share m of the items, whichever they are, adds m (1 - V_i - d_i) on
    average, so the residual e_i - m (1 - V_i - d_i) of the excess e_i = O_i - V_i - d_i is unrelated to the hardness
    h_i. The test is that of their covariance, with m estimated (a t-test of the influence of whole items). A drop
    in proportion to what is known, p, or to p (1 - p), as of a common shift of log-odds, lies on easier items.

    Each reference's d_i goes with the hardness that the other references show: with its own, the chance part of both is
    correlated, and memory was refuted in up to 7 % at a level of 2.5. References that are 3 points abler, with variants
    that cost 13 points, make it 5 %: what variants cost then lies on other items.

    Examples
    --------
    Half of the items are known to all, half to none. The model has 1 in 5 of the latter right as published only; then
    it loses 1 in 5 of the former when reworded.

    >>> known = np.repeat([1.0, 0.0], 50)[None]
    >>> learnt, lapses = known.copy(), known.copy()
    >>> learnt[0, 50::5], lapses[0, :50:5] = 1, 0
    >>> others, cluster = [(known, known)] * 2, np.arange(100)
    >>> memory = drop_profile((learnt, known), others, cluster, 0.025)
    >>> memory.lies, memory.expected, memory.holds
    (1.0, 1.0, True)
    >>> touchy = drop_profile((known, lapses), others, cluster, 0.025)
    >>> touchy.lies, round(touchy.expected, 2), touchy.holds
    (0.0, 0.83, False)
    """
    if len(references) < 2:
        return None
    own, reworded = item_means(*tested)
    drops = np.stack([np.subtract(*item_means(*each)) for each in references])
    wrong = np.stack([1 - average(np.concatenate(each)) for each in references])
    hard = np.stack([average(np.delete(wrong, k, axis=0)) for k in range(len(references))])
    excess = np.where(np.isnan(hard), np.nan, own - reworded - drops)
    room = np.where(np.isnan(hard), np.nan, 1 - reworded - drops)
    gained, could, on, off = (_mean(x) for x in (excess, room, hard * excess, hard * room))
    if not (gained > 0 and could > 0):  # NaN too
        return None
    lies, expected, share = on / gained, off / could, gained / could
    easier = mean_of(average((expected - hard) * (excess - share * room)), cluster)
    return DropProfile(lies=lies, expected=expected, pvalue=above_pvalue(easier), alpha=alpha)


def _mean(values: FloatArray) -> float:
    """Over items, of (R, n) values averaged over references; NaN where there is none."""
    items = average(values)
    return float(items[there].mean()) if (there := ~np.isnan(items)).any() else float("nan")
