"""Shards -> ValidityCell: one for each model, benchmark and context with rows, sorted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from audit.scoring.shortcuts import negation_scores
from audit.shards.manifest import Manifest
from audit.shards.read import iter_columns
from audit.statistics.contracts import UNREAD
from audit.statistics.paired import FloatArray
from audit.validity.columns import SCHEMA
from audit.validity.design import Arm
from audit.validity.edits.file import FILE, EditFile, read_edits
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
Row = dict[str, Any]


def load_validity(run_dir: Path) -> tuple[ValidityCell, ...]:
    """Every cell of a run. ShardError where the run's edits are gone."""
    manifest = Manifest.load(run_dir)
    edits = read_edits(run_dir / FILE)
    rows: dict[tuple[str, str, str], list[Row]] = {}
    found = read_judgements(run_dir)
    for batch in iter_columns(run_dir, SCHEMA, _COLUMNS + _JUDGED * (found is not None), batch_size=1 << 14):
        for row in batch.to_pylist():
            if found is not None:
                found.read(row)
            rows.setdefault((row["model"], row["benchmark"], row["context"]), []).append(row)
    wanted = int(manifest.analysis["edits_per_family"])
    scorer = manifest.analysis["scorer"]
    in_tokens, in_words = read_token_distances(run_dir), distances(edits)
    if found is not None:
        scorer = judged_scorer(scorer, found)
    cells = (_cell(key, own, wanted, scorer, edits) for key, own in sorted(rows.items()))
    return tuple(
        replace(
            cell,
            distances=as_array(in_tokens.get(cell.model, in_words), cell.question_ids),
            distance_unit="tokens" if cell.model in in_tokens else "words",
        )
        for cell in cells
    )


def _cell(
    key: tuple[str, str, str], rows: list[Row], wanted: int, scorer: Mapping[str, Any], edits: EditFile
) -> ValidityCell:
    ids = sorted({row["question_id"] for row in rows})
    place = {id_: i for i, id_ in enumerate(ids)}
    originals = {row["question_id"]: row for row in rows if row["arm"] == Arm.ORIGINAL and row["replicate"] == 0}
    hashes: dict[str, set[str]] = {}
    for row in rows:
        if row["arm"] == Arm.ORIGINAL and row["request_sha256"]:
            hashes.setdefault(row["question_id"], set()).add(row["request_sha256"])
    facts: dict[str, set[tuple[str, int]]] = {}
    for row in rows:
        facts.setdefault(row["question_id"], set()).add((row["question"], row["key_before"]))
    groups = {row["question_id"]: row["group"] for row in rows}
    _, cluster = np.unique([groups[id_] for id_ in ids], return_inverse=True)
    families = {
        family: _block([row for row in rows if row["arm"] == family.value], place, hashes, "variant")
        for family in Family
    }
    original = _block([row for row in rows if row["arm"] == Arm.ORIGINAL], place, {}, "replicate")
    items = tuple(edits.items[id_] for id_ in ids)
    shortcuts = _shortcuts([originals.get(id_) for id_ in ids], scorer["benchmark"])
    if scorer["benchmark"] == "truthfulqa":
        shortcuts["an option with a negation word"] = np.array(negation_scores(items))
    mass = [row["label_mass"] for row in rows if row["label_mass"] is not None]
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
        mixed_up=tuple(id_ for id_ in ids if len(facts[id_]) > 1),
        mass=np.array(mass, dtype=float),
        mass_before=np.array([_mass(originals.get(id_)) for id_ in ids]),
        items=items,
    )


def _mass(row: Row | None) -> float:
    return np.nan if row is None or row["label_mass"] is None else float(row["label_mass"])


def _block(rows: list[Row], place: Mapping[str, int], hashes: Mapping[str, set[str]], level: str) -> Block:
    """(L, n) arrays; a row's line is its level (or replicate), lines without a row are not asked."""
    levels = {value: i for i, value in enumerate(sorted({row[level] for row in rows}))}
    shape = (max(len(levels), 1), len(place))
    name, why = np.full(shape, "", dtype=object), np.full(shape, "", dtype=object)
    asked, same, directional = (np.zeros(shape, dtype=bool) for _ in range(3))
    response, key, position, key_position = (np.full(shape, -1, dtype=np.int64) for _ in range(4))
    for row in rows:
        at = levels[row[level]], place[row["question_id"]]
        order = row["option_order"]
        answer = row["answer"]
        name[at] = row["edit"] or ""
        why[at] = "error" if row["error"] and row["asked"] else row["unread_why"]
        asked[at] = row["asked"]
        same[at] = row["request_sha256"] in hashes.get(row["question_id"], ())
        directional[at] = row["contract"] == Contract.DIRECTIONAL
        response[at] = UNREAD if answer is None else order[answer]
        key[at] = row["key_after"]
        position[at] = UNREAD if answer is None else answer
        key_position[at] = row["gold"]
    return Block(
        name=name, why=why, asked=asked, same=same, directional=directional, response=response, key=key,
        position=position, key_position=key_position,
    )  # fmt: skip


def _shortcuts(originals: list[Row | None], benchmark: str) -> dict[str, FloatArray]:
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
        order, key = row["option_order"], row["key_before"]
        lengths = [len(text) for text in row["options"]]
        found["the longest option"].append(float(order[int(np.argmax(lengths))] == key))
        found["the shortest option"].append(float(order[int(np.argmin(lengths))] == key))
        found["always the first shown"].append(float(order[0] == key))
    rules = {name: np.array(values) for name, values in found.items()}
    keys = [row["key_before"] for row in originals if row is not None]
    if keys and labels:
        most = max(set(keys), key=keys.count)
        rules["always the commonest key"] = np.array(
            [np.nan if row is None else float(row["key_before"] == most) for row in originals]
        )
    return rules
