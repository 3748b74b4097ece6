"""Rewording by a model: versioned prompts out, replies read back. Pure; who generates is a function (`requests`)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from audit.prompting.templates import fill, templates_sha256
from audit.prompting.thinking import strip_thinking
from audit.records import FinishReason, Generation, Question
from audit.variants.policy import Policy, split_text
from audit.variants.record import Candidate
from audit.variants.requests import Generate, ModelRequest, replies_of

JUDGE = "judge"
MAX_TOKENS = 1024
TEMPERATURE = 0.8  # candidates of one prompt are to differ
TOP_P = 0.95

_TAGGED = re.compile(r"<question>(.*?)</question>", re.DOTALL | re.IGNORECASE)
_OPEN = re.compile(r"</?question>", re.IGNORECASE)
_PREFACE = re.compile(
    r"\A(?:(?:sure|certainly|of course|okay|ok)[,.!:]?\s+)?(?:here(?:'s| is| are)[^\n:]{0,80}:|"
    r"(?:reworded|rephrased|paraphrased|new) (?:question|version)\s*:)\s*",
    re.IGNORECASE,
)
_OPTION_LINE = re.compile(r"\n\s*\(?A[).:]\s.*\n\s*\(?B[).:]\s", re.DOTALL)
_QUOTES = {'"': '"', "“": "”", "'": "'", "`": "`"}


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of a build: paraphrase styles in order, and the judge's. sha256 covers every template."""

    name: str
    version: str
    templates: Mapping[str, str]
    sha256: str

    @property
    def styles(self) -> tuple[str, ...]:
        return tuple(name for name in self.templates if name != JUDGE)


def load_prompts(mapping: Mapping[str, Any]) -> Prompts:
    """Of conf/rewording/prompts.yaml; a test holds its placeholders to what is filled in."""
    templates = dict(mapping["templates"])
    return Prompts(str(mapping["name"]), str(mapping["version"]), templates, templates_sha256(templates))


def paraphrase_requests(
    prompts: Prompts, question: Question, policy: Policy, numbers: Sequence[int]
) -> list[ModelRequest]:
    """One request for each candidate number: the style goes round."""
    context, stem = split_text(question.text, policy)
    lines = [f"{a}. {text}" for a, text in zip(ascii_uppercase, question.options, strict=False)]
    values = {
        "context": context.strip() or "(nothing)",
        "stem": stem,
        "options": "\n".join(lines) or "(none: the answer is written freely)",
    }
    return [
        ModelRequest(
            key=f"{question.id}#{number}",
            prompt=fill(prompts.templates[style_of(prompts, number)], values),
            max_tokens=MAX_TOKENS,
            temperature=TEMPERATURE,
            top_p=TOP_P,
        )
        for number in numbers
    ]


def style_of(prompts: Prompts, number: int) -> str:
    return prompts.styles[(number - 1) % len(prompts.styles)]


def read_paraphrase(reply: Generation) -> tuple[str, str | None]:
    """(the reworded question, why there is none). A cut-off reply without a closed tag is no text: half a question.

    Thinking, a preface ("Here is ...:"), enclosing quotes and options that were repeated are taken off.
    """
    if reply.error is not None or reply.finish_reason == FinishReason.ERROR:
        return "", reply.error or "the engine gave no reply"
    visible = strip_thinking(reply.text).text
    if tagged := _TAGGED.findall(visible):
        return _bare(tagged[-1]), None
    if reply.finish_reason == FinishReason.LENGTH:
        return "", "the reply was cut off at its token limit"
    return _bare(_PREFACE.sub("", _OPEN.sub("", visible).strip())), None


def _bare(text: str) -> str:
    text = text.strip()
    if options := _OPTION_LINE.search(text):
        text = text[: options.start()].rstrip()
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text.count(text[-1]) <= 2:
        text = text[1:-1].strip()
    return text


def paraphrase_candidates(
    generate: Generate,
    prompts: Prompts,
    needed: Sequence[tuple[Question, Sequence[int]]],
    policy: Policy,
    *,
    attempt: int,
) -> list[Candidate]:
    """The candidates of one attempt. needed: questions with the candidate numbers to make; one call of `generate`."""
    asked = [
        (question, number, request)
        for question, numbers in needed
        for number, request in zip(numbers, paraphrase_requests(prompts, question, policy, numbers), strict=True)
    ]
    replies = replies_of(generate, [request for _, _, request in asked])
    found = []
    for (question, number, _), reply in zip(asked, replies, strict=True):
        text, error = read_paraphrase(reply)
        found.append(Candidate(question.id, number, text, style_of(prompts, number), attempt, error))
    return found
