"""A random order of items and options that is recorded, for a benchmark's author (`audit publish`).

The order tests need that every order could have been the published one. Where it was drawn at random it could, whatever
the items say: the tests are then exact without reference models (Oren et al. 2023, section 2).
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from audit.errors import ConfigError
from audit.memory.items import item_text, natural_order, section
from audit.records import Question


def draw_order(questions: Sequence[Question], seed: int) -> tuple[list[Question], list[int]]:
    """(the items as they are to be published, the place of each in `questions`). Sections (subjects, passages) stay
    together; options that have an order of their own (numbers, "all of the above") keep it."""
    rng = np.random.default_rng(seed)
    sections: dict[str, list[int]] = {}
    for place, question in enumerate(questions):
        sections.setdefault(section(question), []).append(place)
    parts = list(sections.values())
    places = [int(k) for i in rng.permutation(len(parts)) for k in rng.permutation(parts[i])]
    return [_drawn(questions[k], rng) for k in places], places


def _drawn(question: Question, rng: np.random.Generator) -> Question:
    if len(question.options) < 2 or natural_order(question.options):
        return replace(question, order=())
    order = [int(k) for k in rng.permutation(len(question.options))]
    return replace(
        question, options=tuple(question.options[k] for k in order), gold=order.index(question.gold), order=()
    )


def order_sha256(questions: Iterable[Question]) -> str:
    """sha256 of the items in their order, their options in theirs, and where a section begins."""
    digest, last = hashlib.sha256(), None
    for question in questions:
        own = section(question)
        digest.update(json.dumps([own != last, item_text(question)]).encode())
        last = own
    return digest.hexdigest()


def check_record(path: str, questions: Iterable[Question]) -> str:
    """The record's own sha256. ConfigError where it is none, or is of other items or of another order."""
    try:
        raw = Path(path).read_bytes()
        record: Any = json.loads(raw)
        wanted = record["published_sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"published_order={path} is no record of `audit publish` ({error!r:.100}).") from error
    if (found := order_sha256(questions)) != wanted:
        raise ConfigError(
            f"published_order={path} is of other items, or of these in another order ({wanted!r:.14}..., here "
            f"{found[:12]}...). Expected the file that `audit publish` wrote, read with the columns that it printed."
        )
    return hashlib.sha256(raw).hexdigest()
