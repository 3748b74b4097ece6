"""Chat completions on the wire: bodies as endpoints send them, read without a socket."""

import json
import math
from typing import Any

import pytest
from faulty_server import completion, letters_completion
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.core.records import FinishReason, Generation, GenerationRequest
from audit.engines.openai_wire import listed_models, read_chat, same_model
from audit.engines.redact import Redactor
from audit.engines.retry import Failure, Kind, error_code_and_message


def read(body: Any, letters: tuple[str, ...] = ()) -> Generation | Failure:
    request = GenerationRequest("hi", affinity="q", label="direct/0", seed=7, letters=letters)
    return read_chat(
        body if isinstance(body, str) else json.dumps(body), request, "e", Redactor(()), "m"
    )


def generation(body: Any, letters: tuple[str, ...] = ()) -> Generation:
    got = read(body, letters)
    assert isinstance(got, Generation), got
    return got


def failure(body: Any, letters: tuple[str, ...] = ()) -> Failure:
    got = read(body, letters)
    assert isinstance(got, Failure), got
    return got


# --- why a reply ended ---

# By what it comes to: an answer, one that met a limit, none of an engine that gave up (DeepSeek's
# and Zhipu's own reasons were taken for answers), and none of a filter, which is that row's own.
ENDS: dict[FinishReason | Kind, list[Any]] = {
    FinishReason.STOP: [
        "stop",
        "STOP",
        "eos",
        "eos_token",
        "stop_sequence",
        "end_turn",
        "complete",
        "normal",
        "tool_calls",
        "tool_use",
        "function_call",
        None,
        "",
    ],
    FinishReason.LENGTH: ["length", "max_tokens", "MAX_TOKENS", "model_length", "token_limit"],
    Kind.MALFORMED: [
        "insufficient_system_resource",
        "network_error",
        "timeout",
        "time_limit",
        "not_finished",
        "error",
        "abort",
        "cancelled",
        "a word of tomorrow",
        5,
        ["stop"],
        {"stop": 1},
    ],
    Kind.ROW: [
        "content_filter",
        "content_filtered",
        "content_filter_error",
        "sensitive",
        "safety",
        "SAFETY",
        "refusal",
    ],
}


@pytest.mark.parametrize(
    ("reason", "end"), [(reason, end) for end, reasons in ENDS.items() for reason in reasons]
)
def test_why_a_reply_ended_says_what_it_is(reason: Any, end: FinishReason | Kind) -> None:
    got = read(completion("B", reason))
    assert (got.finish_reason if isinstance(got, Generation) else got.kind) is end
    if end is Kind.MALFORMED or not reason:  # nothing is no answer where nobody says that it is one
        assert failure(completion("", reason)).kind is Kind.MALFORMED


@pytest.mark.parametrize(
    ("body", "text", "finish"),
    [
        (
            completion("", "length", reasoning_content="hmm"),
            "",
            FinishReason.LENGTH,
        ),  # cut off while thinking
        (completion(None, "length", reasoning="hmm"), "", FinishReason.LENGTH),
        (completion("", "stop"), "", FinishReason.STOP),  # empty, but said to be complete
        (completion([{"type": "text", "text": "A"}]), "A", FinishReason.STOP),  # type: ignore[arg-type]
        (completion(None, "stop", refusal="I cannot."), "I cannot.", FinishReason.STOP),
    ],
)
def test_which_field_of_a_message_is_the_reply(
    body: dict[str, Any], text: str, finish: FinishReason
) -> None:
    got = generation(body)
    assert (got.text, got.finish_reason) == (text, finish)


# --- hostile bodies: each is one malformed reply, and nothing is raised ---


@pytest.mark.parametrize(
    "body", ["[" * 100_000, '{"a":' * 100_000, '{"choices": [' + "[" * 5000], ids=len
)
def test_deeply_nested_json_is_a_malformed_reply(body: str) -> None:
    assert failure(body).kind is Kind.MALFORMED
    assert listed_models(body) == []


def test_an_error_nested_as_deep_as_json_is_read_is_told_in_words() -> None:
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    for body in ({"error": {"message": nested}}, {"error": nested}):
        assert error_code_and_message(body) == ("", "nested too deeply to be shown")


@pytest.mark.parametrize(
    "value", ["1" + "0" * 400, "Infinity", "1e999", "NaN", "true", '"-1"', "null", "0.5", "700"]
)
def test_a_letter_without_a_logprob_is_no_reply(value: str) -> None:
    """B may be the answer, so A is not taken for it. Of a token that is no option nothing is
    needed, and 1e-7 is 0 but for rounding."""
    body = json.dumps(letters_completion({"A": -1.5, "B": -2.25})).replace("-2.25", value)
    assert failure(body, ("A", "B")).kind is Kind.MALFORMED
    assert generation(body, ("A", "C")).option_logprobs == (-1.5, None)
    assert generation(body.replace(value, "1e-7"), ("A", "B")).option_logprobs == (-1.5, 0.0)


@pytest.mark.parametrize(
    "body",
    [
        {"choices": []},
        {"object": "error"},
        [1, 2],
        {"choices": [{"finish_reason": "stop"}]},
        {"choices": [{"message": {"content": 5}, "finish_reason": "stop"}]},
        '{"choices": [{"message": {"content": "cut',
    ],
)
def test_a_body_without_a_reply_is_malformed(body: Any) -> None:
    assert failure(body).kind is Kind.MALFORMED


