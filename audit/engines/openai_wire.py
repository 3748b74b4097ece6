"""Translate requests into the JSON bodies of chat completions, and parse the bodies of replies.

The parser of the client library is not used, since it accepts any text, even an HTML page.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from audit.core.guarded_files import parse_json
from audit.core.records import FinishReason, Generation
from audit.core.records import GenerationRequest as Request
from audit.engines.config import ModelConfig
from audit.engines.openai_config import EndpointConfig
from audit.engines.port import request_sha256
from audit.engines.redact import Redactor
from audit.engines.retry import Failure, Kind, classify_code, error_code_and_message
from audit.shards.keys import clean_text

REPLY_LIMIT_BYTES = 16 * 2**20
# These are the finish reasons of answers, as endpoints and gateways spell them. A reply with any
# other finish reason is not an answer. Some of the other reasons name a fault of the engine, such
# as DeepSeek's insufficient_system_resource, and new reasons appear without notice.
_COMPLETE_REASONS = frozenset(
    {
        "stop",
        "eos",
        "eos_token",
        "stop_sequence",
        "end_turn",
        "complete",
        "normal",
        "tool_calls",
        "tool_use",
        "function_call",
    }
)
_LENGTH_REASONS = frozenset(
    {
        "length",
        "max_tokens",
        "max_output_tokens",
        "model_length",
        "model_context_window_exceeded",
        "token_limit",
    }
)
_WITHHELD_REASONS = frozenset(
    {
        "sensitive",
        "safety",
        "refusal",
        "recitation",
        "blocklist",
        "prohibited_content",
        "spii",
        "guardrail_intervened",
    }
)
# Largest number of characters of an answer (about 130,000 tokens), so that the search for keys
# stays fast.
_TEXT_CHARS = 2**19
_BACKEND_CHARS, _BACKEND_CHARS_READ = 64, 4096
# Largest token count that is accepted from a reply. The limit keeps sums of token counts within 64
# bits.
_MAX_COUNT = 2**31
_ROUNDING = 1e-3  # tolerance in nats: the logarithm of a probability may exceed 0 only by rounding
_SNAPSHOT = r"[-@:]\d{3,}(-\d+)*"
_WORD_MARKS = (
    # Whitespace, and the characters that stand for a space in BPE and SentencePiece tokens.
    " \t\n\r\u0120\u2581"
)


def chat_body(request: Request, model: ModelConfig, endpoint: EndpointConfig) -> dict[str, Any]:
    """Return the JSON body of a chat request, without the fields `model` and `messages`.

    Parameters
    ----------
    request : Request
        The request to translate into JSON fields.
    model : ModelConfig
        Settings of the model.
    endpoint : EndpointConfig
        Settings of the endpoint, which state the fields that the endpoint accepts.

    Returns
    -------
    dict
        JSON fields.
    """
    body: dict[str, Any] = dict(model.extra_body)
    body[endpoint.max_tokens_field] = 1 if request.letters else request.max_tokens
    if endpoint.send_temperature:
        body.update(temperature=request.temperature, top_p=request.top_p)
    if model.send_seed:
        body["seed"] = request.seed
    if request.letters:
        body.update(logprobs=True, top_logprobs=endpoint.top_logprobs)
    return body


def read_chat(
    text: str, request: Request, engine_id: str, redactor: Redactor, expected_model: str = ""
) -> Generation | Failure:
    """Parse the body of a reply with status 200. Whatever the body contains, no exception is
    raised.

    Parameters
    ----------
    text : str
        Text of the reply's body.
    request : Request
        The request that the body answers.
    engine_id : str
        The engine's id, which the reply records.
    redactor : Redactor
        Removes keys from texts.
    expected_model : str
        The model that must have replied; "" accepts any model.

    Returns
    -------
    Generation or Failure
        A reply with valid Unicode, or a failure.

    Notes
    -----
    The logprobs of letters are read from the first token's `top_logprobs` (20 at most). A letter
    that is not among these tokens gets None. This is the top-k truncation that li2026 calls failure
    F3c. The engine vllm does not have this limitation, since it returns the logprob of a token
    whatever its rank.
    """
    body = _body(text, redactor)
    if isinstance(body, Failure):
        return body
    choice = _first(body.get("choices"))
    if choice is None:
        return _malformed(f"the body has no choices; it has {len(body)} other fields", redactor)
    if choice.get("error"):
        return _error_in_body(choice)
    replied = body.get("model")
    if (
        expected_model
        and isinstance(replied, str)
        and replied
        and not same_model(expected_model, replied)
    ):
        message = f"the reply is of model {replied!r}, not of {expected_model!r}"
        return Failure(Kind.OTHER_MODEL, redactor.message(message))
    reply = _reply(choice, redactor)
    if isinstance(reply, Failure):
        return reply
    generated, finish = reply
    usage = _object(body, "usage")
    details = _object(usage, "prompt_tokens_details")
    letters: tuple[float | None, ...] = ()
    if request.letters:
        logprobs = letter_logprobs(choice, request.letters)
        if logprobs is None:
            return _malformed(
                "the reply has no logprobs, or one is not a number up to 0; reading=letter_logprob needs an endpoint "
                "that returns top_logprobs (use reading=letter with this one)",
                redactor,
            )
        generated, finish, letters = "", FinishReason.SCORED, logprobs
    return Generation(
        text=clean_text(redactor.generation(generated)),
        finish_reason=finish,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        cached_tokens=_count(details.get("cached_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        engine_id=engine_id,
        request_sha256=request_sha256(request),
        backend=_backend(body.get("system_fingerprint"), redactor),
        option_logprobs=letters,
    )


def _backend(fingerprint: Any, redactor: Redactor) -> str:
    """Return the system_fingerprint in a server's reply, shortened and with keys removed."""
    text = str(fingerprint or "")[:_BACKEND_CHARS_READ]
    return clean_text(redactor.generation(text))[:_BACKEND_CHARS]


