"""Hold the input of the analysis of one cell (model x benchmark): arrays, nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from audit.judge.gates import LogCheck
from audit.judging.result import Reason
from audit.shards.keys import RequestCounts
from audit.statistics.completion import Auc
from audit.statistics.paired import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Reads:
    """Rows of one arm: asked of the model, read (an answer or a likelihood), and not asked for want
    of an order.
    """

    asked: int = 0
    read: int = 0
    not_asked: int = 0

    @property
    def share(self) -> float:
        """Return the share of asked rows that were read; NaN without any."""
        return self.read / self.asked if self.asked else float("nan")


@dataclass(frozen=True)
class ModelSet:
    """One model on the n items of one set (the benchmark, or the held-out items). NaN: not asked,
    or not read.

    score: (n,) 1 right, 0 wrong. asked: (n,) items whose score was requested, None: all; for these,
    NaN is an answer that could not be read or never came. texts: by name (`TEXT_SCORES`), (n,) nats
    a byte of UTF-8, so tokenizers do not matter: the whole item, the second half of its stem given
    the first, and its wrong options given what precedes them. tokens: by name (`TOKEN_SCORES`),
    (n,) for the whole item, per token. ranks: (n,) share of its tokens that are the likeliest.
    options: (n, K + 1) nats of the list of options, published order first. order: (S, K + 1) nats
    of S shards. reads: by arm. requests: orders of options and shards against the published ones.
    """

    model: str
    score: FloatArray
    texts: Mapping[str, FloatArray]
    tokens: Mapping[str, FloatArray]
    ranks: FloatArray
    options: FloatArray
    order: FloatArray
    reads: Mapping[str, Reads]
    requests: RequestCounts = field(default_factory=RequestCounts)
    asked: BoolArray | None = None

    @property
    def unread(self) -> BoolArray:
        """Return (n,) answers that were requested and not read."""
        lost: BoolArray = np.isnan(self.score)
        return lost if self.asked is None else lost & self.asked


TEXT_SCORES = ("item", "half", "wrong")
TOKEN_SCORES = ("mean", "min_k", "min_k_plus_plus")


@dataclass(frozen=True)
class ItemSet:
    """The items of a set.

    cluster: (n,) index of the cluster that resampling keeps whole. n_options: (n,), 0 for a free
    answer. neighbours: by measure (S, K + 1), how alike neighbours are in each order of each shard
    by their words alone (see `cells.neighbours`); the rows are those of `ModelSet.order`.
    log_length: (n,) length of the text in bytes.
    """

    name: str
    question_ids: tuple[str, ...]
    cluster: IntArray
    n_options: IntArray
    neighbours: Mapping[str, FloatArray] = field(default_factory=dict)
    log_length: FloatArray | None = None

    @property
    def n(self) -> int:
        """Return the number of items."""
        return len(self.question_ids)

    @property
    def chance(self) -> float:
        """Return the accuracy of guessing: the mean of 1 / options, 0 for a free answer."""
        options = self.n_options.astype(float)
        return float(np.where(options > 0, 1 / np.maximum(options, 1), 0.0).mean())


@dataclass(frozen=True)
class MemoryCell:
    """One judged model on one benchmark: itself and its references, each on the benchmark and the
    held-out items.

    fresh: None without held-out items; then every second entry of tested and references is None.
    kind: how well words alone separate the two sets. dropped: why references were left out.
    recorded: the published order was drawn at random, and its record matches the items. undated:
    the options of the missing dates, without which the held-out items may be newer for this model
    alone; empty if none is missing. families: of the models, if known. log_checks: of an
    import. partial: what the logs of this model hold of an unfinished evaluation, "" if it is
    finished.
    """

    published: ItemSet
    fresh: ItemSet | None
    tested: tuple[ModelSet, ModelSet | None]
    references: tuple[tuple[ModelSet, ModelSet | None], ...] = ()
    kind: Auc | None = None
    dropped: tuple[Reason, ...] = ()
    recorded: bool = False
    undated: tuple[str, ...] = ()
    families: Mapping[str, str] = field(default_factory=dict)
    log_checks: tuple[LogCheck, ...] = ()
    partial: str = ""

    @property
    def model(self) -> str:
        """Return the name of the judged model."""
        return self.tested[0].model

    @property
    def chance(self) -> tuple[float, float]:
        """Return the accuracy of guessing on the benchmark and on the held-out items (0 without
        any).
        """
        return self.published.chance, self.fresh.chance if self.fresh else 0.0

    @property
    def scores(self) -> tuple[float, ...]:
        """Return accuracy (0-1) over parsed answers on the benchmark and, if asked, on the held-out
        items.
        """
        accuracies = []
        for answers in self.tested:
            if answers is not None:
                accuracies.append(float(np.nanmean(answers.score)))
        return tuple(accuracies)

    @property
    def benchmark(self) -> str:
        """Return the name of the benchmark."""
        return self.published.name
