"""Define the input of the analysis of one cell (one model on one benchmark): arrays of answers and
likelihoods.
"""

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
    """Hold the numbers of rows of one model on one set of items, in one arm.

    Attributes
    ----------
    asked : int
        Number of rows that were sent to the model.
    read : int
        Number of rows with a parsed answer or a likelihood.
    not_asked : int
        Number of rows that were not sent because the item lacks the requested order.
    """

    asked: int = 0
    read: int = 0
    not_asked: int = 0

    @property
    def share(self) -> float:
        """Return the share of sent rows that have a parsed answer or a likelihood.

        Returns
        -------
        float
            0-1; NaN if no row was sent.
        """
        return self.read / self.asked if self.asked else float("nan")


@dataclass(frozen=True)
class ModelSet:
    """Hold the results of one model on the n items of one set: the benchmark, or the held-out
    items.

    A value is NaN if it was not requested or could not be parsed.

    Attributes
    ----------
    model : str
        Name of the model.
    score : (n,) array
        1 if the answer is right, 0 if it is wrong.
    texts : mapping of str to (n,) array
        Log-likelihoods of three texts of each item (`TEXT_SCORES`): the whole item, the second half
        of the stem given the first half, and the wrong options given the text before these options.
        The unit is nats a byte of UTF-8, so that models with different tokenizers can be compared.
    tokens : mapping of str to (n,) array
        Scores computed from the log-likelihoods of the tokens of the whole item, by name of
        `TOKEN_SCORES`.
    ranks : (n,) array
        For each item, the share of its tokens that the model ranked first.
    options : (n, K + 1) array
        Log-likelihood (nats) of the item's options in each of K + 1 orders, the published order
        first.
    order : (S, K + 1) array
        Log-likelihood (nats) of S shards in each of K + 1 orders, the published order first.
    reads : mapping of str to Reads
        Numbers of rows, by arm.
    requests : RequestCounts
        Number of orders whose request repeats the request for the published or another order.
    requested : (n,) array of bool or None
        Whether the score of an item was requested; None if every score was requested. A requested
        score that is NaN is an unparsed or missing answer.
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
    requested: BoolArray | None = None

    @property
    def unread(self) -> BoolArray:
        """Return which requested answers are missing or unparsed.

        Returns
        -------
        (n,) array of bool
            True for each item with a missing or unparsed answer.
        """
        lost: BoolArray = np.isnan(self.score)
        return lost if self.requested is None else lost & self.requested


TEXT_SCORES = ("item", "half", "wrong")
TOKEN_SCORES = ("mean", "min_k", "min_k_plus_plus")


@dataclass(frozen=True)
class ItemSet:
    """Hold the n items of one set.

    Attributes
    ----------
    name : str
        Name of the benchmark.
    question_ids : tuple of str
        Ids of the items.
    cluster : (n,) array
        Index of the cluster of each item. Resampling keeps clusters whole.
    n_options : (n,) array
        Number of options; 0 for a free answer.
    neighbours : mapping of str to (S, K + 1) array
        Similarity of neighbouring items in each order of each shard, for each measure of
        `cells.neighbours`. The rows are the shards of `ModelSet.order`.
    log_length : (n,) array or None
        Logarithm of the length of the text in bytes.
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
        """Return the accuracy of guessing.

        Returns
        -------
        float
            The mean over the items of 1 / (number of options). An item with a free answer counts 0.
        """
        options = self.n_options.astype(float)
        return float(np.where(options > 0, 1 / np.maximum(options, 1), 0.0).mean())


@dataclass(frozen=True)
class MemoryCell:
    """Hold the results of one judged model and its references on one benchmark.

    Attributes
    ----------
    published : ItemSet
        Items of the benchmark.
    fresh : ItemSet or None
        The held-out items; None without held-out items. Then the second entry of each pair in
        `tested` and `references` is None.
    tested : tuple of (ModelSet, ModelSet or None)
        Results of the judged model on the benchmark and on the held-out items.
    references : tuple of such pairs
        Results of each reference.
    kind : Auc or None
        AUC of a classifier that separates the two sets by words alone.
    dropped : tuple of Reason
        Reason for each reference that was left out.
    recorded : bool
        Whether the published order was drawn at random and its record fits the items.
    undated : tuple of str
        Names of the options that would state the missing dates. Without these dates, the held-out
        items may be newer for this model alone.
    families : mapping of str to str
        Map the name of a model to its family, if the family is known.
    log_checks : tuple of LogCheck
        Checks of an imported log.
    partial : str
        The part of the benchmark that the logs of an unfinished evaluation cover; empty if the
        evaluation is finished.
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
    def reference_names(self) -> list[str]:
        """Return the names of the references."""
        return [reference.model for reference, _ in self.references]

    @property
    def chance(self) -> tuple[float, float]:
        """Return the accuracy of guessing on both sets.

        Returns
        -------
        tuple of float
            Accuracy of guessing (0-1) on the benchmark, and on the held-out items (0 without
            held-out items).
        """
        return self.published.chance, self.fresh.chance if self.fresh else 0.0

    @property
    def scores(self) -> tuple[float, ...]:
        """Return the accuracy of the judged model over parsed answers.

        Returns
        -------
        tuple of float
            Accuracy (0-1) on the benchmark and, if held-out items were asked, on the held-out
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
