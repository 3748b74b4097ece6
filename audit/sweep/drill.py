"""Convert every outcome to the compact data of the list of answers on the page.

The data are compact for these reasons:

- Most texts occur in several outcomes, so each distinct text is stored once.
- The texts are in chunks, and the page parses a chunk only when it needs one of its texts.
- A worker prompt is stored as a list of pieces. Each router message in the prompt is a piece, which
  is stored once for all prompts that contain this message.
- The columns that filters read are typed arrays.

The module does no I/O: it converts Arrow rows to blocks that are ready for JSON.
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

# Largest total size in bytes of the distinct texts and of the numbers that refer to these texts. If
# the total is larger, the texts of some questions are left out. With this limit, a page with
# MAX_ROWS_ON_PAGE rows and the figures has about 10 MB.
MAX_TEXT_BYTES = 5_000_000
CHUNK_CHARACTERS = 1_000_000  # characters in one chunk; the page parses a chunk as a whole
# Messages with fewer characters are not searched for in the worker prompt, since a short message
# could match by chance.
SHORT_MESSAGE = 16

# Names of the change of a row against the clean runs of the same question. For example, "improve":
# the answer is right in this row and wrong in at least one clean run. The weight of the change is
# the share of clean runs that differ from the row. So the weights of a setting add up to the counts
# of the paper's Table 2.
TRANSITIONS = (
    "improve",
    "degrade",
    "stays right",
    "stays wrong",
    "not comparable",
    "clean baseline",
)
# The index of a state in this list is 1 minus its number in `State`.
STATES = (
    "correct",
    "wrong",
    "unparsed",
    "truncated",
    "error",
)
ARMS = (*(arm.value for arm in Arm), DELETED)
_REF_BYTES = 16 / 3  # bytes of a text number in the page: 4 bytes before base64

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
_NOT_AS_STORED = ("router_messages", "prompt", "correct", "parsed")
_AS_STORED = tuple(name for name in COLUMNS if name not in _NOT_AS_STORED)


@dataclass(frozen=True)
class DrillDown:
    """Hold the list of answers in the form in which the page stores it.

    Attributes
    ----------
    head : dict
        The names, questions and columns, ready for `script_json`.
    chunks : list of list of str
        The texts.
    rows, rows_with_text : int
        The number of outcomes on the page, and the number of outcomes whose texts are also on the
        page.
    """

    head: dict[str, Any]
    chunks: list[list[str]]
    rows: int
    rows_with_text: int


def _chunks(texts: Sequence[str]) -> tuple[list[list[str]], list[int]]:
    """Divide the texts into chunks, and return each chunk with the number of its first text.

    A new chunk begins when the total number of characters passes a multiple of CHUNK_CHARACTERS.
    """
    starts: list[int] = []
    before, chunk = 0, -1
    for number, text in enumerate(texts):
        if before // CHUNK_CHARACTERS != chunk:
            chunk = before // CHUNK_CHARACTERS
            starts.append(number)
        before += len(text) + 1
    return [list(texts[start:end]) for start, end in pairwise([*starts, len(texts)])], starts


def script_json(value: Any) -> str:
    """Return JSON for a <script> element.

    Parameters
    ----------
    value : object
        The value.

    Returns
    -------
    str
        JSON in which no character can end the element or begin another.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


