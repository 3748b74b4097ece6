"""Store the edits of a run beside its shards, and their distances from the originals.

edits.arrow has a row for each item (level 0 of `original`) and for each edit. Every stage reads
this file, so a report can be built again later. The row of an original also holds facts that the
metrics of the benchmark's authors need, such as BBQ's polarity or the type of bias in CrowS-Pairs.

token_distances.json compares placebo and attribute edits in tokens. A placebo has as many words as
the attribute edits change, but each tokenizer splits words differently. Tokens are therefore
counted after the run. If a model has no tokenizer on this machine (an endpoint), words are counted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from audit.benchmarks.items import BbqFacts, ContrastFacts, CrowsFacts, ToxigenFacts, XsTestFacts
from audit.core.errors import ShardError
from audit.core.guarded_files import check_regular, read_json
from audit.core.records import NO_OPTION, Facts, Item
from audit.engines.weights import local_path
from audit.shards.files import write_file
from audit.shards.read import write_table
from audit.statistics.paired import FloatArray
from audit.validity.edits.plan import Plan
from audit.validity.edits.record import ORIGINAL, PLAIN_LABELS, PROMPT, Contract, Edit, Family
from audit.validity.edits.surface import distance, text_of, words

if TYPE_CHECKING:
    from audit.config.resolve import ResolvedRun

FILE = "edits.arrow"
_SCHEMA = pa.schema(
    [
        ("question_id", pa.string()),
        ("arm", pa.string()),
        ("level", pa.int16()),
        ("name", pa.string()),
        ("contract", pa.string()),
        ("label_style", pa.string()),
        ("text", pa.string()),
        ("context", pa.string()),
        ("options", pa.list_(pa.string())),
        ("order", pa.list_(pa.int16())),
        ("key", pa.int16()),
        ("group", pa.string()),
        ("condition", pa.string()),
        ("benchmark", pa.string()),
        ("facts", pa.string()),
    ]
)
_ROWS_AT_ONCE = 1024
_FACTS = {
    kind.__name__: kind for kind in (BbqFacts, ContrastFacts, CrowsFacts, ToxigenFacts, XsTestFacts)
}


@dataclass(frozen=True)
class EditFile:
    """Hold the edits of a run.

    Attributes
    ----------
    items : mapping of str to Item
        The originals by id.
    edits : mapping
        The edits by (question id, arm, level).
    about : mapping
        Facts about the edits: the scorer, the prompt, how many edits were replaced, and for each
        family the share of planned edits that could be made.
    """

    items: Mapping[str, Item]
    edits: Mapping[tuple[str, str, int], Edit]
    about: Mapping[str, Any]


def to_table(plan: Plan, scorer: str, template: str = PROMPT, system: str = "") -> pa.Table:
    """Return the edits of a plan as a table, with its counts in the metadata.

    Parameters
    ----------
    plan : Plan
        The plan.
    scorer : str
        Name of the scorer.
    template, system : str
        Template of the prompt, and system prompt.

    Returns
    -------
    pyarrow.Table
        One row for each item and edit.
    """
    rows: list[dict[str, Any]] = []
    for planned in plan.items:
        rows.append(_row(planned.item.id, ORIGINAL, 0, "", "", PLAIN_LABELS, planned.item))
        for family, edits in planned.edits.items():
            for k, e in enumerate(edits, start=1):
                rows.append(
                    _row(planned.item.id, family, k, e.name, e.contract, e.label_style, e.item)
                )
    about = {
        "scorer": scorer,
        "template": template,
        "system": system,
        "replaced": dict(plan.replaced),
        "applicable": {family.value: plan.applicable(family) for family in Family},
    }
    return pa.Table.from_pylist(
        rows, schema=_SCHEMA.with_metadata({b"about": json.dumps(about).encode()})
    )


def digest(table: pa.Table) -> str:
    """Return a hash of all items and edits of a run, which is a part of the run's fingerprint.

    Parameters
    ----------
    table : pyarrow.Table
        The result of `to_table`.

    Returns
    -------
    str
        sha256 in hexadecimal.
    """
    plain = json.dumps(
        [table.to_pylist(), table.schema.metadata[b"about"].decode()], sort_keys=True
    )
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


def write_edits(table: pa.Table, run_dir: Path) -> Path:
    """Write the edits into a run directory. The file is written completely or not at all.

    Parameters
    ----------
    table : pyarrow.Table
        The result of `to_table`.
    run_dir : Path
        The run directory.

    Returns
    -------
    Path
        The file.
    """
    return write_table(run_dir / FILE, table, _ROWS_AT_ONCE)


def read_edits(path: Path) -> EditFile:
    """Read the edits of a run.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    EditFile
        The edits.

    Raises
    ------
    ShardError
        If the file is missing or cannot be read as edits.
    """
    items: dict[str, Item] = {}
    edits: dict[tuple[str, str, int], Edit] = {}
    for piece in iter_edits(path):
        items.update(piece.items)
        edits.update(piece.edits)
    return EditFile(items, edits, read_about(path))


def iter_edits(path: Path) -> Iterator[EditFile]:
    """Yield the edits of a run in groups of a few items, with all edits of each item.

    Reading all edits of a benchmark at once would need too much memory.

    Parameters
    ----------
    path : Path
        The file.

    Yields
    ------
    EditFile
        The edits of some items.

    Raises
    ------
    ShardError
        If the file is missing or cannot be read as edits.
    """
    with _opened(path) as (reader, about):
        waiting: list[dict[str, Any]] = []
        for k in range(reader.num_record_batches):
            for batch in pa.Table.from_batches([reader.get_batch(k)]).to_batches(_ROWS_AT_ONCE):
                waiting += batch.to_pylist()
                last = len(waiting) - 1
                while last > 0 and waiting[last]["arm"] != ORIGINAL:
                    last -= 1
                last = max(last, 0)
                yield _piece(waiting[:last], about)
                waiting = waiting[last:]
        yield _piece(waiting, about)


def read_about(path: Path) -> Mapping[str, Any]:
    """Return the stored facts about the edits of a run, without the edits.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    mapping
        The content of `EditFile.about`.

    Raises
    ------
    ShardError
        If the file is missing or cannot be read as edits.
    """
    with _opened(path) as (_, about):
        return about


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Open a file of edits. Raises ShardError if it cannot be read as edits."""
    try:
        check_regular(path)
        with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
            if reader.schema.names != _SCHEMA.names:
                raise KeyError(f"columns {reader.schema.names}")
            yield reader, json.loads(reader.schema.metadata[b"about"])
    except (OSError, pa.ArrowInvalid, KeyError, TypeError) as error:
        raise ShardError(
            f"{path} cannot be read ({error}). Run the same command again, which writes the file."
        ) from None


