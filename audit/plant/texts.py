"""Write the training texts of half of a benchmark.

The module chooses the items to learn, the form of their texts, and the numbers of passes (doses).
It also makes the training examples, and marks the tokens that are learnt. It does no I/O.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np

from audit.core.errors import BenchmarkError, ConfigError, LibraryError, check_known
from audit.core.records import Item
from audit.memory.items import SEPARATOR, item_text
from audit.variants.record import Variant

MIN_HALF = 20  # With fewer items, the interval of an AUC covers most of its range.
MAX_PASSES = 64


class Form(StrEnum):
    """Enumerate the forms of the training texts made from the learnt items."""

    # qa: the question is the user's turn, and the gold answer is the reply. Only the reply is
    # learnt.
    QA = "qa"
    # raw: questions and options are running text without answers, several items in a sequence.
    RAW = "raw"
    # paraphrase: like qa, but with the library's variants instead of the published questions.
    PARAPHRASE = "paraphrase"
    # mix: the examples of qa are diluted with unrelated text.
    MIX = "mix"


class Method(StrEnum):
    """Enumerate the training methods. They differ in which weights are trained."""

    LORA = "lora"
    FULL = "full"


@dataclass(frozen=True)
class Halves:
    """Hold the two halves of a benchmark, each in published order.

    Attributes
    ----------
    learnt, others : tuple of Item
        Items on which the model is trained, and items on which it is never trained.
    """

    learnt: tuple[Item, ...]
    others: tuple[Item, ...]

    @property
    def questions(self) -> tuple[Item, ...]:
        """Return the items of both halves, with the learnt items first."""
        return self.learnt + self.others

    @property
    def learnt_sha256(self) -> str:
        """Return the hash of the learnt items: their ids and texts, in order."""
        digest = hashlib.sha256()
        for q in self.learnt:
            line = f"{q.id}\0{q.text}\0{q.options}\0{q.gold}\n"
            digest.update(line.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def halve(questions: Sequence[Item], seed: int) -> Halves:
    """Draw a random half of the items for training. The other half is the control.

    Parameters
    ----------
    questions : sequence of Item
        Items of the benchmark. Items that share a text stay together.
    seed : int
        Seed of the draw.

    Returns
    -------
    Halves
        The learnt half and the control half.

    Raises
    ------
    BenchmarkError
        If a half would have fewer than 20 different texts.
    """
    texts = list(dict.fromkeys(q.text for q in questions))
    half = len(texts) // 2
    if half < MIN_HALF:
        raise BenchmarkError(
            f"The number of different questions is {len(texts)}, too few for two halves. Expected "
            f"at least {2 * MIN_HALF}, such as n=all, or a larger benchmark."
        )
    order = np.random.default_rng(seed).permutation(len(texts))
    chosen = {texts[i] for i in order[:half]}
    learnt: list[Item] = []
    others: list[Item] = []
    for question in questions:
        half_of_it = learnt if question.text in chosen else others
        half_of_it.append(question)
    return Halves(tuple(learnt), tuple(others))


def parse_doses(values: Sequence[object]) -> tuple[int, ...]:
    """Return the sorted numbers of passes over the learnt half; 0 (the base model) is always
    included.

    Parameters
    ----------
    values : sequence
        Numbers in the configuration.

    Returns
    -------
    tuple of int
        The numbers of passes.

    Raises
    ------
    ConfigError
        If a number is invalid, or if no number is above 0.

    Examples
    --------
    >>> parse_doses([8, 1])
    (0, 1, 8)
    """
    doses = {0}
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_PASSES:
            raise ConfigError(
                f"A dose is {value!r}. Expected a number of passes from 0 to {MAX_PASSES}. "
                "Example: 'doses=[0,1,2,4,8]'."
            )
        doses.add(value)
    if len(doses) < 2:
        raise ConfigError(
            "No dose is above 0, so nothing would be planted. Expected numbers of passes. "
            "Example: 'doses=[0,1,2,4,8]'."
        )
    return tuple(sorted(doses))


def parse_forms(values: Sequence[str]) -> tuple[Form, ...]:
    """Convert names of forms to forms, in the given order.

    Parameters
    ----------
    values : sequence of str
        Names of the forms.

    Returns
    -------
    tuple of Form
        One form for each name.

    Raises
    ------
    ConfigError
        If no form is given, or if a form is unknown or occurs twice.
    """
    for value in values:
        check_known("form", str(value), list(Form))
    if not values or len(set(values)) < len(values):
        raise ConfigError(
            f"forms is {list(values)}. Expected some of {', '.join(Form)}, each once. "
            "Example: 'forms=[qa,raw]'."
        )
    return tuple(map(Form, values))


@dataclass(frozen=True)
class Example:
    """Hold one training example: a dialogue turn or a running text.

    Attributes
    ----------
    prompt : str or None
        The user's turn, which is not learnt. None for running text, which is learnt completely.
    text : str
        Text that is learnt.
    """

    prompt: str | None
    text: str


def answer_text(item: Item) -> str:
    """Return the text of a reply that gives the gold answer of an item."""
    return item.options[item.gold] if item.target is None else f"{item.target:.12g}"


def check_variants(learnt: Sequence[Item], variants: Mapping[str, Sequence[Variant]]) -> None:
    """Raise LibraryError if an item to learn in form paraphrase has no variant.

    Parameters
    ----------
    learnt : sequence of Item
        Items to learn.
    variants : mapping of str to sequence of Variant
        Variants of each item, by its id.

    Raises
    ------
    LibraryError
        If an item has no variant.
    """
    if missing := [q.id for q in learnt if not variants.get(q.id)]:
        raise LibraryError(
            f"{len(missing)} of {len(learnt)} items have no accepted variant for form paraphrase, "
            f"such as {missing[0]}. Expected a library that covers the benchmark (variants=HASH), "
            "or other forms than paraphrase."
        )


def passages(text: str, words: int) -> list[str]:
    """Cut a text into pieces with equal numbers of words.

    Parameters
    ----------
    text : str
        The text to cut.
    words : int
        Number of words in a piece. An incomplete last piece is left out.

    Returns
    -------
    list of str
        Pieces of the text, in order.

    Raises
    ------
    ConfigError
        If the text is shorter than one piece.
    """
    split_words = text.split()
    n = len(split_words)
    if n < words:
        raise ConfigError(
            f"The other text has {n} words. Expected at least {words} words, since the items are "
            "diluted with them."
        )
    pieces = []
    for start in range(0, n - words + 1, words):
        pieces.append(" ".join(split_words[start : start + words]))
    return pieces


def pass_examples(
    form: Form,
    learnt: Sequence[Item],
    number: int,
    *,
    seed: int,
    items_per_sequence: int = 8,
    variants: Mapping[str, Sequence[Variant]] | None = None,
    other: Sequence[str] = (),
    dilution: int = 3,
) -> list[Example]:
    """Return the examples of one pass over the learnt items, in the order of training.

    Parameters
    ----------
    form : Form
        Form of the training texts.
    learnt : sequence of Item
        Items to learn.
    number : int
        Number of the pass, from 0.
    seed : int
        Seed of the shuffle.
    items_per_sequence : int
        Number of items in a sequence of form raw.
    variants : mapping or None
        Variants of each item by its id, for form paraphrase.
    other : sequence of str
        Passages of unrelated text, for form mix.
    dilution : int
        Number of passages of unrelated text for every item.

    Returns
    -------
    list of Example
        Training examples, in order.

    Notes
    -----
    - Form raw contains all items in published order. In every other form, items are shuffled before
      each pass.
    - Form paraphrase uses variant j of each item in pass j. After the last variant, it starts again
      with the first variant.
    - Form mix repeats a passage only after all passages were used.
    """
    if form == Form.RAW:
        return _sequences(learnt, items_per_sequence)
    examples = []
    for question in learnt:
        prompt = question.text
        if form == Form.PARAPHRASE:
            rewordings = (variants or {})[question.id]
            variant = rewordings[number % len(rewordings)]
            prompt = variant.context + variant.text
        examples.append(Example(prompt, answer_text(question)))
    if form == Form.MIX:
        n_passages = dilution * len(learnt)
        first = number * n_passages
        for position in range(first, first + n_passages):
            examples.append(Example(None, other[position % len(other)]))
    order = np.random.default_rng([seed, number]).permutation(len(examples))
    return [examples[i] for i in order]


def _sequences(learnt: Sequence[Item], items_per_sequence: int) -> list[Example]:
    """Return the items as running text in published order, several items in a sequence."""
    examples = []
    for start in range(0, len(learnt), items_per_sequence):
        items = learnt[start : start + items_per_sequence]
        examples.append(Example(None, SEPARATOR.join(map(item_text, items))))
    return examples


def encode(tokenizer: Any, example: Example, max_tokens: int) -> tuple[list[int], list[bool]]:
    """Return the token ids of an example, and a mask of the tokens that are learnt.

    Parameters
    ----------
    tokenizer : object
        A tokenizer of transformers, with a chat template.
    example : Example
        The dialogue or running text to encode.
    max_tokens : int
        Largest number of tokens. A longer example is cut off.

    Returns
    -------
    ids : list of int
        Token ids of the example.
    learnt : list of bool
        True for each token that is learnt. In a dialogue, these are the tokens of the reply with
        its end of turn; in running text, all tokens.

    Raises
    ------
    ConfigError
        If max_tokens leaves no token to learn. Also if the chat template formats the user's turn
        differently when a reply follows, since the start of the reply is then unknown.
    """
    if example.prompt is None:
        first = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        ids = [
            first,
            *tokenizer.encode(example.text, add_special_tokens=False),
            tokenizer.eos_token_id,
        ]
        start = 1  # No token precedes the first token, so the first token cannot be predicted.
    else:
        turn = {"role": "user", "content": example.prompt}
        whole = [turn, {"role": "assistant", "content": example.text}]
        template = partial(tokenizer.apply_chat_template, tokenize=True, return_dict=False)
        shown = list(template([turn], add_generation_prompt=True))
        ids = list(template(whole, add_generation_prompt=False))
        start = len(shown)
        if ids[:start] != shown:
            raise ConfigError(
                "The chat template begins a whole conversation differently from the user's turn "
                "alone, so the start of the reply is unknown. "
                "Expected a template such as ChatML's, or form raw. Example: 'forms=[raw]'."
            )
    if start >= min(len(ids), max_tokens):
        raise ConfigError(
            f"An example has {start} tokens before the first token to learn, but train.max_tokens "
            f"is {max_tokens}. Expected a larger limit. Example: train.max_tokens=2048."
        )
    learnt = [False] * start + [True] * (len(ids) - start)
    return ids[:max_tokens], learnt[:max_tokens]