class DrillRows:
    """Collect the rows of the list of answers as columns.

    Equal texts are stored as one object. The column `prompt` is replaced by the column `pieces`.
    """

    def __init__(self) -> None:
        self._shared: dict[str, str] = {}
        self._columns: dict[str, list[Any]] = {}
        for name in (*_AS_STORED, "router_messages", "pieces", "state"):
            self._columns[name] = []

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append the rows of a batch."""
        for part in pa.table(batch).combine_chunks().to_batches():
            for name in _AS_STORED:
                self._columns[name] += shared_values(part.column(name), self._shared)
            self._columns["state"] += states_of(part).tolist()
            stored = shared_values(part.column("router_messages"), self._shared)
            for prompt, row_messages in zip(part.column("prompt").to_pylist(), stored, strict=True):
                messages = [message or "" for message in row_messages or []]
                self._columns["router_messages"].append(messages)
                cut = pieces(prompt or "", messages)
                shared = [self._shared.setdefault(piece, piece) for piece in cut]
                self._columns["pieces"].append(shared)

    def in_order(self) -> dict[str, list[Any]]:
        """Return the columns, with their rows sorted by question, model and setting."""
        key_columns = ("benchmark", "question_id", "model", "arm", "routers", "replicate")
        keys = list(zip(*map(self._columns.get, key_columns), strict=True))
        order = sorted(range(len(keys)), key=keys.__getitem__)
        ordered = {}
        for name, values in self._columns.items():
            ordered[name] = [values[i] for i in order]
        return ordered


def pack(rows: DrillRows, *, seed: int, max_text_bytes: int = MAX_TEXT_BYTES) -> DrillDown:
    """Pack rows for the page.

    Parameters
    ----------
    rows : DrillRows
        The rows, in any order.
    seed : int
        Seed of the selection of questions whose texts are kept.
    max_text_bytes : int
        Largest total size of the distinct texts in bytes. If it is exceeded, the texts of some
        questions are left out.

    Returns
    -------
    DrillDown
        The content of the page.
    """
    col = rows.in_order()
    n = len(col["model"])
    state = [1 - code for code in col["state"]]
    with_text = _questions_with_text(col, seed, max_text_bytes)
    options = [tuple(texts) for texts in col["options"]]
    keys = zip(
        col["benchmark"], col["question_id"], col["question"], options, col["gold"], strict=True
    )
    distinct_questions, question_of = _encoded(keys)
    models, model_codes = _encoded(col["model"])
    benchmarks, _ = _encoded(col["benchmark"])
    tallies = map(_tally, col["router_finish_reasons"])
    facts, fact_codes = _encoded(
        zip(
            col["answer_form"],
            col["finish_reason"],
            col["model_revision"],
            tallies,
            col["options_shown"],
            strict=True,
        )
    )
    texts, questions, refs = _numbered(col, distinct_questions, question_of, with_text, benchmarks)
    logprobs = {}
    for i, scores in enumerate(col["option_logprobs"]):
        if refs[i] and scores:
            logprobs[i] = [None if s is None or not np.isfinite(s) else round(s, 3) for s in scores]
    chunks, starts = _chunks(list(texts))
    transition, weight = _transitions(col, state)
    message_counts = [len(m) if r else 0 for m, r in zip(col["router_messages"], refs, strict=True)]
    answers = []
    for answer in col["answer"]:
        answers.append(-1 if answer is None else answer)
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
            "arm": _b64(np.array([ARMS.index(arm) for arm in col["arm"]], dtype=np.uint8)),
            "routers": _b64(np.array(col["routers"], dtype=np.uint16)),
            "replicate": _b64(np.array(col["replicate"], dtype=np.uint16)),
            "state": _b64(np.array(state, dtype=np.uint8)),
            "transition": _b64(transition),
            "weight": _b64(weight),
            "answer": _b64(np.array(answers, dtype=np.int16)),
            "fact": _b64(np.array(fact_codes, dtype=np.uint32)),
            "messages": _b64(np.array(message_counts, dtype=np.uint16)),
            "offset": _b64(np.cumsum([0, *map(len, refs)], dtype=np.uint32)),
            "refs": _b64(np.array([*chain.from_iterable(refs)], dtype=np.uint32)),
        },
    }
    return DrillDown(head, chunks, rows=n, rows_with_text=sum(map(bool, refs)))


def _numbered(
    col: Mapping[str, list[Any]],
    distinct_questions: Sequence[Any],
    question_of: Sequence[int],
    with_text: Set[Any],
    benchmarks: Sequence[str],
) -> tuple[dict[str, int], list[list[Any]], list[list[int]]]:
    """Number all texts, and replace the texts of questions and rows by their numbers.

    Return the texts with their numbers, the questions, and the text numbers of each row. The texts
    of a row are its messages, its reply, its error and the pieces of its prompt.
    """
    texts, questions, refs = dict[str, int](), list[list[Any]](), list[list[int]]()

    def add(text: str) -> int:
        return texts.setdefault(text, len(texts))

    for i, k in enumerate(question_of):
        benchmark, id_, text, options, gold = distinct_questions[k]
        has_text = (benchmark, id_) in with_text
        if k == len(questions):  # This row is the first row of its question.
            text_numbers: list[Any] = [-1, len(options)]
            if has_text:
                text_numbers = [add(text), list(map(add, options))]
            questions.append(
                [benchmarks.index(benchmark), id_, *text_numbers, gold, col["group"][i]]
            )
        row = (
            *col["router_messages"][i],
            col["response"][i] or "",
            col["error"][i] or "",
            *col["pieces"][i],
        )
        refs.append([*map(add, row)] if has_text else [])
    return texts, questions, refs


def _encoded(values: Iterable[Any]) -> tuple[list[Any], list[int]]:
    """Return the distinct values in the order of first use, and the index of each given value.

    An index is a position in the distinct values.
    """
    index: dict[Any, int] = {}
    codes = [index.setdefault(value, len(index)) for value in values]
    return list(index), codes


def pieces(prompt: str, messages: Sequence[str]) -> list[str]:
    r"""Cut a worker prompt at the router messages that it contains verbatim.

    Parameters
    ----------
    prompt : str
        The prompt that was sent.
    messages : sequence of str
        The router messages, in the order of the prompt.

    Returns
    -------
    list of str
        The pieces, which together form the prompt. Each message that was found in the prompt is a
        separate piece.

    Examples
    --------
    >>> pieces("Message 1: a long enough message\nAnswer:", ["a long enough message"])
    ['Message 1: ', 'a long enough message', '\nAnswer:']
    """
    parts: list[str] = []
    at = 0
    for message in messages:
        start = prompt.find(message, at)
        if start >= 0 and len(message) >= SHORT_MESSAGE:
            parts += [prompt[at:start], message]
            at = start + len(message)
    return list(filter(None, (*parts, prompt[at:])))


def _questions_with_text(col: dict[str, list[Any]], seed: int, limit: int) -> set[tuple[str, str]]:
    """Return the (benchmark, question_id) of questions whose texts fit into `limit` bytes.

    The questions are drawn at random by `seed`.
    """
    seen: dict[tuple[str, str], set[str]] = {}
    refs: Counter[tuple[str, str]] = Counter()
    for i, key in enumerate(zip(col["benchmark"], col["question_id"], strict=True)):
        texts = seen.setdefault(key, set())
        texts.update((col["question"][i], col["response"][i] or ""), col["options"][i])
        texts.update(col["router_messages"][i], col["pieces"][i])
        refs[key] += len(col["router_messages"][i]) + len(col["pieces"][i]) + 2
    sizes = {}
    for key, texts in seen.items():
        sizes[key] = sum(len(text.encode()) for text in texts) + _REF_BYTES * refs[key]
    if sum(sizes.values()) <= limit:
        return set(sizes)
    return set(that_fit(sizes, limit, seed))


def that_fit(
    sizes: Mapping[tuple[str, str], float], limit: float, seed: int
) -> list[tuple[str, str]]:
    """Select questions at random whose total size fits into a limit.

    Parameters
    ----------
    sizes : mapping
        Size by (benchmark, question_id).
    limit : float
        Largest sum of sizes.
    seed : int
        Seed of the random order. The rank of a question depends only on the seed and on the
        question's key, so adding other questions does not change the rank.

    Returns
    -------
    list of (benchmark, question_id)
        The first questions of the random order whose total size fits into the limit.
    """

    def rank(key: tuple[str, str]) -> bytes:
        return hashlib.sha256(f"{seed}\0{key[0]}\0{key[1]}".encode()).digest()

    drawn = sorted(sizes, key=rank)
    sums = list(accumulate(map(sizes.__getitem__, drawn)))
    return drawn[: bisect_right(sums, limit)]


def _transitions(
    col: dict[str, list[Any]], state: list[int]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return each row's change against the clean runs, and the weight of the change.

    The change is an index in TRANSITIONS. The weight is in per cent.

    Only rows with an answer are compared, since an unparsed, truncated or failed reply is not a
    wrong answer.
    """
    n = len(state)
    keys = list(zip(col["model"], col["benchmark"], col["question_id"], strict=True))
    baseline = []
    for arm, r in zip(col["arm"], col["routers"], strict=True):
        baseline.append(arm == Arm.FORWARD_FULL and r == 1)
    runs: dict[tuple[str, str, str], list[int]] = {}
    for i in range(n):
        if baseline[i] and state[i] < 2:
            runs.setdefault(keys[i], []).append(state[i])
    out, weight = np.full(n, 4, dtype=np.uint8), np.zeros(n, dtype=np.uint8)
    for i in range(n):
        if baseline[i]:
            out[i] = 5
        elif keys[i] in runs and state[i] < 2:
            clean = runs[keys[i]]
            changed = (len(clean) - clean.count(state[i])) / len(clean)
            if state[i] == 0:
                out[i] = 0 if changed else 2
            else:
                out[i] = 1 if changed else 3
            weight[i] = round(100 * changed)
    return out, weight


def _tally(reasons: Sequence[str] | None) -> str:
    """Return the counts of finish reasons other than "stop" as a text, such as '2 length' if two
    messages were cut off."""
    counts = Counter(reasons or ())
    del counts["stop"]
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _b64(array: NDArray[Any]) -> str:
    """Return little-endian bytes in base64, which the page reads as a typed array."""
    little_endian = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(little_endian.tobytes()).decode("ascii")
