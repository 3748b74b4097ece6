"""Define the input for the analysis of one cell: the answers of one model to one benchmark in one
context.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.core.errors import DataError
from audit.core.records import Item
from audit.statistics.contracts import scores
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.validity.edits.record import Family


@dataclass(frozen=True)
class Block:
    """Hold the answers to n items under L settings, as (L, n) arrays.

    A setting is a replay of the original, or an edit of one family.

    Attributes
    ----------
    name : array of str
        Name of the edit.
    requested : bool array
        Whether the edit was sent.
    same : bool array
        Whether the request has the same hash as the request of the original. If so, the edit tests
        nothing.
    directional : bool array
        Whether the contract of the edit names a new right answer.
    response : int array
        The canonical response; UNREAD if unparsed.
    key : int array
        The key under the edit.
    why : array of str
        Why an answer is unparsed.
    """

    name: NDArray[Any]
    requested: BoolArray
    same: BoolArray
    directional: BoolArray
    response: IntArray
    key: IntArray
    why: NDArray[Any]

    @property
    def tests(self) -> BoolArray:
        """Return which edits were sent with a request that differs from that of the original.

        Returns
        -------
        (L, n) array of bool
            True for an edit that tests something.
        """
        return self.requested & ~self.same

    @property
    def scores(self) -> FloatArray:
        """Return the scores of the answers.

        Returns
        -------
        (L, n) array
            1 or 0; NaN if the edit was not sent or the answer is unparsed.
        """
        return np.where(self.requested, scores(self.response, self.key), np.nan)

    def take(self, count: int) -> Block:
        """Return, for each item, the first edits whose requests differ from the original.

        Parameters
        ----------
        count : int
            Number of edits.

        Returns
        -------
        Block
            A block with `count` rows. If an item has fewer such edits, its remaining rows count as
            not sent.
        """
        order = np.argsort(~self.tests, axis=0, kind="stable")[:count]
        picked = {}
        for name in self.__dataclass_fields__:
            picked[name] = np.take_along_axis(getattr(self, name), order, axis=0)
        picked["requested"] = picked["requested"] & ~picked["same"]
        return Block(**picked)


@dataclass(frozen=True)
class Cell:
    """Hold the answers of one model to one benchmark in one context.

    Attributes
    ----------
    model, benchmark, context : str
        The names of the model, the benchmark and the context. BBQ, for example, has the contexts
        ambig and disambig. If a benchmark has only one context, the name is "".
    question_ids : tuple of str
        Ids of the n items.
    cluster : (n,) array
        Cluster of each item, 0..G-1. Resampling keeps clusters whole.
    chance : (n,) array
        Expected score of guessing at each item.
    key_position : (n,) array
        Position of the key among the options of the original, as shown.
    original : Block
        The replays of the originals, (K, n).
    families : mapping of Family to Block
        All edits that were sent, with the spare edits.
    wanted : int
        Number of edits of each family that are analysed.
    scorer : mapping
        Facts about the scorer, from the manifest.
    applicable : mapping of Family to float
        Share of the planned edits that could be made.
    shortcuts : mapping of str to (n,) array
        Scores of rules that do not read the question.
    mixed_up : tuple of str
        Items whose rows disagree on the text or the key of the item.
    other_context : tuple of str
        Items whose original was sent as different requests in two replays.
    mass : (rows,) array
        Total probability of the scored labels in each row; empty if the scorer does not report it.
    mass_before : (n,) array
        Total probability of the scored labels for each original; NaN if missing.
    items : tuple of Item
        The originals.
    distances : (4, n) array
        How far the edits of each item are from the original, with one line for each of
        `edits.file.COLUMNS`. A distance is NaN if an item lacks a placebo or an attribute edit. The
        shape is (4, 0) if no distance was measured.
    distance_unit : {"words", "tokens"}
        Unit of the distances. Tokens are counted by the tokenizer of this model.
    """

    model: str
    benchmark: str
    context: str
    question_ids: tuple[str, ...]
    cluster: IntArray
    chance: FloatArray
    key_position: IntArray
    original: Block
    families: Mapping[Family, Block]
    wanted: int
    scorer: Mapping[str, Any]
    applicable: Mapping[Family, float]
    shortcuts: Mapping[str, FloatArray] = field(default_factory=dict)
    mixed_up: tuple[str, ...] = ()
    other_context: tuple[str, ...] = ()
    mass: FloatArray = field(default_factory=lambda: np.zeros(0))
    mass_before: FloatArray = field(default_factory=lambda: np.zeros(0))
    items: tuple[Item, ...] = ()
    distances: FloatArray = field(default_factory=lambda: np.zeros((4, 0)))
    distance_unit: str = "words"

    def __post_init__(self) -> None:
        n = len(self.question_ids)
        paired = {"clusters": self.cluster.shape == (n,), "chance": self.chance.shape == (n,)}
        paired["originals"] = self.original.response.shape[1] == n
        for family, block in self.families.items():
            paired[family.value] = block.response.shape[1] == n
        different = [name for name, fits in paired.items() if not fits]
        if different:
            raise DataError(
                f"The input of {self.name} is unpaired: {', '.join(different)} have another number of items. "
                f"Expected clusters, chance, originals and every family for the same {n} items."
            )

    @property
    def n(self) -> int:
        """Return the number of items."""
        return len(self.question_ids)

    @property
    def name(self) -> str:
        """Return model, benchmark and context as text."""
        return f"{self.model} on {self.benchmark}" + (f" ({self.context})" if self.context else "")

    def used(self, family: Family) -> Block:
        """Return the edits of a family that are analysed.

        Parameters
        ----------
        family : Family
            The family.

        Returns
        -------
        Block
            For each item, the first `wanted` edits that test something.
        """
        return self.families[family].take(self.wanted)

    @property
    def before(self) -> IntArray:
        """Return the canonical responses to the originals in the first replay, as an array (n,)."""
        return self.original.response[0]

    @property
    def score_before(self) -> FloatArray:
        """Return the scores of the originals in the first replay, as an array (n,)."""
        return self.original.scores[0]
