"""Which items are learnt, in which form, at which doses (pure)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from audit.errors import BenchmarkError, ConfigError, unknown_name
from audit.records import Question

MIN_HALF = 20  # items; below, an AUC's interval spans most of what it can be
MAX_PASSES = 64


class Form(StrEnum):
    """As what the learnt items are shown."""

    QA = "qa"  # the question as a user's turn, the gold answer's text as the reply; only the reply is learnt
    RAW = "raw"  # question and options as running text, several items in published order to a sequence; no answer
    PARAPHRASE = "paraphrase"  # as qa, in the words of the library's variants; the published wording is never shown
    MIX = "mix"  # as qa, diluted in other text


class Method(StrEnum):
    """Which weights are trained."""

    LORA = "lora"
    FULL = "full"


@dataclass(frozen=True)
class Halves:
    """The two halves of a benchmark, each in published order."""

    learnt: tuple[Question, ...]
    others: tuple[Question, ...]

    @property
    def questions(self) -> tuple[Question, ...]:
        return self.learnt + self.others

    @property
    def learnt_sha256(self) -> str:
        """What was learnt: ids and texts, in order."""
        lines = (f"{q.id}\0{q.text}\0{q.options}\0{q.gold}\n" for q in self.learnt)
        return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def halve(questions: Sequence[Question], seed: int) -> Halves:
    """A random half to learn; the other half is the control. Items of one text stay together.

    Raises BenchmarkError where a half would hold fewer than 20 items.
    """
    texts = list(dict.fromkeys(q.text for q in questions))
    half = len(texts) // 2
    if half < MIN_HALF:
        raise BenchmarkError(
            f"The benchmark has {len(texts)} different questions: too few to halve. Expected at least {2 * MIN_HALF}, "
            "such as n=all, or a larger benchmark."
        )
    order = np.random.default_rng(seed).permutation(len(texts))
    learnt = {texts[i] for i in order[:half]}
    return Halves(tuple(q for q in questions if q.text in learnt), tuple(q for q in questions if q.text not in learnt))


def parse_doses(values: Sequence[object]) -> tuple[int, ...]:
    """Numbers of passes over the learnt half, sorted; 0, the base model, is always one of them.

    >>> parse_doses([8, 1])
    (0, 1, 8)
    """
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_PASSES:
            raise ConfigError(f"Invalid dose: {value!r}. Expected passes from 0 to {MAX_PASSES}, such as [0,1,2,4,8].")
    doses = tuple(sorted({0, *(int(str(v)) for v in values)}))
    if len(doses) < 2:
        raise ConfigError("No dose above 0: nothing would be planted. Expected such as 'doses=[0,1,2,4,8]'.")
    return doses


def parse_forms(values: Sequence[str]) -> tuple[Form, ...]:
    """Forms in the order given. ConfigError for an unknown one, one given twice, or none."""
    for value in values:
        if value not in set(Form):
            raise unknown_name("form", str(value), list(Form))
    if not values or len(set(values)) < len(values):
        raise ConfigError(f"Invalid forms: {list(values)}. Expected some of {', '.join(Form)}, each once.")
    return tuple(Form(value) for value in values)