def _reply(choice: Mapping[str, Any], redactor: Redactor) -> tuple[str, FinishReason] | Failure:
    """Return the text and the finish reason of a choice, or a failure if the choice is no answer."""
    message = choice.get("message")
    if not isinstance(message, dict):
        return _malformed("the first choice has no message", redactor)
    reason = choice.get("finish_reason")
    word = reason.casefold() if isinstance(reason, str) else ""
    if word in _WITHHELD_REASONS or word.startswith("content_filter"):
        message_text = f"the endpoint's content filter withheld the reply: finish_reason {reason!r}"
        return Failure(Kind.ROW, redactor.message(message_text))
    content = _content(message)
    if content is None:
        return _malformed("the message's content is not text", redactor)
    if len(content) > _TEXT_CHARS:
        return _too_long(content, redactor)
    complete = (
        bool(content) if reason in (None, "") else word in _COMPLETE_REASONS | _LENGTH_REASONS
    )
    if not complete:
        return _malformed(
            f"the reply was interrupted: finish_reason {reason!r}, {len(content)} characters",
            redactor,
        )
    return content, FinishReason.LENGTH if word in _LENGTH_REASONS else FinishReason.STOP


def read_infer(
    text: str, request: Request, engine_id: str, redactor: Redactor
) -> Generation | Failure:
    """Parse {"response": ...}, the body of a reply from an endpoint at /infer.

    Parameters
    ----------
    text, request, engine_id, redactor
        The same parameters as those of `read_chat`.

    Returns
    -------
    Generation or Failure
        The reply, or a failure.
    """
    body = _body(text, redactor)
    if isinstance(body, Failure):
        return body
    response = body.get("response")
    if not isinstance(response, str) or not response:
        return _malformed(f'expected {{"response": "..."}}, found {_shape(text)}', redactor)
    if len(response) > _TEXT_CHARS:
        return _too_long(response, redactor)
    return Generation(
        text=clean_text(redactor.generation(response)),
        finish_reason=FinishReason.STOP,
        engine_id=engine_id,
        request_sha256=request_sha256(request),
    )


