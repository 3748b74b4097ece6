"""Shards -> ValidityCell: one for each model, benchmark and context with rows, sorted."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from audit.benchmarks.items import Item
from audit.scoring.shortcuts import negation_scores
from audit.shards.keys import digest
from audit.shards.manifest import Manifest
from audit.shards.read import iter_columns
from audit.statistics.contracts import UNREAD
from audit.statistics.paired import FloatArray
from audit.validity.audit import SCHEMA
from audit.validity.design import Arm
from audit.validity.edits.file import FILE, EditFile, iter_edits, read_about
from audit.validity.edits.record import Contract, Family
from audit.validity.judge import judged_scorer, read_judgements
from audit.validity.record import Block, ValidityCell
from audit.validity.tokens import as_array, distances, read_token_distances

_COLUMNS = (
    "model", "benchmark", "context", "question_id", "group", "arm", "variant", "replicate", "question", "options",
    "edit", "contract", "asked", "option_order", "key_before", "key_after", "answer", "gold", "request_sha256", "error",
    "unread_why", "label_mass",
)  # fmt: skip
_JUDGED = ("edited", "response")  # by which a judge's votes are found
_LABELS = ("toxigen", "xstest")  # their options are names of responses, the same for every item
_PAIRS = ("crows_pairs",)  # of which neither is right
_ARMS = tuple(Arm)
# A row without its texts, 35 bytes. name, why: numbers of words. sent: digest of item and request; 0: none is told.
_ROW = np.dtype(
    [
        ("place", "i4"), ("arm", "i1"), ("variant", "i2"), ("replicate", "i2"), ("name", "i4"), ("why", "i4"),
        ("asked", "?"), ("directional", "?"), ("response", "i2"), ("key", "i2"), ("position", "i2"),
        ("key_position", "i2"), ("sent", "u8"),
    ]
)  # fmt: skip
Row = dict[str, Any]
Key = tuple[str, str, str]  # model, benchmark, context


class _Original(NamedTuple):
    """Of an original without its texts. lengths: of its options, as shown."""

    order: tuple[int, ...]
    lengths: tuple[int, ...]
    key: int
    mass: float


@dataclass
class _Rows:
    """The rows of one cell as they come: numbers, as a run has millions. An item's own facts are kept once, and so is
    each word (names of edits, reasons). facts: digest of the item's text and key; mixed_up: where rows disagree."""

    found: list[NDArray[Any]] = field(default_factory=list)
    words: dict[str, int] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    mixed_up: set[str] = field(default_factory=set)
    originals: dict[str, _Original] = field(default_factory=dict)
    mass: array[float] = field(default_factory=lambda: array("d"))

    def add(self, rows: Iterable[Row]) -> None:
        """Rows with `_COLUMNS`, of this cell."""
        self.found.append(np.array([self._numbers(row) for row in rows], dtype=_ROW))

    def _numbers(self, row: Row) -> tuple[Any, ...]:
        id_, order, answer, mass = row["question_id"], row["option_order"], row["answer"], row["label_mass"]
        self.groups[id_] = row["group"]
        fact = digest(row["question"], str(row["key_before"]))
        if self.facts.setdefault(id_, fact) != fact:
            self.mixed_up.add(id_)
        if mass is not None:
            self.mass.append(mass)
        if row["arm"] == Arm.ORIGINAL and row["replicate"] == 0:
            lengths = tuple(map(len, row["options"]))
            self.originals[id_] = _Original(tuple(order), lengths, row["key_before"], np.nan if mass is None else mass)
        return (
            self.places.setdefault(id_, len(self.places)),
            _ARMS.index(row["arm"]),
            row["variant"],
            row["replicate"],
            self._word(row["edit"] or ""),
            self._word("error" if row["error"] and row["asked"] else row["unread_why"]),
            row["asked"],
            row["contract"] == Contract.DIRECTIONAL,
            UNREAD if answer is None else order[answer],
            row["key_after"],
            UNREAD if answer is None else answer,
            row["gold"],
            digest(id_, row["request_sha256"]) if row["request_sha256"] else 0,
        )

    def _word(self, text: str) -> int:
        return self.words.setdefault(text, len(self.words))


def load_validity(run_dir: Path) -> tuple[ValidityCell, ...]:
    """Every cell of a run. ShardError where the run's edits are gone."""
    manifest = Manifest.load(run_dir)
    items: dict[str, Item] = {}
    in_words: dict[str, list[float]] = {}
    for piece in iter_edits(run_dir / FILE):
        items.update(piece.items)
        in_words.update(distances(piece))
    edits = EditFile(items, {}, read_about(run_dir / FILE))  # their texts go with the pieces
    rows: dict[Key, _Rows] = {}
    found = read_judgements(run_dir)
    for batch in iter_columns(run_dir, SCHEMA, _COLUMNS + _JUDGED * (found is not None), batch_size=1 << 12):
        together: dict[Key, list[Row]] = {}
        for row in batch.to_pylist():
            if found is not None:
                found.read(row)
            together.setdefault((row["model"], row["benchmark"], row["context"]), []).append(row)
        for key, own in together.items():
            rows.setdefault(key, _Rows()).add(own)
    wanted = int(manifest.analysis["edits_per_family"])
    scorer = manifest.analysis["scorer"]
    in_tokens = read_token_distances(run_dir)
    if found is not None:
        scorer = judged_scorer(scorer, found)
    cells = (_cell(key, rows.pop(key), wanted, scorer, edits) for key in sorted(rows))
    return tuple(
        replace(
            cell,
            distances=as_array(in_tokens.get(cell.model, in_words), cell.question_ids),
            distance_unit="tokens" if cell.model in in_tokens else "words",
        )
        for cell in cells
    )


