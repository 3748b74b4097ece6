"""How well do words alone tell two sets of items? A cross-validated naive Bayes classifier. Pure.

Two sets that words part differ in subject, author or layout, so a model may differ between them without any memory.
"""

import re
import zlib
from collections.abc import Sequence

import numpy as np

from audit.statistics.completion import Auc, membership_auc
from audit.statistics.paired import IntArray

FOLDS = 5
_WORD = re.compile(r"[^\W_]+")
_BUCKETS = 2**15  # of hashed words
_LEAST = 10  # items of each set, fewer teach nothing


def kind_auc(
    published: Sequence[str], fresh: Sequence[str], clusters: tuple[IntArray, IntArray], *, rng: np.random.Generator
) -> Auc | None:
    """The chance that words rank an item of the first set above one of the second; .5: they cannot tell them.

    Each item is scored by a multinomial naive Bayes (McCallum & Nigam 1998; each word once an item, add-one smoothing)
    over the items of the other folds, as a mean over its words. clusters: what belongs together is in one fold. None
    for a set of fewer than ten items.
    """
    if min(len(published), len(fresh)) < _LEAST:
        return None
    words = [
        sorted({zlib.crc32(w.encode()) % _BUCKETS for w in _WORD.findall(t.casefold())}) for t in (*published, *fresh)
    ]
    item = np.repeat(np.arange(len(words)), [len(one) for one in words])
    word = np.array([w for one in words for w in one], dtype=np.int64)
    first = np.arange(len(words)) < len(published)
    fold = np.concatenate([rng.integers(FOLDS, size=int(c.max()) + 1)[c] for c in clusters])
    score = np.full(len(words), np.nan)
    for k in range(FOLDS):
        train = fold[item] != k
        counts = [np.bincount(word[train & (first[item] == side)], minlength=_BUCKETS) + 1.0 for side in (True, False)]
        odds = np.log(counts[0] / counts[0].sum()) - np.log(counts[1] / counts[1].sum())
        sums = np.bincount(item[~train], odds[word[~train]], minlength=len(words))
        held = fold == k
        score[held] = (sums / np.maximum(np.bincount(item, minlength=len(words)), 1))[held]
    return membership_auc(score[first], score[~first])
