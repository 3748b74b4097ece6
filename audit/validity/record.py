"""Hold the answers of one model on one benchmark in one context as arrays."""

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
    """Hold answers to n items under L settings, as (L, n) arrays.

    The settings are the replays of the original, or the edits of a family.

    Attributes
    ----------
    name : array of str
        The name of the edit.
    asked : bool array
        Whether the edit was sent.
    same : bool array
        Whether the request has the hash of the original's request, so that it tests nothing.
    directional : bool array
        Whether the contract of the edit names a new right answer.
    response, key : int array
        The canonical response (UNREAD if unparsed), and the key under the edit.
    why : array of str
        Why an answer is unparsed.
    """

    name: NDArray[Any]
    asked: BoolArray
    same: BoolArray
    directional: BoolArray
    response: IntArray
    key: IntArray
    why: NDArray[Any]

    @property
    def tests(self) -> BoolArray:
        """Return where a request was sent that differs from the original's request."""
        return self.asked & ~self.same

    @property
    def scores(self) -> FloatArray:
        """Return the scores 1 and 0; NaN if the edit was not sent or the answer is unparsed."""
        return np.where(self.asked, scores(self.response, self.key), np.nan)

    def take(self, count: int) -> Block:
        """Return the first `count` edits of each item that test something.

        If an item has fewer, its remaining rows count as not sent.
        """
        order = np.argsort(~self.tests, axis=0, kind="stable")[:count]
        picked = {}
        for name in self.__dataclass_fields__:
            picked[name] = np.take_along_axis(getattr(self, name), order, axis=0)
        picked["asked"] = picked["asked"] & ~picked["same"]
        return Block(**picked)


@dataclass(frozen=True)
class Cell:
    """Hold the answers of one model on one benchmark in one context.

    Attributes
    ----------
    model, benchmark, context : str
        The names. BBQ has the contexts ambig and disambig. The context is "" if the benchmark has
        only one.
    question_ids : tuple of str
        The ids of the n items.
    cluster : (n,) array
        The cluster of each item, 0..G-1. Resampling keeps clusters whole.
    chance : (n,) array
        The expected score of guessing.
    key_position : (n,) array
        The position of the key in the original as shown.
    original : Block
        The replays of the originals, (K, n).
    families : mapping of Family to Block
        All edits that were sent, with the spare ones.
    wanted : int
        How many edits of each family are analysed.
    scorer : mapping
        The manifest's facts of the scorer.
    applicable : mapping of Family to float
        The share of the wanted edits that exist.
    shortcuts : mapping of str to (n,) array
        The scores of rules that do not read the question.
    mixed_up : tuple of str
        Items whose rows disagree on the item's text or key.
    other_context : tuple of str
        Items whose original was a different request when it was sent again.
    mass : (rows,) array
        The probability on the scored labels; empty if the scorer does not report it.
    mass_before : (n,) array
        The same for the originals; NaN if missing.
    items : tuple of Item
        The originals.
    distances : (4, n) array
        The numbers of `edits.file.COLUMNS`; NaN if an item lacks one of the two edits, and (4, 0)
        if nothing was measured.
    distance_unit : str
        Words, or tokens of this model.
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
        wrong = [f for f, block in self.families.items() if block.response.shape[1] != n]
        if (
            self.cluster.shape != (n,)
            or self.chance.shape != (n,)
            or self.original.response.shape[1] != n
            or wrong
        ):
            raise DataError(
                f"The input of {self.name} is unpaired. Expected clusters, chance, originals and "
                "every family of the "
                f"same {n} items; {', '.join(wrong) or 'the originals'} differ."
            )

    @property
    def n(self) -> int:
        return len(self.question_ids)

    @property
    def name(self) -> str:
        return f"{self.model} on {self.benchmark}" + (f" ({self.context})" if self.context else "")

    def used(self, family: Family) -> Block:
        """Return the analysed edits of a family: for each item, the first `wanted` that test
        something."""
        return self.families[family].take(self.wanted)

    @property
    def before(self) -> IntArray:
        """Return the canonical responses to the originals in the first replay, (n,)."""
        return self.original.response[0]

    @property
    def score_before(self) -> FloatArray:
        return self.original.scores[0]
