"""Chat completions on the wire: a GenerationRequest to a body, a body to a Generation or a Failure. Pure.

Bodies are read by hand rather than through the client's models, which construct themselves from anything: a missing
`choices`, a page of HTML or a half-written JSON must not pass for an answer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from audit.engines.openai_config import EndpointConfig, OpenAISettings
from audit.engines.port import request_sha256
from audit.engines.redact import Redactor
from audit.engines.retry import Failure, FailureKind, classify_status, error_code_and_message
from audit.records import FinishReason, Generation, GenerationRequest

_LENGTH_REASONS = frozenset({"length", "max_tokens", "model_length"})
_BROKEN_OFF_REASONS = frozenset({"abort", "error", "cancelled"})
_SNAPSHOT = r"[-@:]\d{3,}(-\d+)*"
_WORD_MARKS = " \t\n\r\u0120\u2581"  # blanks, and the marks that BPE and SentencePiece show for one


def chat_body(request: GenerationRequest, config: OpenAISettings, endpoint: EndpointConfig) -> dict[str, Any]:
    """The fields of the request's body besides `model` and `messages`."""
    body: dict[str, Any] = dict(config.extra_body)
    body[endpoint.max_tokens_field] = 1 if request.letters else request.max_tokens
    if endpoint.send_temperature:
        body.update(temperature=request.temperature, top_p=request.top_p)
    if config.send_seed:
        body["seed"] = request.seed
    if request.letters:
        body.update(logprobs=True, top_logprobs=endpoint.top_logprobs)
    return body


def read_chat(
    text: str, request: GenerationRequest, engine_id: str, redactor: Redactor, asked: str = ""
) -> Generation | Failure:
    """The generation in a body with status 200, or why there is none. asked: the model whose reply it has to be.

    Letters are read among the first token's `top_logprobs` (20 at most): one that is not there is None, as an endpoint
    cannot be asked for a token at any rank (the top-k truncation that li2026 calls failure F3c; engine vllm has no
    such limit).
    """
    try:
        body = json.loads(text)
    except ValueError:
        return _malformed(f"the body is not JSON: {text[:200]!r}", redactor)
    if not isinstance(body, dict):
        return _malformed(f"the body is a {type(body).__name__}, not an object", redactor)
    told = body.get("model")
    choice = _first(body.get("choices"))
    for holder in (body, choice):  # gateways report an upstream's error with status 200
        if isinstance(holder, dict) and holder.get("error"):
            return _error_in_body(holder, redactor)
    if choice is None:
        has = ", ".join(map(str, list(body)[:8])) or "nothing"
        return _malformed(f"the body has no choices; it has: {has}", redactor)
    if asked and isinstance(told, str) and told and not same_model(asked, told):
        return Failure(FailureKind.OTHER_MODEL, redactor.message(f"the reply is of model {told!r}, not of {asked!r}"))
    message = choice.get("message")
    if not isinstance(message, dict):
        return _malformed("the first choice has no message", redactor)
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        return Failure(FailureKind.ROW, "the endpoint's content filter withheld the reply")
    content = _content(message)
    if content is None:
        return _malformed("the message's content is not text", redactor)
    if reason in _BROKEN_OFF_REASONS or (reason is None and not content):
        return _malformed(f"the reply was broken off: finish_reason {reason!r}, {len(content)} characters", redactor)
    usage = _object(body.get("usage"))
    details = _object(usage.get("prompt_tokens_details"))
    generated, finish = content, FinishReason.LENGTH if reason in _LENGTH_REASONS else FinishReason.STOP
    letters: tuple[float | None, ...] = ()
    if request.letters:
        found = letter_logprobs(choice, request.letters)
        if found is None:
            return _malformed(
                "no logprobs in the reply; reading=letter_logprob needs an endpoint that returns top_logprobs "
                "(use reading=letter with this one)",
                redactor,
            )
        generated, finish, letters = "", FinishReason.SCORED, found
    return Generation(
        text=redactor.generation(generated),
        finish_reason=finish,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        cached_tokens=_count(details.get("cached_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        engine_id=engine_id,
        request_sha256=request_sha256(request),
        option_logprobs=letters,
    )


def letter_logprobs(choice: Mapping[str, Any], letters: Sequence[str]) -> tuple[float | None, ...] | None:
    """Logprob (nats) of each letter as the first token, probabilities of its token variants ("B", " B") added.

    None for a letter that is not among the tokens told; None for the whole when the choice has no logprobs.
    """
    logprobs = choice.get("logprobs")
    first = _first(logprobs.get("content")) if isinstance(logprobs, dict) else None
    if first is None or not isinstance(first.get("top_logprobs"), list):
        return None
    told: dict[str, float] = {}
    for entry in [*first["top_logprobs"], first]:  # the sampled token may stand outside the top
        if isinstance(entry, dict) and isinstance(entry.get("token"), str) and _is_number(entry.get("logprob")):
            told.setdefault(entry["token"], float(entry["logprob"]))
    if not told:
        return None
    return tuple(_log_sum([v for token, v in told.items() if token.strip(_WORD_MARKS) == letter]) for letter in letters)


def same_model(asked: str, told: str) -> bool:
    """Whether a reply that says it is of model `told` may be one of `asked`.

    The same name, or a dated snapshot of it ("gpt-4o-2024-08-06" of "gpt-4o"); who published it and "-latest" aside. A
    reply that names no model is not held against it.
    """
    ours, theirs = (name.rsplit("/", 1)[-1].casefold().removesuffix("latest").rstrip("-:") for name in (asked, told))
    return theirs == ours or re.fullmatch(re.escape(ours) + _SNAPSHOT, theirs) is not None


def listed_models(text: str) -> list[str] | None:
    """The ids that GET /models lists; None when the body is not such a list."""
    try:
        body = json.loads(text)
    except ValueError:
        return None
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, list):
        return None
    return [entry["id"] for entry in data if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


def _content(message: Mapping[str, Any]) -> str | None:
    """The reply's text. `reasoning_content` and `reasoning` are not the reply: cut off while thinking, it is empty."""
    content = message.get("content")
    if content is None:
        refusal = message.get("refusal")
        return refusal if isinstance(refusal, str) else ""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None


def _error_in_body(holder: Mapping[str, Any], redactor: Redactor) -> Failure:
    code, message = error_code_and_message(holder)
    message = redactor.message(message)
    if code.isdigit() and 400 <= int(code) < 600:
        return classify_status(int(code), "", message)
    return Failure(FailureKind.MALFORMED, f"status 200 with an error inside: {message}")


def _malformed(what: str, redactor: Redactor) -> Failure:
    return Failure(FailureKind.MALFORMED, redactor.message(f"malformed reply: {what}"))


def _first(value: Any) -> dict[str, Any] | None:
    return value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _log_sum(logs: Sequence[float]) -> float | None:
    if not logs:
        return None
    top = max(logs)
    if math.isinf(top):
        return top
    return top + math.log(sum(math.exp(value - top) for value in logs))