def _cell(key: Key, rows: _Rows, wanted: int, scorer: Mapping[str, Any], edits: EditFile) -> ValidityCell:
    ids = sorted(rows.places)
    place = np.zeros(len(ids), dtype=np.int32)
    place[[rows.places[id_] for id_ in ids]] = np.arange(len(ids))
    every = np.concatenate(rows.found)
    every["place"] = place[every["place"]]
    originals = every[every["arm"] == _ARMS.index(Arm.ORIGINAL)]
    sent = originals["sent"][originals["sent"] > 0]
    words = np.array([*rows.words], dtype=object)
    _, cluster = np.unique([rows.groups[id_] for id_ in ids], return_inverse=True)
    families = {
        family: _block(every[every["arm"] == _ARMS.index(Arm(family.value))], "variant", len(ids), words, sent)
        for family in Family
    }
    original = _block(originals, "replicate", len(ids), words, sent[:0])
    items = tuple(edits.items[id_] for id_ in ids)
    shortcuts = _shortcuts([rows.originals.get(id_) for id_ in ids], scorer["benchmark"])
    if scorer["benchmark"] == "truthfulqa":
        shortcuts["an option with a negation word"] = np.array(negation_scores(items))
    model, benchmark, context = key
    return ValidityCell(
        model=model,
        benchmark=benchmark,
        context=context,
        question_ids=tuple(ids),
        cluster=cluster.astype(np.int64),
        chance=np.array([scorer["chance"][id_] for id_ in ids], dtype=float),
        original=original,
        families=families,
        wanted=wanted,
        scorer={name: value for name, value in scorer.items() if name != "chance"},
        applicable={family: float(edits.about["applicable"][family.value].get(context, 0.0)) for family in Family},
        shortcuts=shortcuts,
        mixed_up=tuple(sorted(rows.mixed_up)),
        other_context=tuple(ids[k] for k in _sent_otherwise(originals, len(ids))),
        mass=np.array(rows.mass),
        mass_before=np.array([rows.originals[id_].mass if id_ in rows.originals else np.nan for id_ in ids]),
        items=items,
    )


def _sent_otherwise(originals: NDArray[Any], n: int) -> list[int]:
    """Places of the items whose replays were not the request of their first sending; of those with both hashes."""
    first = np.zeros(n, dtype=np.uint64)
    again = originals[originals["replicate"] > 0]
    once = originals[originals["replicate"] == 0]
    first[once["place"]] = once["sent"]
    before = first[again["place"]]
    other = (before > 0) & (again["sent"] > 0) & (again["sent"] != before)
    found: list[int] = np.unique(again["place"][other]).tolist()
    return found


def _block(rows: NDArray[Any], level: str, n: int, words: NDArray[Any], originals: NDArray[np.uint64]) -> Block:
    """(L, n) arrays; a row's line is its level (or replicate), lines without a row are not asked. originals: what was
    sent of them."""
    levels, line = np.unique(rows[level], return_inverse=True)

    def laid(values: NDArray[Any], nothing: Any) -> NDArray[Any]:
        kind = np.int64 if nothing == -1 else values.dtype
        made = np.full((max(len(levels), 1), n), nothing, dtype=kind)
        made[line, rows["place"]] = values
        return made

    return Block(
        name=laid(words[rows["name"]], ""), why=laid(words[rows["why"]], ""), asked=laid(rows["asked"], False),
        same=laid(np.isin(rows["sent"], originals), False), directional=laid(rows["directional"], False),
        response=laid(rows["response"], -1), key=laid(rows["key"], -1), position=laid(rows["position"], -1),
        key_position=laid(rows["key_position"], -1),
    )  # fmt: skip


def _shortcuts(originals: list[_Original | None], benchmark: str) -> dict[str, FloatArray]:
    """What rules that never read the question score on each item: the answer-only baselines of the notes.

    Of texts the longest, the shortest and the first shown; of labels the commonest key; of pairs none. (TruthfulQA's
    negation words beside them. Not BBQ's "unknown", which is right in every item of one context by design.)
    """
    labels = benchmark in _LABELS
    texts = not labels and benchmark not in _PAIRS
    names = ("the longest option", "the shortest option", "always the first shown") if texts else ()
    found: dict[str, list[float]] = {name: [] for name in names}
    for row in originals:
        if row is None:
            for values in found.values():
                values.append(np.nan)
            continue
        if not texts:
            continue
        found["the longest option"].append(float(row.order[int(np.argmax(row.lengths))] == row.key))
        found["the shortest option"].append(float(row.order[int(np.argmin(row.lengths))] == row.key))
        found["always the first shown"].append(float(row.order[0] == row.key))
    rules = {name: np.array(values) for name, values in found.items()}
    keys = [row.key for row in originals if row is not None]
    if keys and labels:
        most = max(set(keys), key=keys.count)
        rules["always the commonest key"] = np.array(
            [np.nan if row is None else float(row.key == most) for row in originals]
        )
    return rules
