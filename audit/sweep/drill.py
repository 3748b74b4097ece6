"""Every outcome, packed for the page's per-question drill-down (pure: Arrow rows in, JSON-ready blocks out).

100,000 outcomes repeat most of their text. So every distinct text is stored once, in chunks that the page parses only
when it needs them; a worker prompt is a list of pieces, of which the messages are some; and the columns that filters
read are typed arrays.
"""

import base64
import hashlib
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from audit.shards.cells import states_of
from audit.shards.schema import shared_values
from audit.sweep.design import DELETED, Arm

# Of distinct texts on the page, and of where they stand: with MAX_ROWS_ON_PAGE and the figures, a page of about 10 MB.
MAX_TEXT_BYTES = 5_000_000  # beyond it texts are left out question by question
CHUNK_CHARACTERS = 1_000_000  # of text in one block that the page parses at a time
SHORT_MESSAGE = 16  # a message shorter than this is not looked for in the worker prompt: it could match by chance

# What became of a row against the clean runs of the same question. "improve" is right here and wrong in some clean run,
# with that share of them as its weight: the weights of a setting add up to the counts of Table 2, as no majority would.
TRANSITIONS = ("improve", "degrade", "stays right", "stays wrong", "not comparable", "clean baseline")
STATES = ("correct", "wrong", "unparsed", "truncated", "error")  # place: 1 less the number that `State` has
ARMS = (*(arm.value for arm in Arm), DELETED)
_REF_BYTES = 16 / 3  # of the number of a text, 4 bytes in base64

COLUMNS = (
    "model",
    "model_revision",
    "benchmark",
    "question_id",
    "group",
    "arm",
    "routers",
    "replicate",
    "question",
    "options",
    "router_messages",
    "router_finish_reasons",
    "prompt",
    "response",
    "answer",
    "gold",
    "correct",
    "parsed",
    "answer_form",
    "finish_reason",
    "option_logprobs",
    "seed",
    "error",
    "options_shown",
)
_AS_STORED = tuple(name for name in COLUMNS if name not in ("router_messages", "prompt", "correct", "parsed"))


@dataclass(frozen=True)
class DrillDown:
    """What the page embeds: `head` (names, questions, columns) and `chunks` (texts), both ready for `script_json`.

    rows: outcomes. rows_with_text: those whose texts are on the page.
    """

    head: dict[str, Any]
    chunks: list[list[str]]
    rows: int
    rows_with_text: int


