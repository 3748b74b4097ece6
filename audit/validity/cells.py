"""Read the shards of a run into a sorted table of numbers, and into cells.

A cell holds the answers of one model to one benchmark in one context.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from audit.core.errors import ConfigError
from audit.core.records import Item
from audit.scoring.shortcuts import negation_scores
from audit.shards.keys import digest
from audit.shards.manifest import Manifest
from audit.shards.read import iter_rows
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.validity.audit import SCHEMA
from audit.validity.edits.file import (
    FILE,
    EditFile,
    as_array,
    distances,
    iter_edits,
    read_about,
    read_token_distances,
)
from audit.validity.edits.plan import cluster_of
from audit.validity.edits.record import ARMS, ORIGINAL, Contract, Family
from audit.validity.judge import judged_scorer, read_judgements
from audit.validity.record import Block, Cell
from audit.validity.vocabulary import Injected

KEY = ("model", "benchmark", "context", "question_id")
_COLUMNS = (
    *KEY,
    "arm",
    "variant",
    "replicate",
    "question",
    "edit",
    "contract",
    "asked",
    "edited",
    "prompt",
    "options",
    "option_order",
    "key_before",
    "key_after",
    "answer",
    "response",
    "correct",
    "unread_why",
    "label_mass",
    "error",
    "request_sha256",
)
# The columns of `ItemRows.table`. `canonical` is the response. Three columns are digests: `fact` of
# the item's text and key, `rendered` of the text as sent, and `consumed` of the item and the request
# that the engine read.
_TYPES = {
    pa.dictionary(pa.int32(), pa.string()): (*KEY, "arm", "edit", "contract", "why"),
    pa.int16(): ("variant", "replicate", "key_before", "key_after", "canonical"),
    pa.bool_(): ("asked", "correct", "failed"),
    pa.uint64(): ("fact", "rendered", "consumed"),
    pa.float64(): ("label_mass",),
}
_SMALL = pa.schema([(name, type_) for type_, names in _TYPES.items() for name in names])
_NOTHING = {"bool": False, "int16": -1, "uint64": 0, "double": np.nan}
_ROWS_AT_ONCE = 1024
_LEVELS = 2**15 - 1  # largest level (int16)
# In these benchmarks, the options are labels, and they are the same for all items.
_LABELS = ("toxigen", "xstest")

Row = dict[str, Any]
Key = tuple[str, str, str, str]  # the columns of `KEY`


@dataclass(frozen=True)
class ItemRows:
    """Hold every row of the runs, sorted by item, arm and level.

    Runs may have millions of rows, so the texts are left out.

    Attributes
    ----------
    table : pyarrow.Table
        The rows.
    whole : callable
        Function that reads all columns, including texts, of the items that it is given. The rows of
        each item have the same order as in `table`.
    """

    table: pa.Table
    whole: Callable[[Collection[Key]], Mapping[Key, list[Row]]]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def items(self) -> int:
        """Return the number of items, counted separately for each model, benchmark and context."""
        return int(self.table.group_by([*KEY]).aggregate([]).num_rows)

    def by_item(self, *columns: str) -> Iterator[tuple[Key, list[Row]]]:
        """Yield each item with the rows of its answers.

        Parameters
        ----------
        *columns : str
            The columns of the rows.

        Yields
        ------
        tuple of (Key, list of Row)
            The key of the item, and its rows.
        """
        batches = self.table.select([*KEY, *columns]).to_batches(_ROWS_AT_ONCE)
        rows = chain.from_iterable(batch.to_pylist() for batch in batches)
        for key, item_values in groupby(rows, itemgetter(*KEY)):
            yield key, list(item_values)


def read_table(run_dir: Path) -> pa.Table:
    """Return the rows of a run as a table of numbers.

    Parameters
    ----------
    run_dir : Path
        The run directory.

    Returns
    -------
    pyarrow.Table
        A table with the columns of `ItemRows.table`. If the run has a judge, the votes of the judge
        determine the answers.
    """
    return small_table(_batches(run_dir))


def item_rows(run_dirs: Sequence[Path], tables: Sequence[pa.Table]) -> ItemRows:
    """Return the rows of several runs.

    Parameters
    ----------
    run_dirs : sequence of Path
        The run directories.
    tables : sequence of pyarrow.Table
        The result of `read_table` for each run.

    Returns
    -------
    ItemRows
        The rows of all runs.
    """
    return ItemRows(_sorted(pa.concat_tables(tables)), lambda keys: _whole(run_dirs, keys))


def small_table(parts: Iterable[Iterable[Row]]) -> pa.Table:
    """Return rows of shards as a table of numbers.

    Parameters
    ----------
    parts : iterable of iterables of Row
        The rows with all columns, in any order.

    Returns
    -------
    pyarrow.Table
        A table with the columns of `ItemRows.table`.
    """
    batches = []
    for rows in parts:
        batches.append(pa.RecordBatch.from_pylist(list(map(_small, rows)), schema=_SMALL))
    return _sorted(pa.Table.from_batches(batches, schema=_SMALL))


def _sorted(table: pa.Table) -> pa.Table:
    """Return the table sorted by item, arm, level and replicate."""
    table = table.unify_dictionaries().combine_chunks()
    levels = [table["replicate"], table["variant"], _ranks(table["arm"], ARMS)]
    return table.take(np.lexsort((*levels, *(_ranks(table[name]) for name in reversed(KEY)))))


def _ranks(column: pa.ChunkedArray, order: Sequence[str] | None = None) -> NDArray[np.int64]:
    """Return an array (rows,): the position of each row's text in `order`.

    By default, `order` is the sorted list of the different texts.
    """
    whole = column.combine_chunks()
    texts = whole.dictionary.to_pylist()
    place = {text: k for k, text in enumerate(order or sorted(texts))}
    return np.array([place[text] for text in texts], dtype=np.int64)[np.asarray(whole.indices)]


def _small(row: Row) -> Row:
    """Return a row reduced to the columns that `_TYPES` lists, with its response and digests."""
    id_, request = row["question_id"], row["request_sha256"]
    return {
        **row,
        "canonical": response_of(row),
        "why": row["error"] or row["unread_why"],
        "failed": row["error"] is not None,
        "fact": digest(row["question"], str(row["key_before"])),
        "rendered": digest(repr((row["prompt"], row["options"]))),
        "consumed": digest(id_, request) if request else None,
    }


def response_of(row: Row) -> int | None:
    """Return the canonical response of a row.

    Parameters
    ----------
    row : Row
        A row of a shard.

    Returns
    -------
    int or None
        The published position of the chosen option; None if the answer is unparsed.
    """
    return None if row["answer"] is None else int(row["option_order"][row["answer"]])


def _batches(run_dir: Path, keys: Collection[Key] | None = None) -> Iterator[list[Row]]:
    """Yield batches of rows. If the run has a judge, the judge's votes replace the answers in the
    rows.

    `keys` selects items; None selects all items.
    """
    judge = read_judgements(run_dir)
    for rows in iter_rows(run_dir, SCHEMA, _COLUMNS, KEY, keys):
        if judge is not None:
            for row in rows:
                judge.read(row)
        yield rows


def _whole(run_dirs: Sequence[Path], keys: Collection[Key]) -> dict[Key, list[Row]]:
    """Map each selected item to its rows, with all columns."""
    by_key: dict[Key, list[Row]] = {}
    for run_dir in run_dirs:
        for row in chain.from_iterable(_batches(run_dir, keys)):
            by_key.setdefault(itemgetter(*KEY)(row), []).append(row)
    for rows in by_key.values():
        rows.sort(key=lambda row: (ARMS.index(row["arm"]), row["variant"], row["replicate"]))
    return by_key


def read_analysis(run_dir: Path) -> dict[str, Any]:
    """Return the analysis options in the manifest of a run.

    Parameters
    ----------
    run_dir : Path
        The run directory.

    Returns
    -------
    dict
        The options.

    Raises
    ------
    ConfigError
        If a value is missing or has the wrong type. The text "false", for example, would count as
        true.
    """
    analysis = Manifest.load(run_dir).analysis
    try:
        odd = list(_odd(analysis))
    except (KeyError, TypeError, AttributeError) as error:
        odd = [error]
    if odd:
        raise ConfigError(
            f"The manifest of {run_dir} does not hold the analysis of a validity run ({odd[0]!r:.80}). "
            "Restore the file, or run the same command with another run_dir."
        )
    return analysis


def _odd(analysis: Mapping[str, Any]) -> Iterator[object]:
    """Yield the values of the analysis that no run can have written.

    Raises KeyError, TypeError or AttributeError if a value is missing.
    """
    scorer, wanted, _, _ = itemgetter("scorer", "edits_per_family", "thresholds", "seed")(analysis)
    test, injected = scorer["self_test"], scorer.get("injected", [])
    probes = itemgetter("oracle", "anti_oracle", "constant", "ignoring")(test)
    lists = [scorer["evidence"], test["faults"], injected]
    texts = [
        scorer["name"],
        scorer["benchmark"],
        scorer["reference_of"],
        *scorer["evidence"],
        *test["faults"],
    ]
    for entry in injected:
        texts += asdict(Injected(**entry)).values()
    flags = [scorer["validated"], scorer["lettered"], test["passed"]]
    for kind, values in ((list, lists), (str, texts), (bool, flags)):
        for value in values:
            if not isinstance(value, kind):
                yield value
    shares = [test["baseline"], *scorer["chance"].values()]
    for probe in probes:
        shares.append(probe["unread"])
        if probe["score"] is not None:
            shares.append(probe["score"])
    for share in shares:
        if not 0 <= share <= 1:
            yield share
    if not 1 <= wanted <= _LEVELS:
        yield wanted


def load_validity(run_dir: Path, table: pa.Table | None = None) -> tuple[Cell, ...]:
    """Return every cell of a run.

    Parameters
    ----------
    run_dir : Path
        The run directory.
    table : pyarrow.Table or None
        The result of `read_table`; by default it is read here.

    Returns
    -------
    tuple of Cell
        The cells, sorted by model, benchmark and context.

    Raises
    ------
    ShardError
        If the file of edits is missing.
    ConfigError
        If the manifest lacks an item.
    """
    analysis, in_tokens = read_analysis(run_dir), read_token_distances(run_dir)
    items: dict[str, Item] = {}
    in_words: dict[str, list[float]] = {}
    for piece in iter_edits(run_dir / FILE):
        items.update(piece.items)
        in_words.update(distances(piece))
    # The texts of the edits are not needed here.
    edits = EditFile(items, {}, read_about(run_dir / FILE))
    scorer, wanted = analysis["scorer"], analysis["edits_per_family"]
    unknown = sorted(items.keys() - scorer["chance"].keys())
    if unknown:
        raise ConfigError(
            f"analysis.scorer.chance in the manifest of {run_dir} lacks item {unknown[0]!r} "
            f"and {len(unknown) - 1} more. Restore the manifest, or run the same command with another run_dir."
        )
    judge = read_judgements(run_dir)
    if judge is not None:
        scorer = judged_scorer(scorer, judge)
    table = read_table(run_dir) if table is None else table
    counts = table.group_by([*KEY[:3]], use_threads=False).aggregate([([], "count_all")])
    cells, start = [], 0
    for group in counts.to_pylist():
        cell = _cell(table.slice(start, group["count_all"]), wanted, scorer, edits)
        start += group["count_all"]
        unit = "tokens" if cell.model in in_tokens else "words"
        far = as_array(in_tokens.get(cell.model, in_words), cell.question_ids)
        cells.append(replace(cell, distances=far, distance_unit=unit))
    return tuple(cells)


def _cell(table: pa.Table, wanted: int, scorer: Mapping[str, Any], edits: EditFile) -> Cell:
    """Return the cell whose rows a table holds."""
    row = {name: _values(table[name]) for name in table.column_names}
    model, benchmark, context, question = itemgetter(*KEY)(row)
    other = np.append(True, question[1:] != question[:-1])
    start, place = np.flatnonzero(other), np.cumsum(other) - 1
    row["place"] = place
    ids = tuple(question[start].tolist())
    arms = {arm: _only(row, row["arm"] == arm) for arm in ARMS}
    original = arms[ORIGINAL]
    once = _only(original, original["replicate"] == 0)
    items = tuple(edits.items[id_] for id_ in ids)
    rules = _shortcuts([items[k] for k in once["place"]], scorer["benchmark"])
    of_scorer = {**scorer}
    chance = of_scorer.pop("chance")
    applicable, families = {}, {}
    for family in Family:
        of_family = edits.about["applicable"][family.value]
        applicable[family] = float(of_family.get(context[0], 0.0))
    shortcuts = {name: _by_item(once, right, len(ids)) for name, right in rules.items()}
    _, cluster = np.unique(list(map(cluster_of, items)), return_inverse=True)
    sent = original["consumed"][original["consumed"] > 0]
    mixed = np.unique(place[row["fact"] != row["fact"][start][place]])
    resent = _sent_otherwise(original, once, len(ids))
    for family in Family:
        families[family] = _block(arms[family], "variant", len(ids), sent)
    return Cell(
        model=model[0],
        benchmark=benchmark[0],
        context=context[0],
        question_ids=ids,
        cluster=cluster.astype(np.int64),
        chance=np.array([chance[id_] for id_ in ids], dtype=float),
        key_position=np.array([item.shown.index(item.key) for item in items]),
        original=_block(original, "replicate", len(ids), sent[:0]),
        families=families,
        wanted=wanted,
        scorer=of_scorer,
        applicable=applicable,
        shortcuts=shortcuts,
        mixed_up=tuple(question[start][mixed].tolist()),
        other_context=tuple(question[start][resent].tolist()),
        mass=row["label_mass"][~np.isnan(row["label_mass"])],
        mass_before=_by_item(once, once["label_mass"], len(ids)),
        items=items,
    )


def _values(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return the texts or numbers of a column as an array (rows,).

    A missing text becomes "", and a missing number becomes `_NOTHING`.
    """
    whole = column.combine_chunks()
    if not pa.types.is_dictionary(whole.type):
        return np.asarray(whole.fill_null(_NOTHING[str(whole.type)]))
    return np.array([*whole.dictionary.to_pylist(), ""], dtype=object)[
        np.asarray(whole.indices.fill_null(-1))
    ]


