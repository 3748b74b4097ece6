"""How far the placebo and the attribute edits of each item are from the original in the tokens of each model.

A placebo is made with as many words as the attribute edits change. A tokenizer counts otherwise, and each model of a
panel has its own: what it counts is measured once the run is there, kept as RUN_DIR/token_distances.json, and stated
beside the comparison. Without a tokenizer (an endpoint, the scripted engine) words are.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from audit.engines.weights import local_path
from audit.errors import ShardError
from audit.resolve import ResolvedRun
from audit.shards.files import write_file
from audit.statistics.paired import FloatArray
from audit.validity.edits.file import EditFile
from audit.validity.edits.record import Family
from audit.validity.edits.surface import distance, text_of, words

FILE = "token_distances.json"
COLUMNS = ("placebo changed", "attribute changed", "placebo span", "attribute span")
Units = Callable[[Any], Sequence[Any]]  # an item -> its words, or its tokens


def write_token_distances(run_dir: Path, resolved: ResolvedRun, edits: EditFile) -> Path:
    """Of every model whose tokenizer is on this machine."""
    found = {}
    for name, model in resolved.answering.items():
        weights = resolved.weights.get(model.name)
        path = None if weights is None or model.engine != "vllm" else _tokenizer(local_path(model, weights), weights)
        if path is not None:
            found[name] = distances(edits, _tokens(path))
    write_file(run_dir / FILE, (json.dumps(found) + "\n").encode())
    return run_dir / FILE


def distances(edits: EditFile, units: Units = words) -> dict[str, list[float]]:
    """By question id the numbers of COLUMNS; of attribute edits the mean. Items that lack either are not in it."""
    placebo: dict[str, tuple[int, int]] = {}
    attribute: dict[str, list[tuple[int, int]]] = {}
    originals = {id_: units(item) for id_, item in edits.items.items()}
    for (id_, arm, _), edit in edits.edits.items():
        if arm == Family.PLACEBO:
            placebo[id_] = distance(originals[id_], units(edit.item))
        elif arm == Family.ATTRIBUTE:
            attribute.setdefault(id_, []).append(distance(originals[id_], units(edit.item)))
    found = {}
    for id_ in sorted(placebo.keys() & attribute.keys()):
        changed, span = np.mean(attribute[id_], axis=0).tolist()
        found[id_] = [float(placebo[id_][0]), changed, float(placebo[id_][1]), span]
    return found


def read_token_distances(run_dir: Path) -> Mapping[str, Mapping[str, list[float]]]:
    """By model; nothing where no tokenizer was there. ShardError for a file that cannot be read."""
    path = run_dir / FILE
    if not path.is_file():
        return {}
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return {str(m): {str(q): [float(x) for x in v] for q, v in of.items()} for m, of in raw.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ShardError(f"{path} cannot be read ({error}). Delete it, and type the run's command again.") from None


def as_array(found: Mapping[str, Sequence[float]], ids: Sequence[str]) -> FloatArray:
    """(4, n) in the order of COLUMNS, NaN where an item has none."""
    rows = [found.get(id_, [np.nan] * len(COLUMNS)) for id_ in ids]
    return np.array(rows, dtype=float).reshape(-1, len(COLUMNS)).T


def _tokenizer(path: str, weights: Any) -> Path | None:
    file = Path(path) / "tokenizer.json"
    if file.is_file():
        return file
    from huggingface_hub import try_to_load_from_cache

    if weights.hub_revision is None:
        return None
    cached = try_to_load_from_cache(path, "tokenizer.json", revision=weights.hub_revision)
    return Path(cached) if isinstance(cached, str) else None


def _tokens(path: Path) -> Units:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    return lambda item: tokenizer.encode(text_of(item), add_special_tokens=False).ids
