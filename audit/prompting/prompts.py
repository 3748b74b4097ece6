"""What the routers and the worker are sent (song2026, section 4.3). Pure: a protocol and records in, text out.

The worker's prompt in a router arm is made from the messages, the number of options and the reading; there is no
question among its arguments, so it cannot hold what the messages do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase

from audit.errors import BenchmarkError
from audit.prompting.templates import check_reading, fill
from audit.prompting.thinking import strip_thinking
from audit.records import Arm, Protocol, Question, Reading

MAX_OPTIONS = len(ascii_uppercase)

_READING_SUFFIX = {Reading.LETTER: "letter", Reading.LETTER_LOGPROB: "letter", Reading.OPTION_TEXT: "option_text"}


def letters_of(n_options: int) -> tuple[str, ...]:
    """The letters of n options: ("A", "B", ...), 2 to 26 of them; BenchmarkError otherwise."""
    if not 2 <= n_options <= MAX_OPTIONS:
        raise BenchmarkError(f"A question has {n_options} options. Expected 2 to {MAX_OPTIONS}, lettered A to Z.")
    return tuple(ascii_uppercase[:n_options])


def question_text(protocol: Protocol, question: Question) -> str:
    """The stem and the lettered options as the protocol lays them out; the gold option is not marked.

    A cloze protocol lays out the stem only.
    """
    letters = letters_of(len(question.options))
    option = protocol.templates["option"]
    lines = [fill(option, {"letter": a, "text": t}) for a, t in zip(letters, question.options, strict=True)]
    return fill(protocol.templates["question"], {"stem": question.text, "options": "\n".join(lines)})


def router_prompt(protocol: Protocol, question: Question, arm: Arm) -> str:
    """What every router of an arm is sent; routers of one question differ in their seeds only."""
    if arm == Arm.DIRECT:
        raise ValueError("The direct arm has no router. Expected forward_full or noisy_rewrite.")
    return fill(protocol.templates[f"router_{arm.value}"], {"question": question_text(protocol, question)})


def aggregate(protocol: Protocol, messages: Sequence[str]) -> str:
    """The messages in order, numbered from 1, as the worker sees them; their number is not stated.

    A router's thinking is removed: it is not part of what a model says, and it tends to solve the question.
    """
    return "\n\n".join(
        fill(protocol.templates["message"], {"index": str(i), "text": strip_thinking(message).text})
        for i, message in enumerate(messages, start=1)
    )


def worker_prompt(protocol: Protocol, messages: Sequence[str], n_options: int, reading: Reading) -> str:
    """What the worker is sent in a router arm.

    The prompts for the first r and r+1 of the same messages are equal up to the end of message r, as far as the
    template puts its instructions before `{messages}`; an engine's prefix cache then serves that part.
    """
    if not messages:
        raise ValueError("A worker prompt needs at least one router message; the direct arm uses direct_prompt.")
    return _answering(protocol, "worker", "messages", aggregate(protocol, messages), n_options, reading)


def direct_prompt(protocol: Protocol, question: Question, reading: Reading) -> str:
    """What the worker is sent in the direct arm: the same instructions around the original question."""
    return _answering(protocol, "direct", "question", question_text(protocol, question), len(question.options), reading)


def _answering(protocol: Protocol, who: str, slot: str, content: str, n_options: int, reading: Reading) -> str:
    check_reading(protocol, reading)
    letters = letters_of(n_options)
    listed = f"{', '.join(letters[:-1])} or {letters[-1]}"
    return fill(protocol.templates[f"{who}_{_READING_SUFFIX[reading]}"], {slot: content, "letters": listed})