def _piece(rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> EditFile:
    """Return the items and edits of some rows."""
    items, edits = {}, {}
    for row in rows:
        item = Item(
            id=row["question_id"],
            benchmark=row["benchmark"],
            stem=row["text"],
            options=tuple(row["options"]),
            gold=NO_OPTION,
            group=row["group"],
            context=row["context"],
            condition=row["condition"],
            order=tuple(row["order"]),
            facts=_unpacked(row["facts"]),
        ).keyed(row["key"])
        if row["arm"] == ORIGINAL:
            items[item.id] = item
        else:
            edits[item.id, row["arm"], row["level"]] = Edit(
                row["name"], Family(row["arm"]), Contract(row["contract"]), item, row["label_style"]
            )
    return EditFile(items, edits, about)


def _row(
    id_: str, arm: str, level: int, name: str, contract: str, style: str, item: Item
) -> dict[str, Any]:
    """Return the row of one item or edit."""
    return {
        "question_id": id_,
        "arm": str(arm),
        "level": level,
        "name": name,
        "contract": str(contract),
        "label_style": style,
        "text": item.stem,
        "context": item.context,
        "options": list(item.options),
        "order": list(item.shown),
        "key": item.key,
        "group": item.group,
        "condition": item.condition,
        "benchmark": item.benchmark,
        "facts": _packed(item.facts) if arm == ORIGINAL else "",
    }


def _packed(facts: Facts | None) -> str:
    """Return the facts about an item as JSON text. Without facts, the text is empty."""
    return "" if facts is None else json.dumps({"kind": type(facts).__name__, **asdict(facts)})


def _unpacked(text: str) -> Facts | None:
    """Return the facts that `_packed` wrote."""
    values = {name: _frozen(value) for name, value in json.loads(text or "{}").items()}
    return _FACTS[values.pop("kind")](**values) if values else None


def _frozen(value: Any) -> Any:
    """Return a value with tuples in place of lists."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


TOKENS_FILE = "token_distances.json"
COLUMNS = ("placebo changed", "attribute changed", "placebo span", "attribute span")
Units = Callable[[Any], Sequence[Any]]  # splits an item into its words, or its tokens


def write_token_distances(run_dir: Path, resolved: ResolvedRun, edits: EditFile) -> None:
    """Write how far edits are from their originals in tokens.

    The file has the distances for every model whose tokenizer is on this machine.

    Parameters
    ----------
    run_dir : Path
        The run directory.
    resolved : ResolvedRun
        The run, which names the models and their weights.
    edits : EditFile
        The edits.
    """
    by_model = {}
    for name, model in resolved.answering.items():
        weights = resolved.weights.get(model.name)
        if weights is None or model.engine != "vllm":
            continue
        path = _tokenizer(local_path(model, weights), weights)
        if path is not None:
            by_model[name] = distances(edits, _tokens(path))
    write_file(run_dir / TOKENS_FILE, (json.dumps(by_model) + "\n").encode())


def distances(edits: EditFile, units: Units = words) -> dict[str, list[float]]:
    """Return how far placebo and attribute edits change the text of each item.

    Parameters
    ----------
    edits : EditFile
        The edits.
    units : callable
        Function that splits an item into words, or into tokens.

    Returns
    -------
    dict of str to list of float
        Maps each question id to its distances, in the order of COLUMNS. The distances of attribute
        edits are means over the item's attribute edits. Items without a placebo or without an
        attribute edit are left out.
    """
    placebo: dict[str, tuple[int, int]] = {}
    attribute: dict[str, list[tuple[int, int]]] = {}
    originals = {id_: units(item) for id_, item in edits.items.items()}
    for (id_, arm, _), edit in edits.edits.items():
        if arm == Family.PLACEBO:
            placebo[id_] = distance(originals[id_], units(edit.item))
        elif arm == Family.ATTRIBUTE:
            attribute.setdefault(id_, []).append(distance(originals[id_], units(edit.item)))
    by_id = {}
    for id_ in sorted(placebo.keys() & attribute.keys()):
        changed, span = np.mean(attribute[id_], axis=0).tolist()
        by_id[id_] = [float(placebo[id_][0]), changed, float(placebo[id_][1]), span]
    return by_id


def read_token_distances(run_dir: Path) -> Mapping[str, Mapping[str, list[float]]]:
    """Return the distances in tokens, by model.

    Parameters
    ----------
    run_dir : Path
        The run directory.

    Returns
    -------
    mapping
        Maps each model to the result of `distances`. The mapping is empty if no tokenizer was
        available.

    Raises
    ------
    ShardError
        If the file cannot be read.
    """
    path = run_dir / TOKENS_FILE
    if not path.is_file():
        return {}
    try:
        raw = read_json(path)
        return {
            str(m): {str(q): [float(x) for x in v] for q, v in of.items()} for m, of in raw.items()
        }
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ShardError(
            f"{path} cannot be read ({error}). Delete it and run the same command again."
        ) from None


def as_array(by_id: Mapping[str, Sequence[float]], ids: Sequence[str]) -> FloatArray:
    """Return the distances of given items as an array.

    Parameters
    ----------
    by_id : mapping
        The result of `distances`.
    ids : sequence of str
        Ids of the n items.

    Returns
    -------
    (4, n) array
        The distances, with one row for each of COLUMNS; NaN for an item without distances.
    """
    rows = [by_id.get(id_, [np.nan] * len(COLUMNS)) for id_ in ids]
    return np.array(rows, dtype=float).reshape(-1, len(COLUMNS)).T


def _tokenizer(path: str, weights: Any) -> Path | None:
    """Return the file of a model's tokenizer; None if it is not on this machine."""
    file = Path(path) / "tokenizer.json"
    if file.is_file():
        return file
    from huggingface_hub import try_to_load_from_cache

    if weights.hub_revision is None:
        return None
    cached = try_to_load_from_cache(path, "tokenizer.json", revision=weights.hub_revision)
    return Path(cached) if isinstance(cached, str) else None


def _tokens(path: Path) -> Units:
    """Return a function that splits the text of an item into tokens."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    return lambda item: tokenizer.encode(text_of(item), add_special_tokens=False).ids
