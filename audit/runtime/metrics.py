"""Custom metrics, shown in the Ray dashboard and scraped by Prometheus, labelled by model and arm."""

from __future__ import annotations

from functools import cached_property

from ray.util.metrics import Counter

_TAGS = ("model", "arm")


class AuditMetrics:
    """Counters of one stage process. Created there: a counter belongs to the process that increments it."""

    def __init__(self, model: str) -> None:
        self._model = model

    @cached_property
    def _generations(self) -> Counter:
        return Counter("audit_generations_total", "Engine calls answered", tag_keys=(*_TAGS, "role"))

    @cached_property
    def _tokens(self) -> Counter:
        return Counter("audit_tokens_total", "Tokens processed", tag_keys=(*_TAGS, "kind"))

    @cached_property
    def _questions(self) -> Counter:
        return Counter("audit_questions_done_total", "Rows stored, one a question and setting", tag_keys=_TAGS)

    @cached_property
    def _parse_failures(self) -> Counter:
        return Counter("audit_parse_failures_total", "Replies without a readable answer", tag_keys=_TAGS)

    @cached_property
    def _errors(self) -> Counter:
        return Counter("audit_errors_total", "Rows without an answer because a call failed", tag_keys=_TAGS)

    @cached_property
    def _retries(self) -> Counter:
        return Counter("audit_retries_total", "Endpoint calls that were tried again", tag_keys=_TAGS)

    def generations(self, arm: str, role: str, calls: int, prompt: int, cached: int, completion: int) -> None:
        tags = {"model": self._model, "arm": arm}
        if calls:
            self._generations.inc(calls, tags={**tags, "role": role})
        for kind, tokens in (("prompt", prompt), ("cached", cached), ("completion", completion)):
            if tokens:
                self._tokens.inc(tokens, tags={**tags, "kind": kind})

    def stored(self, arm: str, rows: int, parse_failures: int, errors: int) -> None:
        tags = {"model": self._model, "arm": arm}
        for counter, value in (
            (self._questions, rows),
            (self._parse_failures, parse_failures),
            (self._errors, errors),
        ):
            if value:
                counter.inc(value, tags=tags)

    def retries(self, value: float) -> None:
        if value > 0:
            self._retries.inc(value, tags={"model": self._model, "arm": "all"})
