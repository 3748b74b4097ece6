"""What every audit shows of a question, and how it asks for the answer. Pure: a protocol and records in, text out."""

import hashlib
import json
from string import ascii_uppercase

from audit.errors import BenchmarkError
from audit.prompting.templates import OF_READING, check_reading, fill
from audit.records import Protocol, Question, Reading

MAX_OPTIONS = len(ascii_uppercase)

_READING_SUFFIX = {Reading.LETTER: "letter", Reading.LETTER_LOGPROB: "letter", Reading.OPTION_TEXT: "option_text"}


def letters_of(n_options: int) -> tuple[str, ...]:
    """The letters of n options: ("A", "B", ...), 2 to 26 of them; BenchmarkError otherwise."""
    if not 2 <= n_options <= MAX_OPTIONS:
        raise BenchmarkError(f"A question has {n_options} options. Expected 2 to {MAX_OPTIONS}, lettered A to Z.")
    return tuple(ascii_uppercase[:n_options])


def question_text(protocol: Protocol, question: Question) -> str:
    """The stem and the lettered options as the protocol lays them out; the gold option is not marked.

    A cloze protocol lays out the stem only. So does any other where the answer is a number or code.
    """
    if question.target is not None or question.code is not None:
        return fill(protocol.templates["question"], {"stem": question.text, "options": ""}).rstrip()
    letters = letters_of(len(question.options))
    option = protocol.templates["option"]
    lines = [fill(option, {"letter": a, "text": t}) for a, t in zip(letters, question.options, strict=True)]
    return fill(protocol.templates["question"], {"stem": question.text, "options": "\n".join(lines)})


def direct_prompt(protocol: Protocol, question: Question, reading: Reading) -> str:
    """The question itself, with the instructions of the reading."""
    text = question_text(protocol, question)
    return answering_prompt(protocol, "direct", "question", text, len(question.options), reading)


def answering_prompt(protocol: Protocol, who: str, slot: str, content: str, n_options: int, reading: Reading) -> str:
    """The template `<who>_letter`, `<who>_option_text`, ..., as the reading wants, with `content` in its `slot`."""
    check_reading(protocol, reading)
    if reading in OF_READING:
        return fill(protocol.templates[f"{who}_{reading}"], {slot: content})
    letters = letters_of(n_options)
    listed = f"{', '.join(letters[:-1])} or {letters[-1]}"
    return fill(protocol.templates[f"{who}_{_READING_SUFFIX[reading]}"], {slot: content, "letters": listed})


SEED_BITS = 31  # engines take a signed 32-bit seed


def request_seed(
    *,
    run_seed: int,
    model: str,
    benchmark: str,
    question_id: str,
    arm: str,
    level: int | None,
    replicate: int,
    role: str,
    index: int = 0,
    kind: str = "",
) -> int:
    """A seed in 0..2**31-1: the first 31 bits of a sha256 over the key.

    level: None for a call that several levels share. role: which call of a row this is (the answer, or one
    before it); index: which of several of that role, from 0. kind: of the design. Replicates differ in every arm. The
    model's revision is not part of the key: the seed is known before a revision is resolved.
    """
    key = [run_seed, model, benchmark, question_id, str(arm), level, replicate, role, index, *([kind] if kind else [])]
    # JSON of a list keeps the fields apart: ("ab", "c") and ("a", "bc") are different keys.
    digest = hashlib.sha256(json.dumps(key, separators=(",", ":")).encode("ascii")).digest()
    return int.from_bytes(digest[:4], "big") >> (32 - SEED_BITS)
