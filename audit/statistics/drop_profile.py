"""Memory, or a model that is touchy about wording? On which items a drop lies."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.values import average
from audit.statistics.wording_drop import ROUNDING, above_pvalue, item_means, mean_of


@dataclass(frozen=True, kw_only=True)
class DropProfile:
    """Hardness of an item: share (0-1) of the references' answers to it that are wrong.

    lies: mean hardness of the items where the drop beyond the references lies. expected: the same of the items where
    memory that is as frequent on hard items as on easy ones would make it. pvalue: one-sided, for a drop that lies on
    easier items than that. alpha: level at which memory is refuted, the share of such memory that is lost. touchy: the
    same mean where a common fall of log-odds makes the drop, as of a model that is touchy about wording; touchy_pvalue:
    one-sided, for a drop that lies on harder items than that. None and 1 where no item is right in rewordings alone.
    """

    lies: float
    expected: float
    pvalue: float
    alpha: float
    touchy: float | None
    touchy_pvalue: float

    @property
    def holds(self) -> bool:
        return self.pvalue > self.alpha

    @property
    def refutes_touchy(self) -> bool:
        return self.touchy_pvalue <= self.alpha


def drop_profile(
    tested: tuple[FloatArray, FloatArray],
    references: Sequence[tuple[FloatArray, FloatArray]],
    cluster: IntArray,
    alpha: float,
) -> DropProfile | None:
    """Tests that a drop beyond the references lies on easier items than memory's would, and on harder ones than that of
    a model that is touchy about wording. Each is one-sided.

    tested, references: (original (K, n), variants (N, n)) of each model, on the same n items. cluster: (n,) index
    0..G-1. None with fewer than two references, without a drop beyond theirs, or where memory could add nothing.

    Notes
    -----
    Without memory the model would score V_i + d_i on the original of item i: its mean over the variants, and what
    rewording costs a reference. Memory of a share m of the items, whichever they are, adds m (1 - V_i - d_i) on
    average, so what is left of the excess, O_i - V_i - d_i - m (1 - V_i - d_i), is unrelated to hardness. That
    covariance is tested, with m estimated, by the t-test of the influence of whole items. A drop in proportion to what
    is known, p, or to p (1 - p), as of a common shift of log-odds, lies on easier items.

    Each reference's d_i goes with the hardness that the others show: with its own, the chance parts of both correlate,
    and up to 7 % of memory was refuted at 2.5. It is 5 % beside references that are 3 points abler if variants cost 13.

    Examples
    --------
    All know the first half of the items and none the second. One model is also right on a fifth of the second as
    published; another loses a fifth of the first when reworded.

    >>> known = np.repeat([[1.0, 0.0]], 50, axis=1)
    >>> learnt, lapses = known.copy(), known.copy()
    >>> learnt[0, 50::5], lapses[0, :50:5] = 1, 0
    >>> for pair in (learnt, known), (known, lapses):
    ...     found = drop_profile(pair, [(known, known)] * 2, np.arange(100), 0.025)
    ...     found.lies, round(found.expected, 2), found.holds, found.refutes_touchy
    (1.0, 1.0, True, False)
    (0.0, 0.83, False, False)
    """
    if len(references) < 2:
        return None
    own, reworded = item_means(*tested)
    drops = np.stack([np.subtract(*item_means(*each)) for each in references])
    wrong = np.stack([1 - average(np.concatenate(each)) for each in references])
    hard = np.stack([average(np.delete(wrong, k, axis=0)) for k in range(len(references))])
    there = ~np.isnan(own - reworded - drops - hard)
    excess, room = (np.where(there, x - reworded - drops, np.nan) for x in (own, 1.0))
    if not there.any() or (gained := _mean(excess)) <= ROUNDING or (could := _mean(room)) <= 0:
        return None
    expected = _mean(hard * room) / could
    easier = mean_of(average((expected - hard) * (excess - gained / could * room)), cluster)
    shape = np.where(there, (1 - own) * reworded, np.nan)
    touchy, harder_p = None, 1.0
    if (flips := _mean(shape)) > 0:
        touchy = _mean(hard * shape) / flips
        harder_p = above_pvalue(mean_of(average((hard - touchy) * (excess - gained / flips * shape)), cluster))
    return DropProfile(
        lies=_mean(hard * excess) / gained, expected=expected, pvalue=above_pvalue(easier), alpha=alpha,
        touchy=touchy, touchy_pvalue=harder_p,
    )  # fmt: skip


def _mean(values: FloatArray) -> float:
    """Over items, of (R, n) values averaged over references."""
    return float(np.nanmean(average(values)))