# The columns of `small_table`, and `place`, the number of the item.
Rows = Mapping[str, NDArray[Any]]


def _only(rows: Rows, where: BoolArray) -> dict[str, NDArray[Any]]:
    """Return the rows that a mask selects."""
    return {name: values[where] for name, values in rows.items()}


def _by_item(once: Rows, values: NDArray[Any], n: int) -> FloatArray:
    """Return an array (n,) with the value in each item's first row of the original.

    The value is NaN if the row is missing.
    """
    by_item = np.full(n, np.nan)
    by_item[once["place"]] = values
    return by_item


def _sent_otherwise(original: Rows, once: Rows, n: int) -> IntArray:
    """Return the positions of items whose original was sent as different requests in two replays.

    Two requests are compared only if each of them has a hash.
    """
    first = np.zeros(n, dtype=np.uint64)
    first[once["place"]] = once["consumed"]
    before, sent = first[original["place"]], original["consumed"]
    return np.unique(original["place"][(before > 0) & (sent > 0) & (sent != before)])


def _block(rows: Rows, level: str, n: int, originals: NDArray[np.uint64]) -> Block:
    """Return the answers as (L, n) arrays, with a line for each level or replicate and a column for
    each item.

    `originals` holds the hashes of the requests for the originals.
    """
    levels, line = np.unique(rows[level], return_inverse=True)

    def by_level(values: NDArray[Any], nothing: Any) -> NDArray[Any]:
        """Return an array (L, n) of values. The value is `nothing` if an item has no row at a
        level.
        """
        kind = np.int64 if nothing == -1 else values.dtype
        table = np.full((max(len(levels), 1), n), nothing, dtype=kind)
        table[line, rows["place"]] = values
        return table

    return Block(
        name=by_level(rows["edit"], ""),
        why=by_level(np.where(rows["failed"], "error", rows["why"]), ""),
        requested=by_level(rows["asked"], False),
        same=by_level(np.isin(rows["consumed"], originals), False),
        directional=by_level(rows["contract"] == Contract.DIRECTIONAL, False),
        response=by_level(rows["canonical"], -1),
        key=by_level(rows["key_after"], -1),
    )


def _shortcuts(items: Sequence[Item], benchmark: str) -> dict[str, NDArray[Any]]:
    """Return how rules that do not read the question score on each original.

    The rule "always unknown" is left out for BBQ, because in one of BBQ's contexts this answer is
    always right.
    """
    key = np.array([item.key for item in items])
    if benchmark in _LABELS:
        return {"always the commonest key": key == np.bincount(key).argmax()} if key.size else {}
    if benchmark == "crows_pairs":  # No sentence of a pair is right or wrong.
        return {}
    longest, shortest, first = [], [], []
    for item in items:
        sizes = list(map(len, item.options))
        longest.append(item.shown[sizes.index(max(sizes))])
        shortest.append(item.shown[sizes.index(min(sizes))])
        first.append(item.shown[0])
    scored = {
        "the longest option": key == longest,
        "the shortest option": key == shortest,
        "always the first shown": key == first,
    }
    if benchmark == "truthfulqa":
        scored["an option with a negation word"] = np.array(negation_scores(items))
    return scored
