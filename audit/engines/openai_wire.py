"""Chat completions on the wire: a Request to a body, a body to a Generation or a Failure.

Bodies are read by hand: the client's models construct themselves from anything, such as a page of HTML."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from audit.engines.config import ModelConfig
from audit.engines.openai_config import EndpointConfig
from audit.engines.port import request_sha256
from audit.engines.redact import Redactor
from audit.engines.retry import Failure, Kind, classify_code, error_code_and_message
from audit.records import FinishReason, Generation
from audit.records import GenerationRequest as Request
from audit.shards.keys import clean_text

# Finish reasons as endpoints and gateways spell them. One that is in no list is no answer: such are an engine's own
# faults (DeepSeek's insufficient_system_resource, Zhipu's network_error), and new ones are made up without notice.
_WHOLE_REASONS = frozenset(
    {"stop", "eos", "eos_token", "stop_sequence", "end_turn", "complete", "normal", "tool_calls", "tool_use",
     "function_call"}
)  # fmt: skip
_LENGTH_REASONS = frozenset(
    {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded", "token_limit"}
)
_WITHHELD_REASONS = frozenset(
    {"sensitive", "safety", "refusal", "recitation", "blocklist", "prohibited_content", "spii", "guardrail_intervened"}
)
_BACKEND_CHARS = 64
_MAX_COUNT = 2**31  # more tokens than any request has; what shards hold is summed in 64 bits
_SNAPSHOT = r"[-@:]\d{3,}(-\d+)*"
_WORD_MARKS = " \t\n\r\u0120\u2581"  # blanks, and the marks that BPE and SentencePiece show for one


def chat_body(request: Request, model: ModelConfig, endpoint: EndpointConfig) -> dict[str, Any]:
    """The fields of the request's body besides `model` and `messages`."""
    body: dict[str, Any] = dict(model.extra_body)
    body[endpoint.max_tokens_field] = 1 if request.letters else request.max_tokens
    if endpoint.send_temperature:
        body.update(temperature=request.temperature, top_p=request.top_p)
    if model.send_seed:
        body["seed"] = request.seed
    if request.letters:
        body.update(logprobs=True, top_logprobs=endpoint.top_logprobs)
    return body


