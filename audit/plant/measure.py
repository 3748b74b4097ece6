"""What the indicators read of one model: answers to every wording, to router messages, and likelihoods of texts.

Presentations, requests and scores are the audits' own (`audit.memory`, `audit.perturb`, `audit.sweep`); only the loop
is here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from audit.audits import Audit, Work, answer_request
from audit.json_types import plain
from audit.memory.design import Arm as MemoryArm
from audit.memory.items import likelihoods_a_byte
from audit.memory.record import TEXT_SCORES
from audit.records import Generation, GenerationRequest, Part, Presentation, Question, Setting
from audit.scoring.score import score
from audit.statistics.paired import FloatArray

Ask = Callable[[Sequence[GenerationRequest]], list[Generation]]
Prepared = Mapping[tuple[str, Part], Sequence[Generation]]
_NAN = float("nan")


@dataclass
class Reading:
    """What one model did with n items, in order; NaN: no answer, or nothing that could be read.

    correct: by "arm/level" (of the memory and perturbation audits and the sweep), 1 right, 0 wrong. margin:
    log-likelihood of the gold option less that of the best other one (nats), as published. text: log-likelihood (nats a
    byte, as the memory audit counts it) of the "item" as published, of the second "half" of its question and of its
    "wrong" options, each given what precedes it. order: by half, log-likelihood (nats) of each shard in the published
    order (first) and others. options: the same of each item under orders of its wrong options. errors: requests that
    failed.
    """

    correct: dict[str, list[float]] = field(default_factory=dict)
    margin: list[float] = field(default_factory=list)
    text: dict[str, list[float]] = field(default_factory=dict)
    order: dict[str, list[list[float]]] = field(default_factory=dict)
    options: list[list[float]] = field(default_factory=list)
    errors: int = 0

    def array(self, key: str) -> FloatArray:
        return np.asarray(self.correct[key], dtype=float)

    def save(self, path: Path) -> None:
        """NaN as null; written beside, then renamed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(plain(self), allow_nan=False), encoding="utf-8")
        beside.rename(path)

    @classmethod
    def load(cls, path: Path) -> Reading:
        return cls(**_nans(json.loads(path.read_text(encoding="utf-8"))))


@dataclass(frozen=True)
class Row:
    """The reply to question `item` in one setting; None where the audit had nothing to ask."""

    item: int
    setting: Setting
    shown: Presentation
    reply: Generation | None


def prepare(ask: Ask, audit: Audit, work: Work, questions: Sequence[Question]) -> dict[tuple[str, Part], Sequence[Any]]:
    """The replies to an audit's calls before the answer (the sweep's routers), by question and part."""
    if audit.prepare is None:
        return {}
    keys = [(q, part) for q in questions for part in work.design.parts]
    requests = [audit.prepare(work, q, part, ()) for q, part in keys]
    replies = iter(ask([r for some in requests for r in some]))
    return {(q.id, part): [next(replies) for _ in some] for (q, part), some in zip(keys, requests, strict=True)}


def answers(
    ask: Ask,
    audit: Audit,
    work: Work,
    questions: Sequence[Question],
    adapter: str = "",
    prepared: Prepared | None = None,
) -> list[Row]:
    """Every question in every setting of a design, asked of the model or of one of its adapters."""
    rows: list[tuple[int, Setting, Presentation]] = []
    for i, question in enumerate(questions):
        for part in work.design.parts:
            shown = audit.present(work, question, part, (prepared or {}).get((question.id, part), ()))
            rows += [(i, setting, one) for setting, one in zip(part.settings, shown, strict=True)]
    sent = [replace(answer_request(work, questions[i], s, one), adapter=adapter) for i, s, one in rows if not one.error]
    replies = iter(ask(sent))
    return [Row(i, s, one, None if one.error else next(replies)) for i, s, one in rows]


def failures(rows: Sequence[Row]) -> int:
    return sum(row.reply is not None and row.reply.error is not None for row in rows)


def scores(
    rows: Sequence[Row], questions: Sequence[Question], work: Work, normalisation: str
) -> dict[str, list[float]]:
    """1, 0 or NaN of every question, by "arm/level"."""
    found = {f"{row.setting.arm}/{row.setting.level}": [_NAN] * len(questions) for row in rows}
    for row in rows:
        if row.reply is not None:
            asked, shown = questions[row.item], row.shown
            scored = score(row.reply, shown.options, shown.gold, work.reading, normalisation, asked.target, asked)
            right = scored.correct
            found[f"{row.setting.arm}/{row.setting.level}"][row.item] = _NAN if right is None else float(right)
    return found


def margins(rows: Sequence[Row], n: int) -> list[float]:
    """`Reading.margin` from the rows of one setting; NaN where options were not scored."""
    found = [_NAN] * n
    for row in rows:
        values = () if row.reply is None or row.reply.error else row.reply.option_logprobs
        if len(values) > 1 and len(values) == len(row.shown.options) and None not in values:
            other = max(v for i, v in enumerate(values) if i != row.shown.gold and v is not None)
            found[row.item] = float(values[row.shown.gold] or 0.0) - other
    return found


def likelihoods(rows: Sequence[Row], n: int) -> dict[str, list[float]]:
    """`Reading.text` from the rows of the items as published, whose pieces are those of `memory.items.item_pieces`."""
    found = {name: [_NAN] * n for name in TEXT_SCORES}
    for row in rows:
        if row.reply is not None and not row.reply.error:
            shown = row.shown
            told = likelihoods_a_byte(shown.pieces, row.reply.option_logprobs, shown.options, shown.gold)
            for name, value in told.items():
                found[name][row.item] = value
    return found


def option_orders(published: Sequence[Row], reordered: Sequence[Row], n: int, orders: int) -> list[list[float]]:
    """`Reading.options`: (n, 1 + orders), the published order first."""
    found = [[_NAN] * (1 + orders) for _ in range(n)]
    for row in (*published, *reordered):
        if row.reply is not None and not row.reply.error:
            level = 0 if row.setting.arm == MemoryArm.PUBLISHED else row.setting.level
            found[row.item][level] = sum(v for v in row.reply.option_logprobs if v is not None)
    return found


def shard_orders(rows: Sequence[Row], orders: int) -> list[list[float]]:
    """`Reading.order` of one half: (shards, 1 + orders). An order of which one item's likelihood is missing is NaN."""
    found: dict[int, list[float]] = {}
    for row in rows:
        shard = row.shown.extras["shard"]
        if shard is None:
            continue
        values = found.setdefault(int(shard), [0.0] * (1 + orders))
        told = None if row.reply is None or row.reply.error else row.reply.option_logprobs[-1]
        values[row.setting.level] += _NAN if told is None else told
    return [values for _, values in sorted(found.items())]


def _nans(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _nans(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_NAN if v is None else _nans(v) for v in value]
    return value
