"""What a strategy or a judge asks of a model, without an engine: requests out, `Generation`s back, in order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from audit.errors import DataError
from audit.records import Generation


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One user message. `key` is unique within a build and the same in every build of the same configuration.

    Who generates derives the call's seed from the key.
    """

    key: str
    prompt: str
    max_tokens: int
    temperature: float
    top_p: float = 1.0


Generate = Callable[[Sequence[ModelRequest]], Sequence[Generation]]


def replies_of(generate: Generate, requests: Sequence[ModelRequest]) -> list[Generation]:
    """The replies, one a request; nothing is generated for no requests. DataError when their number is another."""
    replies = list(generate(requests)) if requests else []
    if len(replies) != len(requests):
        raise DataError(f"{len(replies)} replies for {len(requests)} requests; expected one each, in order.")
    return replies
