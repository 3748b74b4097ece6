"""What the indicators read of one model: answers to every wording, to router messages, and likelihoods of texts.

Presentations, requests and scores are the audits' own (`audit.perturb`, `audit.sweep`); only the loop is here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from audit.audits import Audit, Work
from audit.records import Generation, GenerationRequest, Part, Question, Setting
from audit.runtime.stages import answer_request
from audit.scoring.score import score
from audit.statistics.paired import FloatArray

Ask = Callable[[Sequence[GenerationRequest]], list[Generation]]
Prepared = Mapping[tuple[str, Part], Sequence[Generation]]
_NAN = float("nan")


@dataclass
class Reading:
    """What one model did with n items, in order; NaN: no answer, or none that could be read.

    correct: by "arm/level" (of the perturbation audit and the sweep), 1 right, 0 wrong. margin: log-likelihood of the
    gold option less that of the best other one (nats), as published. wrong: mean log-likelihood of the other options
    (nats a token). text: by name, mean log-likelihood of a text (nats a token). errors: requests that failed.
    """

    correct: dict[str, list[float]] = field(default_factory=dict)
    margin: list[float] = field(default_factory=list)
    wrong: list[float] = field(default_factory=list)
    text: dict[str, list[float]] = field(default_factory=dict)
    errors: int = 0

    def array(self, key: str) -> FloatArray:
        return np.asarray(self.correct[key], dtype=float)

    def save(self, path: Path) -> None:
        """NaN as null; written beside, then renamed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(_nulls(asdict(self)), allow_nan=False), encoding="utf-8")
        beside.rename(path)

    @classmethod
    def load(cls, path: Path) -> Reading:
        plain: dict[str, Any] = _nans(json.loads(path.read_text(encoding="utf-8")))
        return cls(**plain)


def prepare(ask: Ask, audit: Audit, work: Work, questions: Sequence[Question]) -> dict[tuple[str, Part], Sequence[Any]]:
    """The replies to an audit's calls before the answer (the sweep's routers), by question and part."""
    if audit.prepare is None:
        return {}
    keys = [(q, part) for q in questions for part in work.design.parts]
    requests = [audit.prepare(work, q, part) for q, part in keys]
    replies = iter(ask([r for some in requests for r in some]))
    return {(q.id, part): [next(replies) for _ in some] for (q, part), some in zip(keys, requests, strict=True)}


def answers(
    ask: Ask,
    audit: Audit,
    work: Work,
    questions: Sequence[Question],
    normalisation: str,
    prepared: Prepared | None = None,
    adapter: str = "",
) -> tuple[dict[str, list[float]], list[Generation], int]:
    """(1, 0 or NaN by "arm/level", replies to level 0, failures) of every question in every setting of a design."""
    rows: list[tuple[int, Setting, Any]] = []
    for i, question in enumerate(questions):
        for part in work.design.parts:
            said = (prepared or {}).get((question.id, part), ())
            shown = audit.present(work, question, part, said)
            rows += [(i, setting, one) for setting, one in zip(part.settings, shown, strict=True)]
    sent = [row for row in rows if row[2].error is None]
    requests = [replace(answer_request(work, questions[i], s, one), adapter=adapter) for i, s, one in sent]
    found: dict[str, list[float]] = {f"{s.arm}/{s.level}": [_NAN] * len(questions) for _, s, _ in rows}
    published = [Generation(error="not asked")] * len(questions)
    failed = 0
    for (i, s, one), reply in zip(sent, ask(requests), strict=True):
        failed += reply.error is not None
        right = score(reply, one.options, one.gold, work.reading, normalisation, questions[i].target).correct
        found[f"{s.arm}/{s.level}"][i] = _NAN if right is None else float(right)
        if s.level == 0 and s.replicate == 0:
            published[i] = reply
    return found, published, failed


def option_margins(replies: Sequence[Generation], questions: Sequence[Question]) -> tuple[list[float], list[float]]:
    """(margin, wrong) as in `Reading`; NaN where options were not scored."""
    margins, wrongs = [], []
    for reply, question in zip(replies, questions, strict=True):
        values = [v for v in reply.option_logprobs if v is not None]
        if reply.error is not None or len(values) != len(question.options) or not question.options:
            margins.append(_NAN)
            wrongs.append(_NAN)
            continue
        others = [i for i in range(len(values)) if i != question.gold]
        margins.append(values[question.gold] - max(values[i] for i in others))
        tokens = [reply.option_tokens[i] if reply.option_tokens else 1 for i in others]
        wrongs.append(sum(values[i] for i in others) / sum(tokens))
    return margins, wrongs


def _nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _nulls(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_nulls(v) for v in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _nans(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _nans(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_NAN if v is None else _nans(v) for v in value]
    return value