def letter_logprobs(
    choice: Mapping[str, Any], letters: Sequence[str]
) -> tuple[float | None, ...] | None:
    """Return the log-probability (nats) of each letter as the first token.

    Parameters
    ----------
    choice : mapping
        The first choice of a body.
    letters : sequence of str
        Letters of the options, such as A, B, C, D.

    Returns
    -------
    tuple or None
        The log-probability of each letter, or None for a letter that is not among the returned
        tokens. The probabilities of a letter's token variants ("B", " B") are added up.

        The whole result is None if the choice has no logprobs, or if the value of any letter is not
        the logarithm of a probability. If only the invalid value were left out, a wrong letter
        could count as the answer.
    """
    first = _first(_object(choice, "logprobs").get("content"))
    if first is None or not isinstance(first.get("top_logprobs"), list):
        return None
    by_token: dict[str, float | None] = {}
    # The sampled token may not be among the top tokens.
    for entry in [*first["top_logprobs"], first]:
        if isinstance(entry, dict) and isinstance(entry.get("token"), str):
            by_token.setdefault(entry["token"], _logprob(entry.get("logprob")))
    by_letter: dict[str, list[float]] = {}
    for token, value in by_token.items():
        letter = token.strip(_WORD_MARKS)
        if value is not None:
            by_letter.setdefault(letter, []).append(value)
        elif letter in letters:
            return None
    if not by_letter:
        return None
    return tuple(_log_sum(by_letter.get(letter, [])) for letter in letters)


def same_model(requested: str, replied: str) -> bool:
    """Return whether the model name in a reply can mean the requested model.

    Parameters
    ----------
    requested : str
        The model that was requested.
    replied : str
        The model that the reply names.

    Returns
    -------
    bool
        True if the names are equal, or if the reply names a dated snapshot of the requested model.
        For example, "gpt-4o-2024-08-06" is a snapshot of "gpt-4o". The publisher's name and
        "-latest" are ignored.
    """
    requested_name, replied_name = _model_name(requested), _model_name(replied)
    return (
        replied_name == requested_name
        or re.fullmatch(re.escape(requested_name) + _SNAPSHOT, replied_name) is not None
    )


def _model_name(name: str) -> str:
    """Return a model's name without its publisher and "-latest"."""
    return name.rsplit("/", 1)[-1].casefold().removesuffix("latest").rstrip("-:")


def listed_models(text: str) -> list[str]:
    """Read the body of GET /models.

    Parameters
    ----------
    text : str
        Text of the reply's body.

    Returns
    -------
    list of str
        The ids of the models; an empty list if the body is not a list of models.
    """
    body = _body(text, Redactor(()))
    data = None if isinstance(body, Failure) else body.get("data")
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    ids = []
    for entry in entries:
        if isinstance(entry.get("id"), str):
            ids.append(entry["id"])
    return ids


def _content(message: Mapping[str, Any]) -> str | None:
    """Return the text of a reply without its reasoning part.

    The text is "" if the reply was cut off during the reasoning.
    """
    content = message.get("content")
    if content is None:
        refusal = message.get("refusal")
        return refusal if isinstance(refusal, str) else ""
    if isinstance(content, list):
        parts = []
        for part in content:
            if isinstance(part, dict) and part.get("type") == "text":
                parts.append(part.get("text"))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None


def _error_in_body(holder: Mapping[str, Any]) -> Failure:
    return classify_code(*error_code_and_message(holder))


def _shape(text: str) -> str:
    """Describe the kind and length of a reply's body without quoting the body."""
    if not text:
        return "nothing"
    kinds = {"<": "a page", "{": "an object", "[": "a list"}
    return f"{kinds.get(text.lstrip()[:1], 'text')} of {len(text):,} characters"


def _malformed(problem: str, redactor: Redactor) -> Failure:
    return Failure(Kind.MALFORMED, redactor.message(f"malformed reply: {problem}"))


def _too_long(content: str, redactor: Redactor) -> Failure:
    expected = f"Expected at most {_TEXT_CHARS:,}"
    return _malformed(f"the answer has {len(content):,} characters. {expected}", redactor)


def _body(text: str, redactor: Redactor) -> dict[str, Any] | Failure:
    """Return the JSON object in a body, or a Failure.

    A gateway may report an error of another server with status 200. Therefore the function also
    returns a Failure for a body that contains an error.
    """
    try:
        body = parse_json(text.encode(errors="surrogatepass"), REPLY_LIMIT_BYTES)
    except ValueError:
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
    """Return a value if it is a log-probability in nats (at most 0, may be -inf); None if it is
    not.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:  # JSON integers have no limit, so float() may overflow.
        return None
    # For NaN this comparison is false, so the function returns None.
    return min(number, 0.0) if number <= _ROUNDING else None


def _count(value: Any) -> int:
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MAX_COUNT
        else 0
    )


def _log_sum(logs: Sequence[float]) -> float | None:
    if not logs:
        return None
    top = max(logs)
    if math.isinf(top):
        return top
    return top + math.log(sum(math.exp(value - top) for value in logs))