def _chunks(texts: Sequence[str]) -> tuple[list[list[str]], list[int]]:
    """(chunks, number of the first text of each): where the characters before a text pass a multiple of
    CHUNK_CHARACTERS, a chunk begins."""
    before = accumulate((len(text) + 1 for text in texts[:-1]), initial=0)
    place = [size // CHUNK_CHARACTERS for size in before][: len(texts)]
    starts = [place.index(one) for one in dict.fromkeys(place)]
    return [list(texts[start:end]) for start, end in pairwise([*starts, len(texts)])], starts


def script_json(value: Any) -> str:
    """JSON that can stand inside a <script> element: no character in it can end the element or start another."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


class DrillRows:
    """Rows for the drill-down as they are read: columns as lists in which equal texts are one object, and `pieces` in
    place of `prompt`."""

    def __init__(self) -> None:
        self._shared: dict[str, str] = {}
        self._columns: dict[str, list[Any]] = {name: [] for name in (*_AS_STORED, "router_messages", "pieces", "state")}

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        for part in pa.table(batch).combine_chunks().to_batches():
            for name in _AS_STORED:
                self._columns[name] += shared_values(part.column(name), self._shared)
            self._columns["state"] += states_of(part).tolist()
            sent = shared_values(part.column("router_messages"), self._shared)
            messages = [[m or "" for m in of_row or []] for of_row in sent]
            self._columns["router_messages"] += messages
            for prompt, own in zip(part.column("prompt").to_pylist(), messages, strict=True):
                cut = pieces(prompt or "", own)
                self._columns["pieces"].append([self._shared.setdefault(piece, piece) for piece in cut])

    def in_order(self) -> dict[str, list[Any]]:
        """The columns in canonical order of the rows."""
        by = ("benchmark", "question_id", "model", "arm", "routers", "replicate")
        keys = list(zip(*map(self._columns.get, by), strict=True))
        order = sorted(range(len(keys)), key=keys.__getitem__)
        return {name: [values[i] for i in order] for name, values in self._columns.items()}


def pack(rows: DrillRows, *, seed: int, max_text_bytes: int = MAX_TEXT_BYTES) -> DrillDown:
    """Pack rows; shards in another order give the same page.

    Where the distinct texts are larger than `max_text_bytes`, whole questions lose theirs, drawn by `seed`.
    """
    col = rows.in_order()
    n = len(col["model"])
    state = [1 - one for one in col["state"]]
    kept = _questions_with_text(col, seed, max_text_bytes)
    names = ("benchmark", "question_id", "question", "options", "gold")
    asked, question_of = _encoded((*key[:3], tuple(key[3]), key[4]) for key in zip(*map(col.get, names), strict=True))
    models, model_codes = _encoded(col["model"])
    benchmarks, _ = _encoded(col["benchmark"])
    tallies = map(_tally, col["router_finish_reasons"])
    facts, fact_codes = _encoded(
        zip(col["answer_form"], col["finish_reason"], col["model_revision"], tallies, col["options_shown"], strict=True)
    )
    texts, questions, refs = _written(col, asked, question_of, kept, benchmarks)
    logprobs = {
        i: [None if s is None or not np.isfinite(s) else round(s, 3) for s in scores]
        for i, scores in enumerate(col["option_logprobs"])
        if refs[i] and scores
    }
    chunks, starts = _chunks(list(texts))
    transition, weight = _transitions(col, state)
    sent = zip(col["router_messages"], refs, strict=True)
    head = {
        "rows": n,
        "models": models,
        "benchmarks": benchmarks,
        "arms": list(ARMS),
        "states": list(STATES),
        "transitions": list(TRANSITIONS),
        "questions": questions,
        "facts": [list(fact) for fact in facts],
        "starts": starts,
        "logprobs": [list(logprobs), list(logprobs.values())],
        "columns": {
            "question": _b64(np.array(question_of, dtype=np.uint32)),
            "model": _b64(np.array(model_codes, dtype=np.uint16)),
            "arm": _b64(np.array([ARMS.index(a) for a in col["arm"]], dtype=np.uint8)),
            "routers": _b64(np.array(col["routers"], dtype=np.uint16)),
            "replicate": _b64(np.array(col["replicate"], dtype=np.uint16)),
            "state": _b64(np.array(state, dtype=np.uint8)),
            "transition": _b64(transition),
            "weight": _b64(weight),
            "answer": _b64(np.array([-1 if a is None else a for a in col["answer"]], dtype=np.int16)),
            "fact": _b64(np.array(fact_codes, dtype=np.uint32)),
            "messages": _b64(np.array([len(m) if r else 0 for m, r in sent], dtype=np.uint16)),
            "offset": _b64(np.cumsum([0, *map(len, refs)], dtype=np.uint32)),
            "refs": _b64(np.array([*chain.from_iterable(refs)], dtype=np.uint32)),
        },
    }
    return DrillDown(head, chunks, rows=n, rows_with_text=sum(map(bool, refs)))


def _written(
    col: Mapping[str, list[Any]],
    asked: Sequence[Any],
    question_of: Sequence[int],
    kept: Set[Any],
    benchmarks: Sequence[str],
) -> tuple[dict[str, int], list[list[Any]], list[list[int]]]:
    """All texts with their numbers; each question with those of its own; those of each row's messages, reply, error and
    prompt."""
    texts, questions, refs = dict[str, int](), list[list[Any]](), list[list[int]]()

    def add(text: str) -> int:
        return texts.setdefault(text, len(texts))

    for i, k in enumerate(question_of):
        benchmark, id_, text, options, gold = asked[k]
        has_text = (benchmark, id_) in kept
        if k == len(questions):  # its first row
            own = [add(text), [add(o) for o in options]] if has_text else [-1, len(options)]
            questions.append([benchmarks.index(benchmark), id_, *own, gold, col["group"][i]])
        row = (*col["router_messages"][i], col["response"][i] or "", col["error"][i] or "", *col["pieces"][i])
        refs.append([*map(add, row)] if has_text else [])
    return texts, questions, refs


def _encoded(values: Iterable[Any]) -> tuple[list[Any], list[int]]:
    """The distinct values in the order of their first use, and the number of each value among them."""
    index: dict[Any, int] = {}
    codes = [index.setdefault(value, len(index)) for value in values]
    return list(index), codes


def pieces(prompt: str, messages: Sequence[str]) -> list[str]:
    """A worker prompt cut where the router messages stand in it verbatim; joined, the pieces are the prompt again.

    >>> pieces("Message 1: a long enough message\\nAnswer:", ["a long enough message"])
    ['Message 1: ', 'a long enough message', '\\nAnswer:']
    """
    parts: list[str] = []
    at = 0
    for message in messages:
        found = prompt.find(message, at)
        if found >= 0 and len(message) >= SHORT_MESSAGE:
            parts += [prompt[at:found], message]
            at = found + len(message)
    return [part for part in (*parts, prompt[at:]) if part]


def _questions_with_text(col: dict[str, list[Any]], seed: int, limit: int) -> set[tuple[str, str]]:
    """(benchmark, question_id) whose texts fit: all of them, or as many as `limit` bytes hold, in a drawn order."""
    seen: dict[tuple[str, str], set[str]] = {}
    refs: Counter[tuple[str, str]] = Counter()
    for i, key in enumerate(zip(col["benchmark"], col["question_id"], strict=True)):
        own = seen.setdefault(key, set())
        own.update((col["question"][i], col["response"][i] or ""), col["options"][i])
        own.update(col["router_messages"][i], col["pieces"][i])
        refs[key] += len(col["router_messages"][i]) + len(col["pieces"][i]) + 2
    sizes = {key: sum(len(text.encode()) for text in own) + _REF_BYTES * refs[key] for key, own in seen.items()}
    return set(sizes) if sum(sizes.values()) <= limit else set(that_fit(sizes, limit, seed))


def that_fit(sizes: Mapping[tuple[str, str], float], limit: float, seed: int) -> list[tuple[str, str]]:
    """(benchmark, question_id) that fit into the limit, in an order that depends on the seed and each key alone."""
    drawn = sorted(sizes, key=lambda key: hashlib.sha256(f"{seed}\0{key[0]}\0{key[1]}".encode()).digest())
    return drawn[: bisect_right(list(accumulate(sizes[key] for key in drawn)), limit)]


def _transitions(col: dict[str, list[Any]], state: list[int]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Codes into TRANSITIONS, and the weight of each change in per cent. Only answers can be compared: unparsed,
    truncated and failed rows are not wrong."""
    n = len(state)
    keys = list(zip(col["model"], col["benchmark"], col["question_id"], strict=True))
    baseline = [arm == Arm.FORWARD_FULL and r == 1 for arm, r in zip(col["arm"], col["routers"], strict=True)]
    runs: dict[tuple[str, str, str], list[int]] = {}
    for i in range(n):
        if baseline[i] and state[i] < 2:
            runs.setdefault(keys[i], []).append(state[i])
    out, weight = np.full(n, 4, dtype=np.uint8), np.zeros(n, dtype=np.uint8)
    for i in range(n):
        if baseline[i]:
            out[i] = 5
        elif keys[i] in runs and state[i] < 2:
            other = np.mean([before != state[i] for before in runs[keys[i]]])
            out[i] = (2 if other == 0 else 0) if state[i] == 0 else (3 if other == 0 else 1)
            weight[i] = round(100 * other)
    return out, weight


def _tally(reasons: Sequence[str] | None) -> str:
    """Finish reasons that are worth a word: '2 length' where two router messages were cut off; '' when all stopped."""
    odd = [r for r in reasons or [] if r != "stop"]
    return ", ".join(f"{odd.count(name)} {name}" for name in sorted(set(odd)))


def _b64(array: NDArray[Any]) -> str:
    """Little-endian bytes in base64: the page reads them as a typed array without parsing numbers."""
    return base64.b64encode(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()).decode("ascii")