def read_chat(text: str, request: Request, engine_id: str, redactor: Redactor, asked: str = "") -> Generation | Failure:
    """The generation in a body with status 200, or why there is none. asked: the model whose reply it has to be.
    Letters are read among the first token's `top_logprobs` (20 at most): one that is not there is None, as an endpoint
    cannot be asked for a token at any rank (the top-k truncation that li2026 calls failure F3c; engine vllm has no such
    limit). Whatever the body is, nothing is raised, and a generation's text is valid Unicode."""
    body = _body(text, redactor)
    if isinstance(body, Failure):
        return body
    choice = _first(body.get("choices"))
    if choice is None:
        return _malformed(f"the body has no choices; it has {len(body)} other fields", redactor)
    if choice.get("error"):
        return _error_in_body(choice)
    told = body.get("model")
    if asked and isinstance(told, str) and told and not same_model(asked, told):
        return Failure(Kind.OTHER_MODEL, redactor.message(f"the reply is of model {told!r}, not of {asked!r}"))
    reply = _reply(choice, redactor)
    if isinstance(reply, Failure):
        return reply
    generated, finish = reply
    usage = _object(body, "usage")
    details = _object(usage, "prompt_tokens_details")
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
        text=clean_text(redactor.generation(generated)),
        finish_reason=finish,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        cached_tokens=_count(details.get("cached_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        engine_id=engine_id,
        request_sha256=request_sha256(request),
        backend=clean_text(redactor.generation(str(body.get("system_fingerprint") or "")))[:_BACKEND_CHARS],
        option_logprobs=letters,
    )


def _reply(choice: Mapping[str, Any], redactor: Redactor) -> tuple[str, FinishReason] | Failure:
    """The text of a choice and how it ended, or why it is no answer."""
    message = choice.get("message")
    if not isinstance(message, dict):
        return _malformed("the first choice has no message", redactor)
    reason = choice.get("finish_reason")
    word = reason.casefold() if isinstance(reason, str) else ""
    if word in _WITHHELD_REASONS or word.startswith("content_filter"):
        said = f"the endpoint's content filter withheld the reply: finish_reason {reason!r}"
        return Failure(Kind.ROW, redactor.message(said))
    content = _content(message)
    if content is None:
        return _malformed("the message's content is not text", redactor)
    whole = bool(content) if reason in (None, "") else word in _WHOLE_REASONS | _LENGTH_REASONS
    if not whole:
        return _malformed(f"the reply was broken off: finish_reason {reason!r}, {len(content)} characters", redactor)
    return content, FinishReason.LENGTH if word in _LENGTH_REASONS else FinishReason.STOP


def read_infer(text: str, request: Request, engine_id: str, redactor: Redactor) -> Generation | Failure:
    """The generation in {"response": ...} (`EndpointConfig.infers`), or why there is none."""
    body = _body(text, redactor)
    if isinstance(body, Failure):
        return body
    response = body.get("response")
    if not isinstance(response, str) or not response:
        return _malformed(f'expected {{"response": "..."}}, found {_shape(text)}', redactor)
    return Generation(
        text=clean_text(redactor.generation(response)),
        finish_reason=FinishReason.STOP,
        engine_id=engine_id,
        request_sha256=request_sha256(request),
    )


def letter_logprobs(choice: Mapping[str, Any], letters: Sequence[str]) -> tuple[float | None, ...] | None:
    """Logprob (nats) of each letter as the first token, probabilities of its token variants ("B", " B") added. None for
    a letter that is not among the tokens told; None for the whole when the choice has no logprobs."""
    first = _first(_object(choice, "logprobs").get("content"))
    if first is None or not isinstance(first.get("top_logprobs"), list):
        return None
    told: dict[str, float] = {}
    for entry in [*first["top_logprobs"], first]:  # the sampled token may stand outside the top
        value = _logprob(entry.get("logprob")) if isinstance(entry, dict) else None
        if value is not None and isinstance(entry.get("token"), str):
            told.setdefault(entry["token"], value)
    if not told:
        return None
    return tuple(_log_sum([v for token, v in told.items() if token.strip(_WORD_MARKS) == letter]) for letter in letters)


def same_model(asked: str, told: str) -> bool:
    """Whether a reply that says it is of model `told` may be one of `asked`: the same name, or a dated snapshot of it
    ("gpt-4o-2024-08-06" of "gpt-4o"); who published it and "-latest" aside."""
    ours, theirs = (name.rsplit("/", 1)[-1].casefold().removesuffix("latest").rstrip("-:") for name in (asked, told))
    return theirs == ours or re.fullmatch(re.escape(ours) + _SNAPSHOT, theirs) is not None


def listed_models(text: str) -> list[str]:
    """The ids that GET /models lists; none where the body is not such a list."""
    body = _body(text, Redactor(()))
    data = None if isinstance(body, Failure) else body.get("data")
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    return [entry["id"] for entry in entries if isinstance(entry.get("id"), str)]


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


def _error_in_body(holder: Mapping[str, Any]) -> Failure:
    return classify_code(*error_code_and_message(holder))


def _shape(text: str) -> str:
    """Return what a body is, without its words."""
    start = text.lstrip()[:1]
    kind = "a page" if start == "<" else "an object" if start == "{" else "a list" if start == "[" else "text"
    return f"{kind} of {len(text):,} characters" if text else "nothing"


def _malformed(what: str, redactor: Redactor) -> Failure:
    return Failure(Kind.MALFORMED, redactor.message(f"malformed reply: {what}"))


def _body(text: str, redactor: Redactor) -> dict[str, Any] | Failure:
    """The object in a reply; a Failure where there is none, or where it is an error: gateways report an upstream's
    with status 200."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):  # nested more deeply than Python reads
        return _malformed(f"the body is not JSON: {_shape(text)}", redactor)
    if not isinstance(body, dict):
        return _malformed(f"the body is a {type(body).__name__}, not an object", redactor)
    return _error_in_body(body) if body.get("error") else body


def _first(value: Any) -> dict[str, Any] | None:
    return value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else None


def _object(holder: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def _logprob(value: Any) -> float | None:
    """A logprob in nats, -inf included (a token that cannot come); None for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:  # JSON's integers have no bound
        return None
    return number if number < math.inf else None  # false for NaN too


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MAX_COUNT else 0


def _log_sum(logs: Sequence[float]) -> float | None:
    if not logs:
        return None
    top = max(logs)
    if math.isinf(top):
        return top
    return top + math.log(sum(math.exp(value - top) for value in logs))