def test_letters_add_the_variants_of_a_token_and_leave_absent_ones_none() -> None:
    top = {"B": -1.0, " B": -2.0, "\u0120A": -3.0, "Because": -0.5, "b": -0.1}
    # B: log(e^-1 + e^-2) = -1 + log(1 + e^-1) = -0.6867; "Because" and "b" are other tokens; C was
    # not told.
    got = generation(letters_completion(top), ("A", "B", "C"))
    assert got.option_logprobs == pytest.approx((-3.0, -1 + math.log1p(math.exp(-1)), None))
    assert failure(completion("B"), ("A", "B")).kind is Kind.MALFORMED  # no logprobs: not an answer
    impossible = letters_completion({"A": -1.5, "B": float("-inf")})
    assert generation(impossible, ("A", "B")).option_logprobs == (-1.5, float("-inf"))


@pytest.mark.parametrize("count", [10**30, -1, 2.5, "7", True, None])
def test_a_count_that_no_request_has_is_not_counted(count: Any) -> None:
    """10**30 tokens fit no column of a shard."""
    got = generation({**completion("B"), "usage": {"prompt_tokens": count, "completion_tokens": 3}})
    assert (got.prompt_tokens, got.completion_tokens) == (0, 3)


_TEXT = st.text(st.characters(), max_size=5)  # half surrogate pairs among it
_PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | _TEXT
_ANY = st.recursive(
    _PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner)
)
_FIELDS = [
    "model",
    "choices",
    "usage",
    "error",
    "message",
    "content",
    "refusal",
    "finish_reason",
    "logprobs",
    "top_logprobs",
    "token",
    "logprob",
    "prompt_tokens",
    "prompt_tokens_details",
    "code",
    "type",
]


def _spoilt(value: Any, name: str, by: Any) -> Any:
    """A body with `by` in place of every field `name`."""
    if isinstance(value, dict):
        return {k: by if k == name else _spoilt(v, name, by) for k, v in value.items()}
    return [_spoilt(element, name, by) for element in value] if isinstance(value, list) else value


@settings(max_examples=300)
@given(st.sampled_from(_FIELDS), _ANY, st.booleans())
def test_whatever_a_body_holds_nothing_is_raised(name: str, by: Any, wrong: bool) -> None:
    body = letters_completion({"A": -1.5, "B": -2.0})
    body["choices"][0]["message"]["refusal"] = None
    if wrong:
        body["error"] = {"code": "c", "type": "t", "message": "m"}
    for letters in ((), ("A", "B")):
        got = read(_spoilt(body, name, by), letters)
        assert isinstance(got, Generation | Failure)
        assert (got.text if isinstance(got, Generation) else got.message).encode() is not None
    assert isinstance(read(json.dumps(by)), Failure)


@pytest.mark.parametrize("name", _FIELDS)
def test_no_depth_that_json_is_read_at_is_too_deep_for_a_field(name: str) -> None:
    body = json.dumps(_spoilt({**letters_completion({"A": -1.5}), "error": None}, name, "HERE"))
    for depth in (*range(80, 105), *range(900, 1000)):
        assert isinstance(
            read(body.replace('"HERE"', "[" * depth + "]" * depth), ("A",)), Generation | Failure
        )


def test_a_lone_surrogate_leaves_as_valid_text() -> None:
    """Arrow cannot hold it: the run stopped at the hand-over between two stages, every time."""
    assert generation(completion("cut \ud83d")).text == "cut \N{REPLACEMENT CHARACTER}"
    pieces = [{"type": "text", "text": half} for half in ("\ud83d", "\ude00")]
    assert generation(completion(pieces)).text == "\N{GRINNING FACE}"  # type: ignore[arg-type]
    assert "\ud83d" not in failure({"error": {"message": "cut \ud83d"}}).message


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "insufficient_quota"}, Kind.QUOTA),
        ({"code": None, "type": "insufficient_quota"}, Kind.QUOTA),
        ({"code": "Billing_Hard_Limit_Reached"}, Kind.QUOTA),
        ({"code": "rate_limit_exceeded"}, Kind.RATE_LIMIT),
        ({"type": "rate_limit_error"}, Kind.RATE_LIMIT),
        ({"code": "too_many_requests"}, Kind.RATE_LIMIT),
        ({"code": "context_length_exceeded"}, Kind.ROW),
        ({"code": 402}, Kind.QUOTA),
        ({"code": "503"}, Kind.UNAVAILABLE),
        ({"code": "server_error"}, Kind.MALFORMED),
        ({"code": 200}, Kind.MALFORMED),
        ({"code": "\u00b2"}, Kind.MALFORMED),  # a digit to str.isdigit, and no number to int
        ({"code": "4" * 5000}, Kind.MALFORMED),
    ],
)
def test_an_error_in_a_body_is_told_by_its_code(error: dict[str, Any], kind: Kind) -> None:
    assert failure({"error": {"message": "no", **error}}).kind is kind
    assert failure({"choices": [{"error": {"message": "no", **error}}]}).kind is kind


@pytest.mark.parametrize(
    ("requested", "replied", "same"),
    [
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("gpt-4o", "gpt-4o-mini-2024-07-18", False),
        ("claude-opus-4", "claude-opus-4-1-20250805", False),
        ("mistral-large-latest", "mistral-large-2411", True),
        ("llama3:latest", "llama3", True),
        ("Qwen/Qwen3-8B", "qwen3-8b", True),
        ("qwen3", "qwen3-8b", False),
    ],
)
def test_which_name_in_a_reply_is_the_models_own(requested: str, replied: str, same: bool) -> None:
    assert same_model(requested, replied) is same
